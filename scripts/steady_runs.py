"""Run tests again and again under different conditions, and print which of them failed under which.

    python scripts/steady_runs.py --times 3 tests/processes

The conditions: the machine as it is, all of its cores kept busy by something else, the test site answering in no time,
and the test site taking 50 ms for each page. What each run said is kept in build/steady/.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "steady"
BURN = "while True: pass"


@dataclass(frozen=True, slots=True)
class Condition:
    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    burners: int = 0
    """Processes that only compute."""


CONDITIONS = (
    Condition("as-it-is"),
    Condition("busy", burners=len(os.sched_getaffinity(0))),
    Condition("page-0ms", {"TEST_SITE_PAGE_DELAY_S": "0"}),
    Condition("page-50ms", {"TEST_SITE_PAGE_DELAY_S": "0.05"}),
)


@dataclass(frozen=True, slots=True)
class Run:
    condition: str
    tests: int
    failed: tuple[str, ...]
    took_s: float


def read_failures(report: Path) -> tuple[int, tuple[str, ...]]:
    """The number of tests, and those that failed, from a report in JUnit's format."""
    if not report.exists():
        return 0, ("(the run itself: there is no report of it)",)
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [
        f"{case.get('classname', '').replace('.', '/')}::{case.get('name', '')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    return len(cases), tuple(dict.fromkeys(failed))


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    burning = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def run_tests(condition: Condition, number: int, arguments: Sequence[str]) -> Run:
    KEPT.mkdir(parents=True, exist_ok=True)
    report, said = KEPT / f"{condition.name}-{number}.xml", KEPT / f"{condition.name}-{number}.log"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *arguments]
    began = time.monotonic()
    with busy_cores(condition.burners), said.open("wb") as log:
        code = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **condition.environment}, stdout=log, stderr=log, check=False
        ).returncode
    tests, failed = read_failures(report)
    if code and not failed:
        failed = (f"(the run itself: exit code {code}, see {said.relative_to(ROOT)})",)
    return Run(condition.name, tests, failed, time.monotonic() - began)


def failure_table(runs: Sequence[Run], conditions: Sequence[str]) -> str:
    """One line for each test that failed at all: in how many of how many runs, under each condition."""
    made = Counter(run.condition for run in runs)
    failed: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        for test in run.failed:
            failed[test][run.condition] += 1
    heads = [f"{name} ({made[name]} runs)" for name in conditions]
    rows = [
        [str(counts[name]) if counts[name] else "-" for name in conditions] + [test]
        for test, counts in sorted(failed.items())
    ]
    rows = rows or [["-"] * len(conditions) + ["none failed"]]
    widths = [max(len(heads[place]), *(len(row[place]) for row in rows)) for place in range(len(conditions))]
    lines = [[*heads, "failed"], *rows]
    return "\n".join(
        "  ".join([*(cell.rjust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]) for line in lines
    )


def parse_arguments(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description="Run tests again and again under different conditions.")
    parser.add_argument("--times", type=int, default=3, help="runs under each condition")
    parser.add_argument(
        "--under", action="append", choices=[one.name for one in CONDITIONS], help="only these conditions"
    )
    return parser.parse_known_args(argv)


def main(argv: Sequence[str]) -> int:
    asked, arguments = parse_arguments(argv)
    chosen = [one for one in CONDITIONS if not asked.under or one.name in asked.under]
    names = [one.name for one in chosen]
    runs: list[Run] = []
    for condition in chosen:
        for number in range(1, asked.times + 1):
            run = run_tests(condition, number, arguments or ["tests/processes"])
            runs.append(run)
            counts = f"{run.tests} tests, {len(run.failed)} failed, {run.took_s:.0f} s"
            sys.stdout.write(f"{condition.name} {number}/{asked.times}: {counts}\n")
            sys.stdout.flush()
    sys.stdout.write(f"\n{failure_table(runs, names)}\n")
    return 1 if any(run.failed for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
