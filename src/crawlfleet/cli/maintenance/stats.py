"""`crawlfleet stats`: how many tasks wait in each class, and how many there are in each status."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli.command import Call, api_command

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import QueueSizesView, StatsView

CLASSES = ("high", "normal", "low", "retry")
_HEAD_EVERY = 20
_ENDS = ("completed", "failed", "timeout", "cancelled")


def add_to(app: typer.Typer) -> None:
    api_command(
        app,
        "stats",
        "crawlfleet stats",
        "crawlfleet stats --watch",
        "crawlfleet stats --watch --every 10 --json",
    )(show_stats)


def show_stats(
    call: Call,
    watch: Annotated[bool, typer.Option("--watch", help="Print a line again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.5, max=3_600, help="Seconds between two lines.")] = 2.0,
) -> None:
    """Show how many tasks wait: high, normal, low, and for a retry; and the totals by status."""
    if watch:
        _watch_stats(call, every)
        return
    sizes, stats = call.client.queue_sizes(), call.client.stats()
    if call.out.is_json:
        call.out.print_json(_stats_json(sizes, stats))
        return
    call.out.print_table(("QUEUE", "WAITING"), [(name, f"{getattr(sizes, name):,}") for name in CLASSES])
    counts = ", ".join(f"{count:,} {word}" for word, count in stats.by_status.items() if count)
    call.out.print_sentence(f"tasks: {stats.total:,}" + (f" ({counts})" if counts else ""))


def _watch_stats(call: Call, every_s: float) -> None:
    """A line at each interval; what ended is counted from line to line."""
    ended_before: int | None = None
    line = 0
    while True:
        sizes, stats = call.client.queue_sizes(), call.client.stats()
        if call.out.is_json:
            call.out.print_json_line({"at": _now_text(), **_stats_json(sizes, stats)})
        else:
            if line % _HEAD_EVERY == 0:
                heads = (*(name.upper() for name in CLASSES), "RUNNING", "ENDED", "ENDED/S")
                call.out.print_text("TIME      " + " ".join(f"{head:>9}" for head in heads))
            ended = sum(stats.by_status.get(word, 0) for word in _ENDS)
            running = stats.by_status.get("assigned", 0) + stats.by_status.get("processing", 0)
            rate = "" if ended_before is None else f"{max(0, ended - ended_before) / every_s:.1f}"
            figures = (*(f"{getattr(sizes, name):,}" for name in CLASSES), f"{running:,}", f"{ended:,}", rate)
            call.out.print_text(f"{_now_text()[11:19]}  " + " ".join(f"{figure:>9}" for figure in figures))
            ended_before = ended
        line += 1
        time.sleep(every_s)


def _stats_json(sizes: QueueSizesView, stats: StatsView) -> dict[str, Any]:
    return {"queues": sizes, "tasks": stats}


def _now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
