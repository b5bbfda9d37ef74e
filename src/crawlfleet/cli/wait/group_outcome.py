"""How a group ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlfleet.cli.exit_codes import Complaint, ExitCode
from crawlfleet.cli.wait.groups import wait_for_group
from crawlfleet.cli.wait.tasks import print_notes

if TYPE_CHECKING:
    from crawlfleet.cli.command import Call
    from crawlfleet.client._generated.models import GroupView


def print_new_group(
    call: Call, group: GroupView, wait: bool, timeout: float | None, *, with_lines: bool = False
) -> None:
    if not wait:
        call.out.print_answer(group, group.id)
        return
    call.out.print_note(group.id)
    print_group_end(call, wait_for_group(call, group.id, timeout, with_lines=with_lines), with_lines=with_lines)


def print_group_end(call: Call, group: GroupView, *, with_lines: bool = False) -> None:
    progress = group.progress
    summary = f"{progress.completed} of {progress.total} completed"
    if (crawl := group.crawl) is not None:
        summary = f"{crawl.pages} pages, {crawl.items} items, {crawl.failed} failed"
        if (changes := crawl.changes) is not None:
            summary += f"; {changes.new} new, {changes.changed} changed, {changes.gone} gone"
        if crawl.stopped_by is not None:
            summary += f"; stopped by {crawl.stopped_by}, {crawl.queued} URLs were not visited"
    if with_lines and call.out.is_json:
        call.out.print_json_line(group)
    else:
        call.out.print_answer(group, f"{group.id}  {summary}")
    if not group.is_complete:
        for failure in group.failures:
            call.out.print_note(f"{failure.task_id}: {failure.status}: {failure.message or ''}")
        hint = f"crawlfleet group retry {group.id}"
        detail = f"{progress.total - progress.completed} members of {group.id} did not complete"
        raise Complaint(detail, ExitCode.TASK_NOT_COMPLETED, hint)
    if crawl is not None:
        _print_crawl(call, group)


def _print_crawl(call: Call, group: GroupView) -> None:
    """What its members found worth telling; and one that read no page did not do what was asked, as a single crawl."""
    result = call.client.crawl_result(group.id, partial=True)
    if not call.out.is_json:
        kinds = result.metrics.failures or result.metrics.errors
        if result.success and kinds:
            failed = ", ".join(f"{kind} {count:,}" for kind, count in kinds.items())
            call.out.print_note(f"note: pages that failed: {failed}")
        print_notes(call, result.notes)
    if not result.success:
        errors = ", ".join(f"{kind} {count}" for kind, count in result.metrics.errors.items())
        hint = f"crawlfleet task list --group {group.id} names its members; crawlfleet task log of one says why"
        failed = f"{result.metrics.pages_failed} failed" + (f" ({errors})" if errors else "")
        detail = f"no page was read: {failed}, {result.metrics.pages_skipped} skipped"
        raise Complaint(f"{group.id}: {detail}", ExitCode.TASK_NOT_COMPLETED, hint)
