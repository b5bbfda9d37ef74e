"""Wait for tasks with a bar, and what bars say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crawlfleet.cli.exit_codes import Complaint, ExitCode
from crawlfleet.cli.wait.rate_window import RateWindow
from crawlfleet.cli.work.task_summary import figures as task_figures
from crawlfleet.cli.work.task_summary import span
from crawlfleet.observe.terminal_text import escape_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from crawlfleet.cli.command import Call
    from crawlfleet.client._generated.models import GroupView, TaskView


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

    is_one = len(set(ids)) == 1
    with call.out.bar() as bar:
        line = bar.add_task("waiting", total=None if is_one else len(set(ids)), note="")
        watch = _OneTask(call, bar, line)

        def told(done: int, _: int) -> None:
            if not is_one:
                bar.update(line, completed=done)

        try:
            # Of several there is no room for what each one tells.
            return call.client.wait(
                ids, timeout, told, with_results=with_results, on_look=watch.observe if is_one else None
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

    def observe(self, task: TaskView) -> None:
        from crawlfleet.client.types import FINAL_STATUSES

        progress = task.progress if isinstance(task.progress, dict) else {}
        done_total = task_done(progress)
        if task.status in FINAL_STATUSES:
            self._bar.update(self._line, description=task.status, completed=1, total=1, note="")
        elif done_total is None:
            self._bar.update(self._line, description=task.status, note=figures(progress))
        else:
            done, total = done_total
            note = crawl_note(progress, self._rate.add(done), total - done)
            self._bar.update(self._line, description=task.status, completed=done, total=total, note=note)
            self._tell_limit(progress)

    def _tell_limit(self, progress: Mapping[str, Any]) -> None:
        """Once for each limit: a crawl that is slow out of politeness looks as if it were broken."""
        host, limit = progress.get("limited_by"), progress.get("limit")
        if host is None or limit == self._limit:
            return
        self._limit = limit
        option = "--delay" if "request in" in str(limit) else "--rate"
        self._call.out.note(
            f"note: host {host} sets the pace: its budget is {limit}; "
            f"crawlfleet host set {host} {option} NUMBER changes it"
        )


def task_done(progress: Mapping[str, Any]) -> tuple[int, int] | None:
    """How many of how many: pages of a crawl, or `done` and `total` of an executor that tells them."""
    known = {name: value for name, value in progress.items() if isinstance(value, int)}
    if {"pages", "queued"} <= known.keys():
        visited = known["pages"] + known.get("failed", 0) + known.get("skipped", 0)
        left = max(0, min(known["queued"], known.get("max_pages", known["queued"]) - known["pages"]))
        return visited, visited + left
    if {"done", "total"} <= known.keys():
        return known["done"], known["total"]
    return None


def crawl_note(progress: Mapping[str, Any], rate: float | None, left: int) -> str:
    """`92 items, 2 failed, 9.5/s, 4 s left`"""
    said = [f"{progress[name]} {word}" for name, word in (("items", "items"), ("failed", "failed")) if name in progress]
    if rate:
        said += [f"{rate:.3g}/s", f"{span(left / rate)} left"]
    return ", ".join(said)


def figures(progress: object) -> str:
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
        told = [
            f"{crawl.items} items",
            f"{crawl.failed} failed" if crawl.failed else "",
            "" if rate is None else f"{rate:.3g}/s",
            "" if crawl.left_s is None else f"{span(crawl.left_s)} left",
        ]
        return ", ".join(filter(None, told))
    said = [
        f"{bad} failed" if bad else "",
        "" if progress.rate_per_s is None else f"{progress.rate_per_s:.3g}/s",
        "" if progress.left_s is None else f"{span(progress.left_s)} left",
    ]
    return ", ".join(filter(None, said))


def failed_message(task: TaskView) -> str:
    why = task.error.message if task.error is not None else task.reason
    return f"{task.id} ended as {task.status}" + (f": {why}" if why else "")


def print_notes(call: Call, notes: Sequence[str] | None) -> None:
    """What a person should know of a result, beside it: the result itself is for programs."""
    for note in notes or ():
        call.out.note(f"note: {note}")
