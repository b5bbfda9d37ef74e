"""`crawlfleet task`: submit, look, wait, change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli import values
from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import Complaint, ExitCode, usage_error
from crawlfleet.cli.output import to_builtins, trim_instants
from crawlfleet.cli.wait.tasks import failed_message, print_notes, wait_for_tasks
from crawlfleet.cli.work.task_summary import end_line, summary_fields

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import TaskView

app = typer.Typer(no_args_is_help=True)

TaskId = Annotated[str, typer.Argument(help="A task's id.", show_default=False)]
TaskIds = Annotated[list[str], typer.Argument(help="Ids of tasks.", show_default=False)]
SomeTaskIds = Annotated[list[str] | None, typer.Argument(help="Ids of tasks; or choose by the filters.")]
ParamsOption = Annotated[str, typer.Option("--params", help="Parameters in JSON; @FILE reads a file.")]
ParamOption = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", help="One parameter, as NAME=VALUE. May be repeated.", metavar="NAME=VALUE"),
]
PriorityOption = Annotated[str, typer.Option("--priority", help="1 to 10, or high, normal, low.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait for the end; exit code 4 unless completed.")]
TimeoutOption = Annotated[float | None, typer.Option("--timeout", help="Seconds to wait at most.", min=0)]
ProjectOption = Annotated[str | None, typer.Option("--project", help="Only of this project.")]
StatusOption = Annotated[str | None, typer.Option("--status", help="Only these, with commas between them.")]
TypeOption = Annotated[str | None, typer.Option("--type", help="Only of this task type.")]
NodeOption = Annotated[str | None, typer.Option("--node", help="Only on this node (id or device id).")]
GroupOption = Annotated[str | None, typer.Option("--group", help="Only of this group.")]
SearchOption = Annotated[
    str | None, typer.Option("--search", "-q", help="The beginning of an id or name, or a part of the URL's host.")
]


@api_command(
    app,
    "submit",
    "crawlfleet task submit echo -p hello=world --result",
    """crawlfleet task submit web_crawl --params '{"url": "https://example.com", "depth": 1}' --priority high""",
    "crawlfleet task submit my_type --params @params.json --project shop --field timeout_s=60 --field queue=slow",
)
def submit_task(
    call: Call,
    task_type: Annotated[str, typer.Argument(help="What to run: crawlfleet task types lists them.")],
    params: ParamsOption = "{}",
    param: ParamOption = None,
    priority: PriorityOption = "5",
    project: Annotated[str | None, typer.Option("--project", help="The project it belongs to.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="A name for people.")] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(
            "--field", help="Any other field of a task, as NAME=VALUE. May be repeated.", metavar="NAME=VALUE"
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="The same key again makes no second task.")
    ] = None,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    result: Annotated[bool, typer.Option("--result", help="Wait, and print the data of its result as JSON.")] = False,
) -> None:
    """Submit a task. Prints its id; with --wait how it ended and what was counted, with --result its result."""
    fields: dict[str, Any] = {
        "priority": values.read_priority(priority, call),
        "project_id": project,
        "name": name,
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    fields |= values.parse_pairs(field or [], "--field")
    parameters = values.parse_parameters(params, param)
    task = call.client.submit(task_type, parameters, idempotency_key=key, **fields)
    if not wait and not result:
        call.out.print_answer(task, task.id)
        return
    call.out.print_note(task.id)
    (ended,) = wait_for_tasks(call, [task.id], timeout)
    _print_end(call, ended, with_result=result)


def _print_end(call: Call, task: TaskView, *, with_result: bool) -> None:
    if call.out.is_json:
        call.out.print_json(task)
    elif with_result:
        if task.result is not None:
            call.out.print_json(task.result.data)
    elif task.status == "completed":
        call.out.print_sentence(end_line(task))
    if task.result is not None and not call.out.is_json:
        print_notes(call, task.result.notes)
    if task.status != "completed":
        hint = f"crawlfleet task log {task.id}; crawlfleet task retry {task.id}"
        raise Complaint(failed_message(task), ExitCode.TASK_NOT_COMPLETED, hint)


@api_command(
    app,
    "batch",
    "crawlfleet task batch tasks.jsonl",
    "crawlfleet task batch tasks.json --atomic --wait",
    "generate-tasks | crawlfleet task batch - --json",
)
def submit_batch(
    call: Call,
    file: Annotated[str, typer.Argument(help="JSON lines, or a JSON list; - is standard input.", metavar="FILE")],
    atomic: Annotated[bool, typer.Option("--atomic", help="All of them or none (up to 10,000).")] = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
) -> None:
    """Submit many tasks, each an object such as {"task_type": "echo", "parameters": {}}. Prints their ids."""
    tasks = list(values.read_tasks(file))
    if not tasks:
        usage_error("FILE: there is no task in it")
    with call.out.progress_bar() as bar:
        line = bar.add_task("submitting", total=len(tasks), note="")

        def show_count(done: int, _: int) -> None:
            bar.update(line, completed=done)

        if atomic:
            answers: Any = call.client.submit_batch(tasks, "atomic", on_progress=show_count)
        else:
            answers = call.client.submit_batch(tasks, "each", on_progress=show_count)
    refused = [(index, answer.error) for index, answer in enumerate(answers) if hasattr(answer, "error")]
    ids = [answer.id for answer in answers if hasattr(answer, "id")]
    ended = wait_for_tasks(call, ids, timeout, with_results=False) if wait and ids else []
    if call.out.is_json:
        call.out.print_json({"tasks": ended if wait else answers})
    else:
        for task_id in ids:
            call.out.print_text(task_id)
    _report_batch(call, refused, ended, len(tasks))


def _report_batch(call: Call, refused: list[tuple[int, Any]], ended: Any, total: int) -> None:
    for index, error in refused[:10]:
        call.out.print_note(f"task {index}: {error.code}: {error.detail}")
    bad = [task for task in ended if task.status != "completed"]
    call.out.print_note(
        f"{total - len(refused)} of {total} submitted" + (f", {len(bad)} did not complete" if bad else "")
    )
    if refused:
        raise Complaint(f"{len(refused)} tasks were refused", ExitCode.FAILURE)
    if bad:
        raise Complaint(failed_message(bad[0]), ExitCode.TASK_NOT_COMPLETED)


@api_command(
    app,
    "watch",
    "crawlfleet task watch task-0123456789abcdef",
    "crawlfleet task watch task-0123456789abcdef task-0123456789abcdf0 --timeout 60",
)
def watch_tasks(call: Call, task_ids: TaskIds, timeout: TimeoutOption = None) -> None:
    """Wait for tasks with a progress bar. Exit code 0 when all completed, 4 when one did not."""
    ended = wait_for_tasks(call, task_ids, timeout)
    if call.out.is_json:
        call.out.print_json({"tasks": ended})
    else:
        for task in ended:
            call.out.print_sentence(end_line(task))
            print_notes(call, task.result.notes if task.result is not None else None)
    if bad := [task for task in ended if task.status != "completed"]:
        raise Complaint(failed_message(bad[0]), ExitCode.TASK_NOT_COMPLETED, f"crawlfleet task log {bad[0].id}")


@api_command(
    app,
    "list",
    "crawlfleet task list",
    "crawlfleet task list --status failed,timeout --project shop --limit 20",
    "crawlfleet task list -q example.com --json",
)
def list_tasks(
    call: Call,
    status: StatusOption = None,
    project: ProjectOption = None,
    task_type: TypeOption = None,
    queue: Annotated[str | None, typer.Option("--queue", help="Only of this queue.")] = None,
    node: NodeOption = None,
    group: GroupOption = None,
    search: SearchOption = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.", min=1)] = 50,
) -> None:
    """List tasks, newest first."""
    tasks = list(
        call.client.list(
            status=status,
            project_id=project,
            type=task_type,
            queue=queue,
            node=node,
            group=group,
            q=search,
            limit=limit,
        )
    )
    call.out.print_listing(
        "tasks",
        tasks,
        ("TASK", "STATUS", "TYPE", "PROJECT", "PRIORITY", "NODE", "CREATED", "NAME"),
        lambda task: (
            task.id,
            task.status,
            task.task_type,
            task.project_id,
            task.priority,
            task.assigned_node,
            task.created_at,
            task.name,
        ),
        empty="no tasks",
        prose=("NAME",),
        drop=("PRIORITY", "NODE", "PROJECT", "NAME", "CREATED"),
    )


@api_command(
    app,
    "show",
    "crawlfleet task show task-0123456789abcdef",
    "crawlfleet task show task-0123456789abcdef --result > result.json",
    "crawlfleet task show task-0123456789abcdef --json",
)
def show_task(
    call: Call,
    task_id: TaskId,
    result: Annotated[
        bool, typer.Option("--result", help="Print the data of its result as JSON, and nothing else.")
    ] = False,
) -> None:
    """Show a task: what was asked, where it is, what was counted or went wrong, and its executions."""
    task = call.client.get(task_id)
    if result:
        _print_result(call, task)
        return
    executions = call.client.executions(task_id)
    if call.out.is_json:
        call.out.print_json({**to_builtins(task), "executions": to_builtins(executions)})
        return
    notes = task.result.notes or () if task.result is not None else ()
    call.out.print_record(summary_fields(task) | {f"note {number}": note for number, note in enumerate(notes, 1)})
    if executions:
        call.out.print_text("")
        call.out.print_table(
            ("EXECUTION", "STATUS", "NODE", "STARTED", "ENDED"),
            [
                (execution.id, execution.status, execution.node_id, execution.start_time, execution.end_time)
                for execution in executions
            ],
        )


def _print_result(call: Call, task: TaskView) -> None:
    if task.result is None:
        hint = f"crawlfleet task why {task.id}"
        raise Complaint(f"{task.id} is {task.status} and has no result", ExitCode.TASK_NOT_COMPLETED, hint)
    call.out.print_json(task.result.data)


@api_command(app, "why", "crawlfleet task why task-0123456789abcdef")
def explain_task(call: Call, task_id: TaskId) -> None:
    """Say why a task is where it is: what it waits for, which filter removed how many nodes, which host is away."""
    why = call.client.why(task_id)
    call.out.print_answer({"sentence": why.sentence, **why.data}, trim_instants(why.sentence))
