"""Wait for tasks with a bar, and what bars say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crawlfleet.cli.exit_codes import Complaint, ExitCode
from crawlfleet.cli.wait.rate_window import RateWindow
from crawlfleet.cli.work.task_summary import format_figures as task_figures
from crawlfleet.cli.work.task_summary import format_span
from crawlfleet.observe.terminal_text import escape_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from crawlfleet.cli.command import Call
    from crawlfleet.client._generated.models import GroupView, TaskView


FIGURES_CHARS = 100


def wait_for_tasks(
    call: Call, ids: Sequence[str], timeout: float | None, *, with_results: bool = True
) -> Sequence[TaskView]:
    """The tasks once all are final. A timeout is exit code 4: none of them is known to have failed."""
    with note_on_interrupt(call, "task", ids):
        return _wait_with_bar(call, ids, timeout, with_results)


@contextmanager
def note_on_interrupt(call: Call, noun: str, ids: Sequence[str]) -> Iterator[None]:
    """Who waits no longer has not stopped anything, and should know."""
    try:
        yield
    except KeyboardInterrupt:
        who = f"{ids[0]} goes on" if len(ids) == 1 else f"{len(ids)} {noun}s go on"
        named = ids[0] if len(ids) == 1 else noun.upper()
        call.out.print_note(
            f"{who}: crawlfleet {noun} watch {named} waits again, crawlfleet {noun} cancel {named} stops it"
        )
        raise


def _wait_with_bar(call: Call, ids: Sequence[str], timeout: float | None, with_results: bool) -> Sequence[TaskView]:
    from crawlfleet.client import WaitTimeout

    is_one = len(set(ids)) == 1
    with call.out.progress_bar() as bar:
        line = bar.add_task("waiting", total=None if is_one else len(set(ids)), note="")
        watch = _OneTask(call, bar, line)

        def show_count(done: int, _: int) -> None:
            if not is_one:
                bar.update(line, completed=done)

        try:
            # Of several there is no room for what each one tells.
            return call.client.wait(
                ids, timeout, show_count, with_results=with_results, on_look=watch.show_task if is_one else None
            )
        except WaitTimeout as exc:
            hint = f"crawlfleet task why {exc.open_ids[0]}" if exc.open_ids else None
            raise Complaint(str(exc), ExitCode.TASK_NOT_COMPLETED, hint) from exc


class _OneTask:
    """The bar of one task: of a crawl its pages, of another what it tells of itself."""

    def __init__(self, call: Call, bar: Progress, line: TaskID) -> None:
        self._call = call
        self._bar = bar
        self._line = line
        self._rate = RateWindow()
        self._limit: object = None

    def show_task(self, task: TaskView) -> None:
        from crawlfleet.client.types import FINAL_STATUSES

        progress = task.progress if isinstance(task.progress, dict) else {}
        done_total = task_done(progress)
        if task.status in FINAL_STATUSES:
            self._bar.update(self._line, description=task.status, completed=1, total=1, note="")
        elif done_total is None:
            self._bar.update(self._line, description=task.status, note=bar_figures(progress))
        else:
            done, total = done_total
            note = crawl_note(progress, self._rate.add(done), total - done)
            self._bar.update(self._line, description=task.status, completed=done, total=total, note=note)
            self._print_limit(progress)

    def _print_limit(self, progress: Mapping[str, Any]) -> None:
        """Once for each limit: a crawl that is slow out of politeness looks as if it were broken."""
        host, limit = progress.get("limited_by"), progress.get("limit")
        if host is None or limit == self._limit:
            return
        self._limit = limit
        option = "--delay" if "request in" in str(limit) else "--rate"
        self._call.out.print_note(
            f"note: host {host} sets the pace: its budget is {limit}; "
            f"crawlfleet host set {host} {option} NUMBER changes it"
        )


def task_done(progress: Mapping[str, Any]) -> tuple[int, int] | None:
    """How many of how many: pages of a crawl, or `done` and `total` of an executor that tells them."""
    counts = {name: value for name, value in progress.items() if isinstance(value, int)}
    if {"pages", "queued"} <= counts.keys():
        visited = counts["pages"] + counts.get("failed", 0) + counts.get("skipped", 0)
        left = max(0, min(counts["queued"], counts.get("max_pages", counts["queued"]) - counts["pages"]))
        return visited, visited + left
    if {"done", "total"} <= counts.keys():
        return counts["done"], counts["total"]
    return None


def crawl_note(progress: Mapping[str, Any], rate: float | None, left: int) -> str:
    """`92 items, 2 failed, 9.5/s, 4 s left`"""
    parts = [
        f"{progress[name]} {word}" for name, word in (("items", "items"), ("failed", "failed")) if name in progress
    ]
    if rate:
        parts += [f"{rate:.3g}/s", f"{format_span(left / rate)} left"]
    return ", ".join(parts)


def bar_figures(progress: object) -> str:
    """`pages 12, queued 30`: as the executor told them, fit for a bar, which reads brackets as markup."""
    from rich.markup import escape

    if not isinstance(progress, dict):
        return ""
    return escape(escape_line(task_figures(progress)[:FIGURES_CHARS]))


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
        parts = [
            f"{crawl.items} items",
            f"{crawl.failed} failed" if crawl.failed else "",
            "" if rate is None else f"{rate:.3g}/s",
            "" if crawl.left_s is None else f"{format_span(crawl.left_s)} left",
        ]
        return ", ".join(filter(None, parts))
    parts = [
        f"{bad} failed" if bad else "",
        "" if progress.rate_per_s is None else f"{progress.rate_per_s:.3g}/s",
        "" if progress.left_s is None else f"{format_span(progress.left_s)} left",
    ]
    return ", ".join(filter(None, parts))


def failed_message(task: TaskView) -> str:
    why = task.error.message if task.error is not None else task.reason
    return f"{task.id} ended as {task.status}" + (f": {why}" if why else "")


def print_notes(call: Call, notes: Sequence[str] | None) -> None:
    """What a person should know of a result, beside it: the result itself is for programs."""
    for note in notes or ():
        call.out.print_note(f"note: {note}")
