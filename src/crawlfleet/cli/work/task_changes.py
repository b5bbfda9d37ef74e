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
from crawlfleet.cli.output import display_text
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


class Selection(NamedTuple):
    """Which tasks a command changes: those named, or those a filter finds; never both."""

    ids: list[str]
    where: dict[str, Any]


def selection_command(name: str, *examples: str) -> Callable[[Callable[[Call, Selection], None]], None]:
    """A command for tasks by id or by filter: the function is spared the options of both."""

    def register_function(function: Callable[[Call, Selection], None]) -> None:
        def run_command(
            call: Call,
            task_ids: SomeTaskIds = None,
            status: StatusOption = None,
            project: ProjectOption = None,
            task_type: TypeOption = None,
            node: NodeOption = None,
            search: SearchOption = None,
        ) -> None:
            function(call, _select_tasks(task_ids or [], _task_filter(status, project, task_type, node, search)))

        run_command.__name__, run_command.__doc__ = function.__name__, function.__doc__
        api_command(app, name, *examples)(run_command)

    return register_function


@selection_command(
    "cancel",
    "crawlfleet task cancel task-0123456789abcdef",
    "crawlfleet task cancel --project shop --status pending",
)
def cancel_tasks(call: Call, selection: Selection) -> None:
    """Cancel tasks, by id or by filter. One that runs is final when its node has stopped it."""
    _change_tasks(call, selection, call.client.cancel, call.client.cancel_many, "cancelled")


@selection_command(
    "retry",
    "crawlfleet task retry task-0123456789abcdef",
    "crawlfleet task retry --project shop --status failed",
)
def retry_tasks(call: Call, selection: Selection) -> None:
    """Give tasks that have ended another round, by id or by filter."""
    _change_tasks(call, selection, call.client.retry, call.client.retry_many, "open again")


@api_command(
    app,
    "prioritize",
    "crawlfleet task prioritize task-0123456789abcdef high",
    "crawlfleet task prioritize 8 --project shop --status pending",
)
def prioritize_tasks(
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
    selection = _select_tasks(task_ids, _task_filter(status, project, task_type, node, search))
    priority = values.read_priority(word, call)
    if len(selection.ids) == 1:
        changed = call.client.prioritize(selection.ids[0], priority)
        call.out.print_answer(changed, f"{changed.id}: priority {changed.priority}")
    else:
        _print_changed(call, selection, partial(call.client.prioritize_many, priority), f"have priority {priority}")


@api_command(
    app,
    "assign",
    "crawlfleet task assign task-0123456789abcdef worker-001",
    "crawlfleet task assign worker-001 --project shop",
)
def assign_tasks(
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
    selection = _select_tasks(task_ids, _task_filter(None, project, task_type, None, search))
    if len(selection.ids) == 1:
        changed = call.client.assign(selection.ids[0], node)
        call.out.print_answer(changed, f"{changed.id}: {changed.status} to {changed.assigned_node}")
    else:
        _print_changed(call, selection, partial(call.client.assign_many, node), f"assigned to {node}")


@api_command(
    app,
    "log",
    "crawlfleet task log task-0123456789abcdef",
    "crawlfleet task log task-0123456789abcdef --follow --level warning",
    "crawlfleet task log task-0123456789abcdef --grep timeout --tail 20",
)
def print_log(
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

    options: dict[str, Any] = {"follow": follow, "execution": execution, "level": level, "q": grep, "tail": tail}
    for line in call.client.log(task_id, **options):
        if call.out.is_json:
            call.out.print_json_line(line)
        else:
            instant = datetime.fromtimestamp(line.at / 1_000, UTC)
            call.out.print_text(f"{instant:%Y-%m-%dT%H:%M:%S}.{line.at % 1_000:03d}Z {line.level:<8} {line.message}")


@api_command(
    app,
    "results",
    "crawlfleet task results task-0123456789abcdef",
    "crawlfleet task results task-0123456789abcdef --json > items.jsonl",
    "crawlfleet task results task-0123456789abcdef --pages --limit 20",
)
def print_results(
    call: Call,
    task_id: TaskId,
    limit: Annotated[int | None, typer.Option("--limit", help="How many at most.", min=1)] = None,
    pages: PagesOption = False,
) -> None:
    """Print the items of a task: a table for people, with --json an item a line."""
    items: list[Any] = []
    for item in islice((item for item in call.client.results(task_id) if _is_note(item) is pages), limit):
        if call.out.is_json:
            call.out.print_json_line(item)
        else:
            items.append(item)
    if call.out.is_json:
        return
    columns = list(dict.fromkeys(name for item in items if isinstance(item, dict) for name in item))
    rows = [
        [display_text(item.get(name)) for name in columns] if isinstance(item, dict) else [display_text(item)]
        for item in items
    ]
    call.out.print_table(
        columns or ["ITEM"], rows, prose=columns, empty="no items; crawlfleet task show has the result"
    )


def _is_note(item: Any) -> bool:
    """What a crawl notes of a page (keep_pages) begins so; exports tell it by the same."""
    return isinstance(item, dict) and next(iter(item), None) == "_page"


@api_command(app, "types", "crawlfleet task types", "crawlfleet task types --json")
def list_types(call: Call) -> None:
    """List the task types that are known, and how many nodes run each."""
    types = call.client.task_types()
    call.out.print_listing(
        "task_types",
        types,
        ("TYPE", "VERSION", "NODES"),
        lambda task_type: (task_type.name, task_type.version, task_type.nodes or 0),
    )


def _task_filter(
    status: str | None, project: str | None, task_type: str | None, node: str | None, search: str | None
) -> dict[str, Any]:
    conditions = {
        "status": status.split(",") if status else None,
        "project_id": project,
        "type": task_type,
        "node": node,
        "q": search,
    }
    return {name: value for name, value in conditions.items() if value is not None}


def _select_tasks(task_ids: list[str], where: dict[str, Any]) -> Selection:
    if bool(task_ids) == bool(where):
        usage_error("name either tasks or a filter", "crawlfleet task list shows what a filter finds")
    return Selection(task_ids, where)


def _change_tasks(
    call: Call, selection: Selection, change_one: Callable[[str], Any], change_many: Callable[..., BulkView], done: str
) -> None:
    if len(selection.ids) == 1:
        changed = change_one(selection.ids[0])
        is_asked = " (its node was asked to stop it)" if changed.is_requested else ""
        call.out.print_answer(changed, f"{changed.id}: {changed.status}{is_asked}")
    else:
        _print_changed(call, selection, change_many, done)


def _print_changed(call: Call, selection: Selection, change_many: Callable[..., BulkView], done: str) -> None:
    answers = (
        [change_many(ids=selection.ids)] if selection.ids else list(_change_in_batches(change_many, selection.where))
    )
    changed_count, refused = sum(answer.changed for answer in answers), sum(answer.refused for answer in answers)
    if call.out.is_json:
        call.out.print_json({"changed": changed_count, "refused": refused, "refusals": answers[0].refusals})
    else:
        call.out.print_text(f"{changed_count} tasks {done}" + (f", {refused} refused" if refused else ""))
        for refusal in answers[0].refusals[:10]:
            call.out.print_note(f"{refusal.id}: {refusal.detail}")
    if refused and not changed_count:
        raise Complaint("no task was changed", ExitCode.FAILURE, f"crawlfleet task why {answers[0].refusals[0].id}")


def _change_in_batches(change_many: Callable[..., BulkView], where: dict[str, Any]) -> Any:
    """A filter that finds more than one call changes is gone on with."""
    cursor: str | None = None
    while True:
        answer = change_many(filter=where, cursor=cursor)
        yield answer
        cursor = answer.next_cursor
        if cursor is None:
            return
