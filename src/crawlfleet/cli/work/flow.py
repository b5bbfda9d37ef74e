"""`crawlfleet flow`: a graph of tasks in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli import values
from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import Complaint, ExitCode, usage_error
from crawlfleet.cli.output import COLOURS
from crawlfleet.cli.wait.tasks import note_on_interrupt
from crawlfleet.observe.terminal_text import escape_line

if TYPE_CHECKING:
    from rich.tree import Tree

    from crawlfleet.client._generated.models import FlowDetail, StepView

app = typer.Typer(no_args_is_help=True)

FlowId = Annotated[str, typer.Argument(help="The flow's id.", show_default=False)]
ProjectOption = Annotated[str | None, typer.Option("--project", help="Only of this project.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait for the end; exit code 4 unless completed.")]
TimeoutOption = Annotated[float | None, typer.Option("--timeout", help="Seconds to wait at most.", min=0)]
_REASON_CHARS = 120


@api_command(
    app, "submit", "crawlfleet flow submit flow.yaml --wait", "crawlfleet flow submit flow.json --project shop --json"
)
def submit_flow(
    call: Call,
    file: Annotated[str, typer.Argument(help="The flow, in JSON or YAML; - is standard input.", metavar="FILE")],
    project: Annotated[str | None, typer.Option("--project", help="The project it belongs to.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="A name for people.")] = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="The same key again makes no second flow.")
    ] = None,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
) -> None:
    """Submit a flow: {"name": ..., "steps": {"a": {"task": {...}}, "b": {"task": {...}, "after": ["a"]}}}."""
    description = _read_flow(file)
    unknown = description.keys() - {"name", "project_id", "steps"}
    if unknown:
        usage_error(f"FILE: a flow has name, project_id and steps, not {', '.join(sorted(unknown))}")
    flow = call.client.submit_flow(
        description.get("steps", {}),
        name=name or description.get("name"),
        project_id=project or description.get("project_id"),
        idempotency_key=key,
    )
    if not wait:
        call.out.print_answer(flow, flow.id)
        return
    call.out.print_note(flow.id)
    _wait_for_flow(call, flow.id, timeout)


@api_command(app, "list", "crawlfleet flow list", "crawlfleet flow list --project shop --json")
def list_flows(
    call: Call,
    project: ProjectOption = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.", min=1)] = 50,
) -> None:
    """List flows, newest first."""
    call.out.print_listing(
        "flows",
        list(call.client.flows(project_id=project, limit=limit)),
        ("FLOW", "STATUS", "TASKS", "OPEN", "FAILED", "PROJECT", "CREATED", "NAME"),
        lambda flow: (
            flow.id,
            flow.status,
            flow.progress.total,
            flow.progress.open,
            flow.progress.failed + flow.progress.timeout,
            flow.project_id,
            flow.created_at,
            flow.name,
        ),
        empty="no flows",
        prose=("NAME",),
        drop=("PROJECT", "OPEN", "CREATED"),
    )


@api_command(app, "show", "crawlfleet flow show group-0123456789abcdef")
def show_flow(call: Call, flow_id: FlowId) -> None:
    """Show a flow as a tree, with the state of every step."""
    _print_flow(call, call.client.flow(flow_id))


@api_command(
    app,
    "watch",
    "crawlfleet flow watch group-0123456789abcdef",
    "crawlfleet flow watch group-0123456789abcdef --timeout 600",
)
def watch_flow(call: Call, flow_id: FlowId, timeout: TimeoutOption = None) -> None:
    """Wait until a flow has ended, and show it. Exit code 4 unless it completed."""
    _wait_for_flow(call, flow_id, timeout)


@api_command(app, "cancel", "crawlfleet flow cancel group-0123456789abcdef")
def cancel_flow(call: Call, flow_id: FlowId) -> None:
    """Cancel every task of a flow that has not ended."""
    done = call.client.cancel_flow(flow_id)
    call.out.print_answer(done, f"{done.id}: {done.changed} tasks cancelled, or asked to stop")


@api_command(app, "resume", "crawlfleet flow resume group-0123456789abcdef")
def resume_flow(call: Call, flow_id: FlowId) -> None:
    """Run again what failed or was cancelled, and what could not run because of it. What completed stays."""
    done = call.client.resume_flow(flow_id)
    call.out.print_answer(done, f"{done.id}: {done.changed} tasks run again or wait for those that do")


@api_command(app, "drop", "crawlfleet flow drop group-0123456789abcdef")
def drop_flow(call: Call, flow_id: FlowId) -> None:
    """Forget a flow that has ended, with its tasks and all of their history."""
    call.client.drop_flow(flow_id)
    call.out.print_answer({"dropped": flow_id}, f"{flow_id}: dropped")


def _read_flow(name: str) -> dict[str, Any]:
    import yaml

    try:
        # Every JSON text is YAML as well.
        description = yaml.safe_load(values.read_text(name, "FILE"))
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        usage_error(f"FILE: neither JSON nor YAML: {exc}")
    if not isinstance(description, dict) or not isinstance(description.get("steps"), dict):
        usage_error("FILE: a flow is an object with steps", """an example: {"steps": {"a": {"task": {...}}}}""")
    return description


def _wait_for_flow(call: Call, flow_id: str, timeout: float | None) -> None:
    from crawlfleet.client import WaitTimeout

    with note_on_interrupt(call, "flow", [flow_id]), call.out.progress_bar() as bar:
        line = bar.add_task("waiting", total=None, note="")

        def show_progress(flow: FlowDetail) -> None:
            ended = flow.progress.total - flow.progress.open
            running = [step.key for step in flow.steps if step.status in ("assigned", "processing")]
            bar.update(line, completed=ended, total=flow.progress.total, note=", ".join(running[:3]))

        try:
            flow = call.client.wait_flow(flow_id, timeout, show_progress)
        except WaitTimeout as exc:
            raise Complaint(str(exc), ExitCode.TASK_NOT_COMPLETED, f"crawlfleet flow show {flow_id}") from exc
    _print_flow(call, flow)
    if flow.status != "completed":
        hint = f"crawlfleet flow resume {flow_id}"
        raise Complaint(f"{flow_id} ended as {flow.status}", ExitCode.TASK_NOT_COMPLETED, hint)


def _print_flow(call: Call, flow: FlowDetail) -> None:
    if call.out.is_json:
        call.out.print_json(flow)
    else:
        call.out.stdout.print(_flow_tree(flow))


def _flow_tree(flow: FlowDetail) -> Tree:
    """Every step once, below the last of its parents; the others are named beside it."""
    from rich.text import Text
    from rich.tree import Tree

    title = Text.assemble(escape_line(flow.name or flow.id), "  ", (flow.status, COLOURS.get(flow.status, "")))
    title.append(f"  {flow.progress.total - flow.progress.open}/{flow.progress.total} tasks ended")
    root = Tree(title)
    branches: dict[str, Tree] = {}
    for step in flow.steps:
        parents = list(step.after)
        branches[step.key] = (branches[parents[-1]] if parents else root).add(_step_line(step))
    return root


def _step_line(step: StepView) -> Any:
    from rich.text import Text

    word = "skipped" if step.is_skipped else step.status
    line = Text.assemble(
        (escape_line(step.key), "bold"), "  ", (word, COLOURS.get(word, "")), f"  {escape_line(step.task_type)}"
    )
    if step.items is not None:
        line.append(f"  {step.items.by_status.get('completed', 0)}/{step.items.total} items")
    edges = [key if on == "success" else f"{key} on {on}" for key, on in step.after.items()]
    if len(edges) > 1 or any(on != "success" for on in step.after.values()):
        line.append(f"  after {escape_line(', '.join(edges))}", "dim")
    if step.when is not None:
        line.append(f"  when {escape_line(step.when)}", "dim")
    if step.reason:
        line.append(f"  ({escape_line(step.reason[:_REASON_CHARS])})", "dim")
    return line
