"""Wait for tasks with a bar, and what bars say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from crawlfleet.cli.exits import Complaint, ExitCode
from crawlfleet.observe.terminal_text import escape_line

if TYPE_CHECKING:
    from crawlfleet.cli.command import Call
    from crawlfleet.client.models import GroupView, TaskView


FIGURES_CHARS = 100


def watch_tasks(
    call: Call, ids: Sequence[str], timeout: float | None, *, with_results: bool = True
) -> Sequence[TaskView]:
    """The tasks once all are final. A timeout is exit code 4: none of them is known to have failed."""
    with left_alone(call, "task", ids):
        return _watched(call, ids, timeout, with_results)


@contextmanager
def left_alone(call: Call, noun: str, ids: Sequence[str]) -> Iterator[None]:
    """Who waits no longer has not stopped anything, and should know."""
    try:
        yield
    except KeyboardInterrupt:
        who = f"{ids[0]} goes on" if len(ids) == 1 else f"{len(ids)} {noun}s go on"
        one = ids[0] if len(ids) == 1 else noun.upper()
        call.out.note(f"{who}: crawlfleet {noun} watch {one} waits again, crawlfleet {noun} cancel {one} stops it")
        raise


def _watched(call: Call, ids: Sequence[str], timeout: float | None, with_results: bool) -> Sequence[TaskView]:
    from crawlfleet.client import WaitTimeout

    with call.out.bar() as bar:
        line = bar.add_task("waiting", total=len(set(ids)), note="")

        def told(done: int, _: int) -> None:
            bar.update(line, completed=done)

        def looked(task: TaskView) -> None:
            bar.update(line, note=figures(task.progress))

        # Of several there is no room for what each one tells.
        on_look = looked if len(set(ids)) == 1 and not bar.disable else None
        try:
            return call.client.wait(ids, timeout, told, with_results=with_results, on_look=on_look)
        except WaitTimeout as exc:
            hint = f"crawlfleet task why {exc.open_ids[0]}" if exc.open_ids else None
            raise Complaint(str(exc), ExitCode.TASK_NOT_COMPLETED, hint) from exc


def figures(progress: object) -> str:
    """`pages 12, queued 30`: as the executor told them, fit for a bar, which reads brackets as markup."""
    from rich.markup import escape

    if not isinstance(progress, dict):
        return ""
    told = ", ".join(f"{name} {value}" for name, value in progress.items() if isinstance(value, int | float | str))
    return escape(escape_line(told[:FIGURES_CHARS]))


def group_done(group: GroupView) -> tuple[int, int]:
    """Of how many how many are done: of a crawl its pages, of others their members."""
    if (crawl := group.crawl) is not None:
        visited = crawl.pages + crawl.failed + crawl.skipped + crawl.moved
        return visited, max(visited, min(crawl.found, crawl.max_pages + visited - crawl.pages))
    return group.progress.total - group.progress.open, group.progress.total


def group_note(group: GroupView) -> str:
    """`2 failed, 12.5/s, 40 s left`"""
    progress = group.progress
    bad = progress.failed + progress.timeout + progress.cancelled
    if (crawl := group.crawl) is not None:
        rate = crawl.lately_per_s or crawl.rate_per_s
        told = [
            f"{crawl.items} items",
            f"{crawl.failed} failed" if crawl.failed else "",
            "" if rate is None else f"{rate:.3g}/s",
            "" if crawl.left_s is None else f"{crawl.left_s:.0f} s left",
        ]
        return ", ".join(filter(None, told))
    said = [
        f"{bad} failed" if bad else "",
        "" if progress.rate_per_s is None else f"{progress.rate_per_s:.3g}/s",
        "" if progress.left_s is None else f"{progress.left_s:.0f} s left",
    ]
    return ", ".join(filter(None, said))


def failed_message(task: TaskView) -> str:
    why = task.error.message if task.error is not None else task.reason
    return f"{task.id} ended as {task.status}" + (f": {why}" if why else "")


def print_notes(call: Call, notes: Sequence[str] | None) -> None:
    """What a person should know of a result, beside it: the result itself is for programs."""
    for note in notes or ():
        call.out.note(f"note: {note}")
