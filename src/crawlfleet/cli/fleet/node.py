"""`crawlfleet node`: which nodes there are, and what they are told to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import Complaint, ExitCode, usage_error
from crawlfleet.cli.output import plain, seconds

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import NodeView

app = typer.Typer(no_args_is_help=True)
T = TypeVar("T")
_NAMED_MOST = 10
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
    call.out.listing(
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
            seconds(node.last_seen_at or ""),
        ),
        drop=("CLUSTER", "DEVICE", "REGION", "LAST SEEN"),
        empty="no nodes have joined yet: crawlfleet token create --role enrol, then crawlfleet worker",
    )


@api_command(app, "show", "crawlfleet node show worker-001", "crawlfleet node show node-0123456789abcdef --json")
def show(call: Call, node_id: NodeId) -> None:
    """Show everything about a node: what it said of itself, what it measures, how it is."""
    node = _of_node(call, node_id, call.client.node)
    if call.out.is_json:
        call.out.json(node)
    else:
        call.out.record(plain(node))


@api_command(
    app,
    "history",
    "crawlfleet node history worker-001",
    "crawlfleet node history worker-001 --since 2026-11-16T08:00:00Z --limit 600 --json",
)
def history(
    call: Call,
    node_id: NodeId,
    since: Annotated[str | None, typer.Option("--since", help="Samples from this instant on (ISO 8601).")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Samples before this instant.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most, the newest.", min=1, max=1_500)] = 60,
) -> None:
    """Show what a node measured, a sample a minute."""
    found = _of_node(
        call, node_id, lambda known: call.client.node_history(known, since=since, until=until, limit=limit)
    )
    if call.out.is_json:
        call.out.json(found)
        return
    call.out.table(
        ("AT", "CPU", "MEMORY", "DISK", "LOAD", "IN bit/s", "OUT bit/s", "RUNNING", "ERRORS", "START s"),
        [
            (
                sample.at,
                one.cpu,
                one.memory,
                one.disk,
                one.load,
                one.network_in_bps,
                one.network_out_bps,
                one.running,
                one.error_rate,
                one.start_latency_s,
            )
            for sample in found.samples
            for one in (sample.measurement,)
        ],
        empty="there are no samples of that time: one is taken every minute",
    )


@api_command(app, "drain", "crawlfleet node drain worker-001", "crawlfleet node drain worker-001 --within 600")
def drain(
    call: Call,
    node_id: NodeId,
    within: Annotated[float, typer.Option("--within", help="Seconds after which running work is handed back.")] = 300,
) -> None:
    """Give a node no new work; what it runs may end. It stays so until crawlfleet node ready."""
    _tell(call, _of_node(call, node_id, lambda known: call.client.drain(known, within_s=within)))


@api_command(app, "ready", "crawlfleet node ready worker-001")
def ready(call: Call, node_id: NodeId) -> None:
    """Give a node work again, and judge its health anew."""
    _tell(call, _of_node(call, node_id, call.client.ready))


@api_command(
    app,
    "slots",
    "crawlfleet node slots worker-001 8",
    "crawlfleet node slots worker-001 auto",
    "crawlfleet node slots worker-001 default",
)
def slots(
    call: Call,
    node_id: NodeId,
    count: Annotated[
        str, typer.Argument(help="Tasks at a time; auto: as its load allows; default: as its cluster or itself says.")
    ] = "default",
) -> None:
    """Set how many tasks a node runs at a time. Nothing that runs is stopped."""
    wanted = _slots(count)
    _tell(call, _of_node(call, node_id, lambda known: call.client.set_slots(known, wanted)))


def _slots(said: str) -> int | Literal["auto"] | None:
    if said == "auto":
        return "auto"
    if said == "default":
        return None
    if not (said.isascii() and said.isdigit() and len(said) < _NUMBER_CHARS):
        usage_error(f"{said!r} is no number of slots", "a number, auto or default")
    return int(said)


@api_command(app, "remove", "crawlfleet node remove worker-001")
def remove(call: Call, node_id: NodeId) -> None:
    """Remove a node: its secret is revoked at once, its work goes to others, its history stays."""

    def removed(known: str) -> str:
        call.client.remove_node(known)
        return known

    gone = _of_node(call, node_id, removed)
    call.out.answer({"removed": gone}, f"{gone}: removed")


def _tell(call: Call, node: NodeView) -> None:
    call.out.answer(
        node, f"{node.id} ({node.name}): {node.status}, {node.running} running, {node.slots} slots ({node.slots_mode})"
    )


def _of_node(call: Call, said: str, act: Callable[[str], T]) -> T:
    """What `act` answers for a node. The master knows it by id or device id; else the one of this name is meant."""
    from crawlfleet.client import ApiError

    try:
        return act(said)
    except ApiError as exc:
        if exc.status != 404:
            raise
    return act(_id_by_name(call, said))


def _id_by_name(call: Call, name: str) -> str:
    found = [node.id for node in call.client.nodes() if node.name == name]
    if not found:
        hint = "crawlfleet node list shows them all"
        raise Complaint(f"no node has the id, device id or name {name!r}", ExitCode.NOT_FOUND, hint)
    if len(found) > 1:
        usage_error(
            f"{len(found)} nodes have the name {name!r}: {', '.join(found[:_NAMED_MOST])}",
            "say which by its id; crawlfleet node list shows them all",
        )
    return found[0]
