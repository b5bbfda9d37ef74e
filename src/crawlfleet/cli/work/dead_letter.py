"""`crawlfleet dead-letter`: tasks that were given up, and what to do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import Complaint, usage_error
from crawlfleet.cli.output import plain

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import BulkView

app = typer.Typer(no_args_is_help=True)

TaskId = Annotated[str, typer.Argument(help="The task's id.", show_default=False)]
CauseOption = Annotated[str | None, typer.Option("--cause", help="Only of this cause.")]
ProjectOption = Annotated[str | None, typer.Option("--project", help="Only of this project.")]


@api_command(app, "list", "crawlfleet dead-letter list", "crawlfleet dead-letter list --project shop --json")
def list_letters(
    call: Call,
    cause: CauseOption = None,
    project: ProjectOption = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.", min=1)] = 50,
) -> None:
    """List dead letters, newest first."""
    letters = list(call.client.dead_letters(cause=cause, project_id=project, limit=limit))
    call.out.listing(
        "dead_letters",
        letters,
        ("TASK", "TYPE", "PROJECT", "SINCE", "CAUSE"),
        lambda one: (one.task_id, one.task_type, one.project_id, one.buried_at, one.cause),
        empty="no dead letters",
        prose=("CAUSE",),
        drop=("PROJECT", "SINCE", "TYPE"),
    )


@api_command(app, "groups", "crawlfleet dead-letter groups")
def groups(call: Call, project: ProjectOption = None) -> None:
    """Group dead letters by cause, the most frequent first."""
    call.out.listing(
        "groups",
        call.client.dead_letter_groups(project_id=project),
        ("COUNT", "NEWEST", "EXAMPLE", "CAUSE"),
        lambda one: (one.count, one.newest_at, one.example, one.cause),
        empty="no dead letters",
        prose=("CAUSE",),
        drop=("NEWEST", "EXAMPLE"),
    )


@api_command(app, "show", "crawlfleet dead-letter show task-0123456789abcdef")
def show(call: Call, task_id: TaskId) -> None:
    """Show a dead letter with its task and every execution it had."""
    found = call.client.dead_letter(task_id)
    if call.out.is_json:
        call.out.json(found)
        return
    call.out.record(plain(found.dead_letter))
    call.out.record({"parameters": found.task.parameters})
    call.out.text("")
    call.out.table(
        ("EXECUTION", "STATUS", "NODE", "ENDED", "ERROR"),
        [(one.id, one.status, one.node_id, one.end_time, one.error and one.error.message) for one in found.executions],
        prose=("ERROR",),
        drop=("ENDED", "NODE"),
    )


@api_command(
    app,
    "replay",
    "crawlfleet dead-letter replay task-0123456789abcdef",
    'crawlfleet dead-letter replay --cause "network: connection refused"',
)
def replay(
    call: Call,
    task_ids: Annotated[list[str] | None, typer.Argument(help="Ids of tasks; or choose by --cause.")] = None,
    cause: CauseOption = None,
) -> None:
    """Give dead letters another round, by id or by cause."""
    if bool(task_ids) == (cause is not None):
        usage_error("name either tasks or --cause", "crawlfleet dead-letter groups lists the causes")
    done = call.client.replay_many(ids=task_ids) if task_ids else call.client.replay_many(cause=cause)
    _print_changed(call, done, "open again")


@api_command(
    app,
    "drop",
    "crawlfleet dead-letter drop task-0123456789abcdef",
    'crawlfleet dead-letter drop --cause "network: connection refused"',
)
def drop(
    call: Call,
    task_ids: Annotated[list[str] | None, typer.Argument(help="Ids of tasks; or choose by --cause.")] = None,
    cause: CauseOption = None,
) -> None:
    """Forget dead letters, by id or by cause, with their tasks and all of their history."""
    if bool(task_ids) == (cause is not None):
        usage_error("name either tasks or --cause", "crawlfleet dead-letter groups lists the causes")
    if task_ids and len(task_ids) == 1:
        call.client.drop_dead_letter(task_ids[0])
        call.out.answer({"dropped": task_ids}, f"{task_ids[0]}: dropped")
        return
    done = call.client.drop_many(ids=task_ids) if task_ids else call.client.drop_many(cause=cause)
    _print_changed(call, done, "dropped")


def _print_changed(call: Call, done: BulkView, word: str) -> None:
    if call.out.is_json:
        call.out.json(done)
    else:
        call.out.text(f"{done.changed} tasks {word}" + (f", {done.refused} refused" if done.refused else ""))
        for refusal in done.refusals[:10]:
            call.out.note(f"{refusal.id}: {refusal.detail}")
    if done.refused and not done.changed:
        raise Complaint("no task was changed", hint="crawlfleet dead-letter list shows those there are")
