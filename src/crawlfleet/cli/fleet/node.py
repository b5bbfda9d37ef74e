"""`crawlfleet node`: which nodes there are, and what they are told to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import Complaint, ExitCode, usage_error
from crawlfleet.cli.output import to_builtins, trim_instants

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import NodeView

app = typer.Typer(no_args_is_help=True)
T = TypeVar("T")
_MAX_NAMED = 10
_NUMBER_CHARS = 10

NodeId = Annotated[str, typer.Argument(help="A node's id, device id or name.", show_default=False)]


@api_command(app, "list", "crawlfleet node list", "crawlfleet node list --cluster default --status online --json")
def list_nodes(
    call: Call,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Only of this cluster.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="Only in this status.")] = None,
) -> None:
    """List the nodes."""
    nodes = call.client.nodes(cluster=cluster, status=status)
    call.out.print_listing(
        "nodes",
        nodes,
        ("NODE", "NAME", "DEVICE", "STATUS", "HEALTH", "RUNNING", "SLOTS", "REGION", "CLUSTER", "LAST SEEN"),
        lambda node: (
            node.id,
            node.name,
            node.device_id,
            node.status,
            node.health,
            node.running,
            node.slots,
            node.region,
            node.cluster,
            trim_instants(node.last_seen_at or ""),
        ),
        drop=("CLUSTER", "DEVICE", "REGION", "LAST SEEN"),
        empty="no nodes have joined yet: crawlfleet token create --role enrol, then crawlfleet worker",
    )


@api_command(app, "show", "crawlfleet node show worker-001", "crawlfleet node show node-0123456789abcdef --json")
def show_node(call: Call, node_id: NodeId) -> None:
    """Show everything about a node: what it said of itself, what it measures, how it is."""
    node = _call_for_node(call, node_id, call.client.node)
    if call.out.is_json:
        call.out.print_json(node)
    else:
        call.out.print_record(to_builtins(node))


@api_command(
    app,
    "history",
    "crawlfleet node history worker-001",
    "crawlfleet node history worker-001 --since 2026-11-16T08:00:00Z --limit 600 --json",
)
def show_history(
    call: Call,
    node_id: NodeId,
    since: Annotated[str | None, typer.Option("--since", help="Samples from this instant on (ISO 8601).")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Samples before this instant.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most, the newest.", min=1, max=1_500)] = 60,
) -> None:
    """Show what a node measured, a sample a minute."""
    history = _call_for_node(
        call, node_id, lambda handle: call.client.node_history(handle, since=since, until=until, limit=limit)
    )
    if call.out.is_json:
        call.out.print_json(history)
        return
    call.out.print_table(
        ("AT", "CPU", "MEMORY", "DISK", "LOAD", "IN bit/s", "OUT bit/s", "RUNNING", "ERRORS", "START s"),
        [
            (
                sample.at,
                measured.cpu,
                measured.memory,
                measured.disk,
                measured.load,
                measured.network_in_bps,
                measured.network_out_bps,
                measured.running,
                measured.error_rate,
                measured.start_latency_s,
            )
            for sample in history.samples
            for measured in (sample.measurement,)
        ],
        empty="there are no samples of that time: one is taken every minute",
    )


@api_command(app, "drain", "crawlfleet node drain worker-001", "crawlfleet node drain worker-001 --within 600")
def drain_node(
    call: Call,
    node_id: NodeId,
    within: Annotated[float, typer.Option("--within", help="Seconds after which running work is handed back.")] = 300,
) -> None:
    """Give a node no new work; what it runs may end. It stays so until crawlfleet node ready."""
    _print_node(call, _call_for_node(call, node_id, lambda handle: call.client.drain(handle, within_s=within)))


@api_command(app, "ready", "crawlfleet node ready worker-001")
def make_ready(call: Call, node_id: NodeId) -> None:
    """Give a node work again, and judge its health anew."""
    _print_node(call, _call_for_node(call, node_id, call.client.ready))


@api_command(
    app,
    "slots",
    "crawlfleet node slots worker-001 8",
    "crawlfleet node slots worker-001 auto",
    "crawlfleet node slots worker-001 default",
)
def set_slots(
    call: Call,
    node_id: NodeId,
    count: Annotated[
        str, typer.Argument(help="Tasks at a time; auto: as its load allows; default: as its cluster or itself says.")
    ] = "default",
) -> None:
    """Set how many tasks a node runs at a time. Nothing that runs is stopped."""
    wanted = _parse_slots(count)
    _print_node(call, _call_for_node(call, node_id, lambda handle: call.client.set_slots(handle, wanted)))


def _parse_slots(text: str) -> int | Literal["auto"] | None:
    if text == "auto":
        return "auto"
    if text == "default":
        return None
    if not (text.isascii() and text.isdigit() and len(text) < _NUMBER_CHARS):
        usage_error(f"{text!r} is no number of slots", "a number, auto or default")
    return int(text)


@api_command(app, "remove", "crawlfleet node remove worker-001")
def remove_node(call: Call, node_id: NodeId) -> None:
    """Remove a node: its secret is revoked at once, its work goes to others, its history stays."""

    def remove_by_id(handle: str) -> str:
        call.client.remove_node(handle)
        return handle

    gone = _call_for_node(call, node_id, remove_by_id)
    call.out.print_answer({"removed": gone}, f"{gone}: removed")


def _print_node(call: Call, node: NodeView) -> None:
    call.out.print_answer(
        node, f"{node.id} ({node.name}): {node.status}, {node.running} running, {node.slots} slots ({node.slots_mode})"
    )


def _call_for_node(call: Call, handle: str, act: Callable[[str], T]) -> T:
    """What `act` answers for a node. The master knows it by id or device id; else the one of this name is meant."""
    from crawlfleet.client import ApiError

    try:
        return act(handle)
    except ApiError as exc:
        if exc.status != 404:
            raise
    return act(_find_id_by_name(call, handle))


def _find_id_by_name(call: Call, name: str) -> str:
    node_ids = [node.id for node in call.client.nodes() if node.name == name]
    if not node_ids:
        hint = "crawlfleet node list shows them all"
        raise Complaint(f"no node has the id, device id or name {name!r}", ExitCode.NOT_FOUND, hint)
    if len(node_ids) > 1:
        usage_error(
            f"{len(node_ids)} nodes have the name {name!r}: {', '.join(node_ids[:_MAX_NAMED])}",
            "say which by its id; crawlfleet node list shows them all",
        )
    return node_ids[0]
