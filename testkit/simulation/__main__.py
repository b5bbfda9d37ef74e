"""`python -m testkit.simulation --seeds 200 --start 0` runs seeds: a line per failing seed, and an exit code."""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import structlog

from testkit.simulation.run import Verdict, make_template, run_seed


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulate", description="Run the cluster in virtual time under faults.")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds (default 200)")
    parser.add_argument("--start", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("--verbose", action="store_true", help="every violation, and the masters' log")
    args = parser.parse_args()
    if not args.verbose:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    # A seed takes a second and cleans up after itself: collecting garbage meanwhile is a tenth of its time.
    gc.freeze()
    gc.disable()
    began = time.monotonic()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="crawlfleet-sim-") as folder:
        template = make_template(Path(folder))
        seeds = range(args.start, args.start + args.seeds)
        for verdict in _verdicts(seeds, template, args.jobs):
            if not verdict.is_clean:
                failed += 1
                _say(str(verdict))
                if args.verbose:
                    for violation in verdict.violations:
                        _say(f"    {violation}")
    took = time.monotonic() - began
    _say(f"{args.seeds} seeds from {args.start}: {failed} failed, {took:.1f} s")
    return 1 if failed else 0


def _verdicts(seeds: Iterable[int], template: Path, processes: int) -> Iterable[Verdict]:
    if processes <= 1:
        yield from (run_seed(seed, template) for seed in seeds)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(partial(run_seed, template=template), seeds)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of text would differ between processes: a seed must replay exactly.
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
