"""`python -m bench.history`: how large a full history of task figures is, and how long a chart of it takes to read.

The bounds are promised: 300 series filled in every span take less than 60 MB, and 360 points are read within 5 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from random import Random

from bench.table import say
from crawlfleet.model.figures import task_figures as figures
from crawlfleet.model.status import ExecutionStatus
from crawlfleet.store import schema
from crawlfleet.store.admin.task_figures import encode_row
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.sqlite.engine import SqliteEngine
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.store import SqlStore

READS = 50
_NOW = 1_700_000_000_000 - 1_700_000_000_000 % 86_400_000
_COLUMNS = tuple(column.name for column in schema.figure.columns)


def busy_row(rng: Random) -> list[int]:
    """The figures of a minute in which a few hundred executions ended."""
    row = figures.empty_row()
    row[figures.SUBMITTED] = row[figures.ASSIGNED] = row[figures.TASKS_COMPLETED] = 300
    for _ in range(300):
        ran_ms, wait_ms = round(rng.lognormvariate(7, 1.5)), round(rng.lognormvariate(4, 2))
        figures.record_execution_end(row, ExecutionStatus.COMPLETED, ran_ms=ran_ms, wait_ms=wait_ms)
    return row


def history_rows(series: int, rng: Random) -> list[Row]:
    samples = [encode_row(figures.trim_row(busy_row(rng))) for _ in range(50)]
    return [
        (f"project:project-{number:04}", span_s, _NOW - place * span_s * 1000, rng.choice(samples))
        for number in range(series)
        for span_s, keep_ms in figures.KEEP_MS.items()
        for place in range(keep_ms // (span_s * 1000))
    ]


async def measure(series: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.sqlite3"
        migrate_sqlite(path)
        empty = path.stat().st_size
        engine = SqliteEngine(path)
        rows = history_rows(series, Random(1))

        async def fill(tx: Tx) -> None:
            await tx.insert(schema.figure, _COLUMNS, sorted(rows))

        await engine.write(fill)
        store = SqlStore(engine)
        took = []
        for number in range(READS):
            name = f"project:project-{number * 7 % series:04}"
            began = time.perf_counter()
            points = (await store.figure_history([name], figures.MINUTE_S, 0, _NOW + 1, 360))[name]
            took.append((time.perf_counter() - began) * 1000)
            assert len(points) == 360
        await store.close()
        size = (path.stat().st_size - empty) / 1e6
    say(f"{series} series, {len(rows):,} rows: {size:.1f} MB; 360 points in {statistics.median(took):.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=300)
    asyncio.run(measure(parser.parse_args().series))


if __name__ == "__main__":
    main()
