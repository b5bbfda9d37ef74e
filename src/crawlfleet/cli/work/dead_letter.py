"""`crawlfleet dead-letter`: tasks that were given up, and what to do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import Complaint, usage_error
from crawlfleet.cli.output import to_builtins

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
    call.out.print_listing(
        "dead_letters",
        letters,
        ("TASK", "TYPE", "PROJECT", "SINCE", "CAUSE"),
        lambda letter: (letter.task_id, letter.task_type, letter.project_id, letter.buried_at, letter.cause),
        empty="no dead letters",
        prose=("CAUSE",),
        drop=("PROJECT", "SINCE", "TYPE"),
    )


@api_command(app, "groups", "crawlfleet dead-letter groups")
def list_causes(call: Call, project: ProjectOption = None) -> None:
    """Group dead letters by cause, the most frequent first."""
    call.out.print_listing(
        "groups",
        call.client.dead_letter_groups(project_id=project),
        ("COUNT", "NEWEST", "EXAMPLE", "CAUSE"),
        lambda group: (group.count, group.newest_at, group.example, group.cause),
        empty="no dead letters",
        prose=("CAUSE",),
        drop=("NEWEST", "EXAMPLE"),
    )


@api_command(app, "show", "crawlfleet dead-letter show task-0123456789abcdef")
def show_letter(call: Call, task_id: TaskId) -> None:
    """Show a dead letter with its task and every execution it had."""
    detail = call.client.dead_letter(task_id)
    if call.out.is_json:
        call.out.print_json(detail)
        return
    call.out.print_record(to_builtins(detail.dead_letter))
    call.out.print_record({"parameters": detail.task.parameters})
    call.out.print_text("")
    call.out.print_table(
        ("EXECUTION", "STATUS", "NODE", "ENDED", "ERROR"),
        [
            (
                execution.id,
                execution.status,
                execution.node_id,
                execution.end_time,
                execution.error and execution.error.message,
            )
            for execution in detail.executions
        ],
        prose=("ERROR",),
        drop=("ENDED", "NODE"),
    )


@api_command(
    app,
    "replay",
    "crawlfleet dead-letter replay task-0123456789abcdef",
    'crawlfleet dead-letter replay --cause "network: connection refused"',
)
def replay_letters(
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
def drop_letters(
    call: Call,
    task_ids: Annotated[list[str] | None, typer.Argument(help="Ids of tasks; or choose by --cause.")] = None,
    cause: CauseOption = None,
) -> None:
    """Forget dead letters, by id or by cause, with their tasks and all of their history."""
    if bool(task_ids) == (cause is not None):
        usage_error("name either tasks or --cause", "crawlfleet dead-letter groups lists the causes")
    if task_ids and len(task_ids) == 1:
        call.client.drop_dead_letter(task_ids[0])
        call.out.print_answer({"dropped": task_ids}, f"{task_ids[0]}: dropped")
        return
    done = call.client.drop_many(ids=task_ids) if task_ids else call.client.drop_many(cause=cause)
    _print_changed(call, done, "dropped")


def _print_changed(call: Call, done: BulkView, word: str) -> None:
    if call.out.is_json:
        call.out.print_json(done)
    else:
        call.out.print_text(f"{done.changed} tasks {word}" + (f", {done.refused} refused" if done.refused else ""))
        for refusal in done.refusals[:10]:
            call.out.print_note(f"{refusal.id}: {refusal.detail}")
    if done.refused and not done.changed:
        raise Complaint("no task was changed", hint="crawlfleet dead-letter list shows those there are")
