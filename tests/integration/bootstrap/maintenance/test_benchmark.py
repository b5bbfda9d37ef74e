"""The benchmark runs on each store, divides by the raw loop, and leaves nothing behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from crawlfleet.bootstrap.maintenance import benchmark, postgres_programs
from crawlfleet.bootstrap.maintenance.benchmark import make_report, run_benchmark
from crawlfleet.errors import Conflict
from crawlfleet.settings.master import MasterSettings
from tests.integration.bootstrap.maintenance.conftest import Places
from tests.integration.bootstrap.maintenance.installations import fill, names_below

pytestmark = pytest.mark.integration


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name, value in (("RAW_S", 0.05), ("SUBMITTED", 20), ("SUBMIT_BATCH", 10), ("SINGLES", 2), ("NODES", 1)):
        monkeypatch.setattr(benchmark, name, value)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


async def test_two_rounds_at_least_and_nothing_is_left(places: Places, small: Path) -> None:
    store = places.settings("unused").store
    is_sqlite = store.startswith("sqlite")
    rounds: list[int] = []
    report = await run_benchmark(0.0, None if is_sqlite else store, lambda number, _: rounds.append(number))
    assert (rounds, report.rounds) == ([1, 2], 2)
    assert [figure.name for figure in report.figures] == ["submit, 500 at once", "submit to completed", "submit one"]
    assert all(figure.value > 0 and figure.raw > 0 and figure.ratio > 0 for figure in report.figures)
    assert names_below(small) == set()
    if not is_sqlite:
        async with postgres_programs.connected(store) as connection:
            assert not await postgres_programs.has_tables(connection)
            assert await connection.fetchval("SELECT to_regclass('crawlfleet_bench')") is None


@pytest.mark.postgres
async def test_a_database_with_an_installation_is_refused(postgres_dsn: str, tmp_path: Path) -> None:
    await fill(MasterSettings(data_dir=tmp_path, port=0, store=postgres_dsn), 1)
    with pytest.raises(Conflict, match="needs an empty database"):
        await run_benchmark(0.0, postgres_dsn, lambda _number, _elapsed: None)
    async with postgres_programs.connected(postgres_dsn) as connection:
        assert await connection.fetchval("SELECT COUNT(*) FROM task") == 1


def test_medians_are_compared_and_a_raw_loop_that_varies_is_told() -> None:
    calm = {"raw_insert": 100.0, "submit": 50.0, "raw_move": 10.0, "cycle": 1.0, "raw_commit_ms": 1.0, "single_ms": 2.0}
    report = make_report("sqlite", [calm, {**calm, "submit": 10.0}, {**calm, "submit": 60.0}], 1.0)
    assert [figure.ratio for figure in report.figures] == [0.5, 0.1, 2.0]
    assert (report.noise, report.is_quiet) == (0.0, True)
    busy = make_report("sqlite", [calm, calm, {**calm, "raw_move": 30.0}], 1.0)
    assert (busy.noise, busy.is_quiet) == (2.0, False)
