"""The chapters in their order, and the command that tells them."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

from crawlfleet.errors import CrawlfleetError

from . import choosing, crawling, filters, flows, knowing, schedules, sharing, waiting
from .cluster import MACHINES, running_cluster
from .narrator import Narrator
from .stage import Stage

CHAPTERS: Mapping[str, Callable[[Stage], None]] = {
    "cron-begins": schedules.cron_begins,
    "load": choosing.by_load,
    "turn": choosing.by_turn,
    "size": choosing.by_size,
    "own": choosing.by_own_rule,
    "place": knowing.by_place,
    "record": knowing.by_record,
    "blocks": knowing.by_blocks,
    "filters": filters.refusals,
    "resources": filters.reservations,
    "quota": sharing.quota,
    "preemption": sharing.preemption,
    "flow": flows.flow,
    "shards": crawling.shards,
    "host": crawling.host_budget,
    "schedules": schedules.overlaps,
    "why": waiting.whys,
    "cron": schedules.cron_fires,
}


def main(arguments: Sequence[str]) -> int:
    unknown = [name for name in arguments if name not in CHAPTERS]
    if unknown:
        print(f"error: no chapter {', '.join(unknown)}\nhint: there are {', '.join(CHAPTERS)}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()
    try:
        differs = _tell(Narrator(), arguments or list(CHAPTERS))
    except KeyboardInterrupt:
        print("\nStopped. Everything that was started has ended.")
        return 130
    except TimeoutError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    print(f"\n{len(arguments or CHAPTERS)} chapters in {time.monotonic() - began:.0f} s.")
    for name, what in differs.items():
        print(f"✗ {name}: {what}", file=sys.stderr)
    return 1 if differs else 0


def _tell(tell: Narrator, chapters: Sequence[str]) -> dict[str, str]:
    """What differs from what is documented, by chapter."""
    differs: dict[str, str] = {}
    tell.chapter("A cluster", f"One master and {len(MACHINES)} workers, each a process of this machine.")
    with running_cluster(tell.command) as cluster:
        stage = Stage(cluster, tell)
        for name in chapters:
            try:
                CHAPTERS[name](stage)
            except (AssertionError, CrawlfleetError) as exc:
                differs[name] = str(exc)
                tell.note(f"✗ {exc}")
    return differs


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
