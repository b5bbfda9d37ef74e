"""`crawlfleet clean-up`: what may go, counted first and removed only when asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.maintenance.installation_options import display_bytes
from crawlfleet.cli.values import parse_span_s

_NAMED = 10


def add_to(app: typer.Typer) -> None:
    api_command(
        app,
        "clean-up",
        "crawlfleet clean-up",
        "crawlfleet clean-up --nodes --gone-for 30d --apply",
        "crawlfleet clean-up --tasks --status failed,timeout --older-than 7d --project shop",
        "crawlfleet clean-up --retention --results --apply --json",
    )(clean_up_command)


def clean_up_command(
    call: Call,
    retention: Annotated[bool, typer.Option("--retention", help="What is past its retention.")] = False,
    tasks: Annotated[bool, typer.Option("--tasks", help="Finished tasks, by the filter below.")] = False,
    results: Annotated[bool, typer.Option("--results", help="Files of results that belong to no task.")] = False,
    nodes: Annotated[bool, typer.Option("--nodes", help="Nodes that have been away for long.")] = False,
    status: Annotated[
        str | None,
        typer.Option("--status", help="Of --tasks: completed, failed, timeout, cancelled; all if not given."),
    ] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", help="Of --tasks: they ended at least so long ago, such as 7d.")
    ] = None,
    project: Annotated[str | None, typer.Option("--project", help="Of --tasks: of this project.")] = None,
    task_type: Annotated[str | None, typer.Option("--type", help="Of --tasks: of this task type.")] = None,
    gone_for: Annotated[str, typer.Option("--gone-for", help="Of --nodes: last seen at least so long ago.")] = "7d",
    apply: Annotated[bool, typer.Option("--apply", help="Remove; otherwise nothing changes.")] = False,
) -> None:
    """Show what may be removed, and remove it with --apply: in small batches, so that Ctrl-C is safe at any time.

    Without --retention, --tasks, --results or --nodes: retention, results and nodes.
    """
    if tasks and older_than is None:
        usage_error("--older-than: needed with --tasks, such as --older-than 30d")
    if not tasks and (status or older_than or project or task_type):
        usage_error("--status, --older-than, --project and --type are filters of --tasks", "add --tasks")
    has_choice = retention or tasks or results or nodes
    gone_for_s = parse_span_s(gone_for, "--gone-for")
    answer: dict[str, Any] = {"applied": apply}
    if retention or not has_choice:
        answer["retention"] = _clean_retention(call, apply)
    if tasks:
        assert older_than is not None
        statuses = status.split(",") if status else None
        older_than_s = parse_span_s(older_than, "--older-than")

        def clean_page(cursor: str | None) -> Any:
            return call.client.clean_up_tasks(
                older_than_s, status=statuses, project_id=project, task_type=task_type, apply=apply, cursor=cursor
            )

        answer["tasks"] = _clean_tasks(call, clean_page)
    if results or not has_choice:
        answer["results"] = _clean_results(call, apply)
    if nodes or not has_choice:
        answer["nodes"] = _clean_nodes(call, gone_for_s, apply)
    if call.out.is_json:
        call.out.print_json(answer)
    elif not apply:
        call.out.print_note("nothing was removed: --apply does it")


def _clean_retention(call: Call, apply: bool) -> dict[str, Any]:
    from crawlfleet.client.errors import ApiError

    try:
        page = call.client.clean_up_retention(apply=apply)
    except ApiError as exc:
        if exc.error_code != "conflict":
            raise
        call.out.print_note(f"retention: {exc}")
        return {"due": None, "removed_rows": 0}
    due, removed = page.due, page.removed_rows
    while page.next_cursor is not None:
        page = call.client.clean_up_retention(apply=apply, cursor=page.next_cursor)
        removed += page.removed_rows
    if not call.out.is_json and due is not None:
        counts = {
            "tasks": due.tasks,
            "batches of events": due.events,
            "heartbeats": due.heartbeats,
            "idempotency keys": due.idempotency_keys,
            "audit entries": due.audit_entries,
        }
        text = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count) or "nothing"
        call.out.print_sentence(f"retention: {text} past their time" + (f"; {removed:,} rows removed" if apply else ""))
    return {"due": due, "removed_rows": removed}


def _clean_tasks(call: Call, clean_page: Callable[[str | None], Any]) -> dict[str, Any]:
    sums = dict.fromkeys(("looked_at", "selected", "needed", "removed"), 0)
    page = clean_page(None)
    while True:
        for name in sums:
            sums[name] += getattr(page, name)
        if page.next_cursor is None:
            break
        page = clean_page(page.next_cursor)
    if not call.out.is_json:
        text = f"tasks: {sums['selected']:,} of {sums['looked_at']:,} finished ones"
        if sums["needed"]:
            text += f"; {sums['needed']:,} more are needed by their groups"
        call.out.print_sentence(text + (f"; {sums['removed']:,} removed" if page.applied else ""))
    return sums


def _clean_results(call: Call, apply: bool) -> dict[str, Any]:
    names = ("files", "orphans", "orphan_files", "orphan_bytes", "removed")
    sums = dict.fromkeys(names, 0)
    examples: list[str] = []
    cursor: str | None = None
    while True:
        page = call.client.clean_up_results(apply=apply, cursor=cursor)
        for name in names:
            sums[name] += getattr(page, name)
        examples = (examples + list(page.examples))[:_NAMED]
        cursor = page.next_cursor
        if cursor is None:
            break
    if not call.out.is_json:
        text = f"results: {sums['orphan_files']:,} of {sums['files']:,} files belong to no task"
        size = f" ({display_bytes(sums['orphan_bytes'])})" if sums["orphan_files"] else ""
        call.out.print_sentence(text + size + (", removed" if sums["removed"] else ""))
    return {**sums, "examples": examples}


def _clean_nodes(call: Call, gone_for_s: float, apply: bool) -> dict[str, Any]:
    page = call.client.clean_up_nodes(gone_for_s, apply=apply)
    nodes, removed = list(page.nodes), page.removed
    while apply and page.is_more:
        page = call.client.clean_up_nodes(gone_for_s, apply=apply)
        nodes += page.nodes
        removed += page.removed
    if not call.out.is_json:
        more = f" and {len(nodes) - _NAMED:,} more" if len(nodes) > _NAMED else ""
        named = f" ({', '.join(node.name for node in nodes[:_NAMED])}{more})" if nodes else ""
        count = f"{len(nodes):,} node has" if len(nodes) == 1 else f"{len(nodes):,} nodes have"
        call.out.print_sentence(f"nodes: {count} been away for long{named}" + (", removed" if removed else ""))
    return {"nodes": nodes, "removed": removed}
