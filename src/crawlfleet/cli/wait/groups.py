"""Wait for a group: how far it is, and why it stands still."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from crawlfleet.cli.exit_codes import Complaint, ExitCode
from crawlfleet.cli.output import trim_instants
from crawlfleet.cli.wait.tasks import group_done, group_note, note_on_interrupt

if TYPE_CHECKING:
    from crawlfleet.cli.command import Call
    from crawlfleet.client._generated.models import GroupView
    from crawlfleet.client.types import Why

LINES_S = 2.0


def wait_for_group(call: Call, group_id: str, timeout: float | None, *, with_lines: bool = False) -> GroupView:
    """The group once it is finished. A timeout is exit code 4: it is not known to have failed."""
    from crawlfleet.client import WaitTimeout

    lines = _Lines(call)
    with note_on_interrupt(call, "group", [group_id]), call.out.progress_bar() as bar:
        line = bar.add_task("waiting", total=None, note="")

        def show_progress(group: GroupView) -> None:
            done, total = group_done(group)
            bar.update(line, total=total, completed=done, note=group_note(group))
            if with_lines:
                lines.print_progress(group)

        def show_standstill(why: Why) -> None:
            # Members that run and wait for nothing are at work, however long a task or a page takes.
            if why.data["cause"] in {"processing", "final"}:
                return
            if why.data["cause"] == "host_budget":
                # It goes on at the pace that the host allows: members report their pages by the chunk.
                lines.print_limit(why)
                return
            bar.update(line, note="stands still")
            lines.print_reason(why)

        try:
            return call.client.wait_group(group_id, timeout, show_progress, show_standstill, lines.print_limit)
        except WaitTimeout as exc:
            raise Complaint(str(exc), ExitCode.TASK_NOT_COMPLETED, f"crawlfleet group why {group_id}") from exc


class _Lines:
    """How far a group is, line by line: for a log, or a program that reads along."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._next_at = 0.0
        self._printed_progress: object = None
        self._printed_reason: object = None
        self._printed_limits: object = None

    def print_progress(self, group: GroupView) -> None:
        now, progress = time.monotonic(), group.crawl or group.progress
        if group.is_finished or now < self._next_at or progress == self._printed_progress:
            return
        self._next_at, self._printed_progress = now + LINES_S, progress
        if self._call.out.is_json:
            self._call.out.print_json_line(group)
        else:
            done, total = group_done(group)
            self._call.out.print_note(f"{done} of {total}: {group_note(group)}".rstrip(": "))

    def print_limit(self, why: Why) -> None:
        """Once: a crawl that is slow out of politeness looks as if it were broken."""
        waits = [wait["host"] for wait in why.data.get("waits_for", ()) if wait["cause"] == "host_budget"]
        if waits and waits != self._printed_limits and why.data["cause"] == "host_budget":
            self._printed_limits = waits
            self._call.out.print_note(f"note: {trim_instants(why.sentence)}")

    def print_reason(self, why: Why) -> None:
        """Once for each reason, however long it lasts: in every second another time is left."""
        reason = (why.data["cause"], why.data.get("waits_for"))
        if reason != self._printed_reason:
            self._printed_reason = reason
            self._call.out.print_note(_standstill_text(why))


def _standstill_text(why: Why) -> str:
    return f"stands still: {trim_instants(why.sentence)}"
