"""`crawlfleet task`: what changes tasks, and what they leave behind. The commands join those of task.py."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from crawlfleet.cli import values
from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import Complaint, ExitCode, usage_error
from crawlfleet.cli.output import shown
from crawlfleet.cli.work import task
from crawlfleet.cli.work.export import PagesOption
from crawlfleet.cli.work.task import (
    NodeOption,
    ProjectOption,
    SearchOption,
    SomeTaskIds,
    StatusOption,
    TaskId,
    TypeOption,
)

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import BulkView

app = task.app


class Chosen(NamedTuple):
    """Which tasks a command changes: those named, or those a filter finds; never both."""

    ids: list[str]
    where: dict[str, Any]


def for_chosen(name: str, *examples: str) -> Callable[[Callable[[Call, Chosen], None]], None]:
    """A command for tasks by id or by filter: the function is spared the options of both."""

    def declare(function: Callable[[Call, Chosen], None]) -> None:
        def run(
            call: Call,
            task_ids: SomeTaskIds = None,
            status: StatusOption = None,
            project: ProjectOption = None,
            task_type: TypeOption = None,
            node: NodeOption = None,
            search: SearchOption = None,
        ) -> None:
            function(call, _chosen(task_ids or [], _filter(status, project, task_type, node, search)))

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        api_command(app, name, *examples)(run)

    return declare


@for_chosen(
    "cancel",
    "crawlfleet task cancel task-0123456789abcdef",
    "crawlfleet task cancel --project shop --status pending",
)
def cancel(call: Call, chosen: Chosen) -> None:
    """Cancel tasks, by id or by filter. One that runs is final when its node has stopped it."""
    _change(call, chosen, call.client.cancel, call.client.cancel_many, "cancelled")


@for_chosen(
    "retry",
    "crawlfleet task retry task-0123456789abcdef",
    "crawlfleet task retry --project shop --status failed",
)
def retry(call: Call, chosen: Chosen) -> None:
    """Give tasks that have ended another round, by id or by filter."""
    _change(call, chosen, call.client.retry, call.client.retry_many, "open again")


@api_command(
    app,
    "prioritize",
    "crawlfleet task prioritize task-0123456789abcdef high",
    "crawlfleet task prioritize 8 --project shop --status pending",
)
def prioritize(
    call: Call,
    words: Annotated[
        list[str],
        typer.Argument(help="Ids of tasks, then 1 to 10, or high, normal, low.", metavar="[TASK...] PRIORITY"),
    ],
    status: StatusOption = None,
    project: ProjectOption = None,
    task_type: TypeOption = None,
    node: NodeOption = None,
    search: SearchOption = None,
) -> None:
    """Change the priority of tasks that have not ended, by id or by filter."""
    *task_ids, word = words
    chosen = _chosen(task_ids, _filter(status, project, task_type, node, search))
    priority = values.priority(word)
    if len(chosen.ids) == 1:
        changed = call.client.prioritize(chosen.ids[0], priority)
        call.out.answer(changed, f"{changed.id}: priority {changed.priority}")
    else:
        _print_changed(call, chosen, partial(call.client.prioritize_many, priority), f"have priority {priority}")


@api_command(
    app,
    "assign",
    "crawlfleet task assign task-0123456789abcdef worker-001",
    "crawlfleet task assign worker-001 --project shop",
)
def assign(
    call: Call,
    words: Annotated[
        list[str],
        typer.Argument(help="Ids of tasks, then a node's id, device id or name.", metavar="[TASK...] NODE"),
    ],
    project: ProjectOption = None,
    task_type: TypeOption = None,
    search: SearchOption = None,
) -> None:
    """Give pending tasks to a node of your choice, by id or by filter: as many as it has room for."""
    *task_ids, node = words
    chosen = _chosen(task_ids, _filter(None, project, task_type, None, search))
    if len(chosen.ids) == 1:
        changed = call.client.assign(chosen.ids[0], node)
        call.out.answer(changed, f"{changed.id}: {changed.status} to {changed.assigned_node}")
    else:
        _print_changed(call, chosen, partial(call.client.assign_many, node), f"assigned to {node}")


@api_command(
    app,
    "log",
    "crawlfleet task log task-0123456789abcdef",
    "crawlfleet task log task-0123456789abcdef --follow --level warning",
    "crawlfleet task log task-0123456789abcdef --grep timeout --tail 20",
)
def log(
    call: Call,
    task_id: TaskId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on while it is written.")] = False,
    execution: Annotated[str | None, typer.Option("--execution", help="Of this one instead of the newest.")] = None,
    level: Annotated[
        str | None, typer.Option("--level", help="debug, info, warning, error or critical, and what is above.")
    ] = None,
    grep: Annotated[str | None, typer.Option("--grep", "-g", help="Only lines with this text in them.")] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", help="Only the last so many of what is there.", min=0, max=10_000)
    ] = None,
) -> None:
    """Print the log of a task's newest execution. --json prints a JSON object a line."""
    from datetime import datetime

    asked: dict[str, Any] = {"follow": follow, "execution": execution, "level": level, "q": grep, "tail": tail}
    for line in call.client.log(task_id, **asked):
        if call.out.is_json:
            call.out.json_line(line)
        else:
            at = datetime.fromtimestamp(line.at / 1_000, UTC)
            call.out.text(f"{at:%Y-%m-%dT%H:%M:%S}.{line.at % 1_000:03d}Z {line.level:<8} {line.message}")


@api_command(
    app,
    "results",
    "crawlfleet task results task-0123456789abcdef",
    "crawlfleet task results task-0123456789abcdef --json > items.jsonl",
    "crawlfleet task results task-0123456789abcdef --pages --limit 20",
)
def results(
    call: Call,
    task_id: TaskId,
    limit: Annotated[int | None, typer.Option("--limit", help="How many at most.", min=1)] = None,
    pages: PagesOption = False,
) -> None:
    """Print the items of a task: a table for people, with --json an item a line."""
    items: list[Any] = []
    for item in islice((item for item in call.client.results(task_id) if _is_note(item) is pages), limit):
        if call.out.is_json:
            call.out.json_line(item)
        else:
            items.append(item)
    if call.out.is_json:
        return
    columns = list(dict.fromkeys(name for item in items if isinstance(item, dict) for name in item))
    rows = [[shown(item.get(name)) for name in columns] if isinstance(item, dict) else [shown(item)] for item in items]
    call.out.table(columns or ["ITEM"], rows, prose=columns, empty="no items; crawlfleet task show has the result")


def _is_note(item: Any) -> bool:
    """What a crawl notes of a page (keep_pages) begins so; exports tell it by the same."""
    return isinstance(item, dict) and next(iter(item), None) == "_page"


@api_command(app, "types", "crawlfleet task types", "crawlfleet task types --json")
def types(call: Call) -> None:
    """List the task types that are known, and how many nodes run each."""
    found = call.client.task_types()
    call.out.listing(
        "task_types", found, ("TYPE", "VERSION", "NODES"), lambda one: (one.name, one.version, one.nodes or 0)
    )


def _filter(
    status: str | None, project: str | None, task_type: str | None, node: str | None, search: str | None
) -> dict[str, Any]:
    said = {
        "status": status.split(",") if status else None,
        "project_id": project,
        "type": task_type,
        "node": node,
        "q": search,
    }
    return {name: value for name, value in said.items() if value is not None}


def _chosen(task_ids: list[str], where: dict[str, Any]) -> Chosen:
    if bool(task_ids) == bool(where):
        usage_error("name either tasks or a filter", "crawlfleet task list shows what a filter finds")
    return Chosen(task_ids, where)


def _change(call: Call, chosen: Chosen, one: Callable[[str], Any], many: Callable[..., BulkView], done: str) -> None:
    if len(chosen.ids) == 1:
        changed = one(chosen.ids[0])
        is_asked = " (its node was asked to stop it)" if changed.is_requested else ""
        call.out.answer(changed, f"{changed.id}: {changed.status}{is_asked}")
    else:
        _print_changed(call, chosen, many, done)


def _print_changed(call: Call, chosen: Chosen, many: Callable[..., BulkView], done: str) -> None:
    answers = [many(ids=chosen.ids)] if chosen.ids else list(_rounds(many, chosen.where))
    changed_count, refused = sum(one.changed for one in answers), sum(one.refused for one in answers)
    if call.out.is_json:
        call.out.json({"changed": changed_count, "refused": refused, "refusals": answers[0].refusals})
    else:
        call.out.text(f"{changed_count} tasks {done}" + (f", {refused} refused" if refused else ""))
        for refusal in answers[0].refusals[:10]:
            call.out.note(f"{refusal.id}: {refusal.detail}")
    if refused and not changed_count:
        raise Complaint("no task was changed", ExitCode.FAILURE, f"crawlfleet task why {answers[0].refusals[0].id}")


def _rounds(many: Callable[..., BulkView], where: dict[str, Any]) -> Any:
    """A filter that finds more than one call changes is gone on with."""
    cursor: str | None = None
    while True:
        answer = many(filter=where, cursor=cursor)
        yield answer
        cursor = answer.next_cursor
        if cursor is None:
            return
