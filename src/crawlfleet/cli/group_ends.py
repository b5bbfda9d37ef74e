"""Wait for a group, tell how far it is, and how it ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from crawlfleet.cli.exits import Complaint, ExitCode
from crawlfleet.cli.watching import group_done, group_note, left_alone, print_notes

if TYPE_CHECKING:
    from crawlfleet.cli.command import Call
    from crawlfleet.client.models import GroupView

LINES_S = 2.0


def watch_group(call: Call, group_id: str, timeout: float | None, *, with_lines: bool = False) -> GroupView:
    """The group once it is finished. A timeout is exit code 4: it is not known to have failed."""
    from crawlfleet.client import WaitTimeout

    lines = _Lines(call) if with_lines else None
    with left_alone(call, "group", [group_id]), call.out.bar() as bar:
        line = bar.add_task("waiting", total=None, note="")

        def looked(group: GroupView) -> None:
            done, total = group_done(group)
            bar.update(line, total=total, completed=done, note=group_note(group))
            if lines is not None:
                lines.tell(group)

        try:
            return call.client.wait_group(group_id, timeout, looked)
        except WaitTimeout as exc:
            hint = f"crawlfleet task list --group {group_id} --status pending,waiting,retrying"
            raise Complaint(str(exc), ExitCode.TASK_NOT_COMPLETED, hint) from exc


class _Lines:
    """How far a group is, line by line: for a log, or a program that reads along."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._next_at = 0.0
        self._told: object = None

    def tell(self, group: GroupView) -> None:
        now, told = time.monotonic(), group.crawl or group.progress
        if group.is_finished or now < self._next_at or told == self._told:
            return
        self._next_at, self._told = now + LINES_S, told
        if self._call.out.is_json:
            self._call.out.json_line(group)
        else:
            done, total = group_done(group)
            self._call.out.note(f"{done} of {total}: {group_note(group)}".rstrip(": "))


def print_new(call: Call, group: GroupView, wait: bool, timeout: float | None, *, with_lines: bool = False) -> None:
    if not wait:
        call.out.answer(group, group.id)
        return
    call.out.note(group.id)
    print_end(call, watch_group(call, group.id, timeout, with_lines=with_lines), with_lines=with_lines)


def print_end(call: Call, group: GroupView, *, with_lines: bool = False) -> None:
    progress = group.progress
    told = f"{progress.completed} of {progress.total} completed"
    if (crawl := group.crawl) is not None:
        told = f"{crawl.pages} pages, {crawl.items} items, {crawl.failed} failed"
        if (changes := crawl.changes) is not None:
            told += f"; {changes.new} new, {changes.changed} changed, {changes.gone} gone"
        if crawl.stopped_by is not None:
            told += f"; stopped by {crawl.stopped_by}, {crawl.queued} URLs were not visited"
    if with_lines and call.out.is_json:
        call.out.json_line(group)
    else:
        call.out.answer(group, f"{group.id}  {told}")
    if not group.is_complete:
        for failure in group.failures:
            call.out.note(f"{failure.task_id}: {failure.status}: {failure.message or ''}")
        hint = f"crawlfleet group retry {group.id}"
        detail = f"{progress.total - progress.completed} members of {group.id} did not complete"
        raise Complaint(detail, ExitCode.TASK_NOT_COMPLETED, hint)
    if crawl is not None:
        _print_crawl(call, group)


def _print_crawl(call: Call, group: GroupView) -> None:
    """What its members found worth telling; and one that read no page did not do what was asked, as a single crawl."""
    result = call.client.crawl_result(group.id, partial=True)
    if not call.out.is_json:
        print_notes(call, result.notes)
    if not result.success:
        errors = ", ".join(f"{kind} {count}" for kind, count in result.metrics.errors.items())
        hint = f"crawlfleet task list --group {group.id} names its members; crawlfleet task log of one says why"
        failed = f"{result.metrics.pages_failed} failed" + (f" ({errors})" if errors else "")
        said = f"no page was read: {failed}, {result.metrics.pages_skipped} skipped"
        raise Complaint(f"{group.id}: {said}", ExitCode.TASK_NOT_COMPLETED, hint)
