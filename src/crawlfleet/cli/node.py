"""`crawlfleet node`: which nodes there are, and what they are told to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.output import plain

if TYPE_CHECKING:
    from crawlfleet.client.models import NodeView

app = typer.Typer(no_args_is_help=True)

NodeId = Annotated[str, typer.Argument(help="A node's id or device id.", show_default=False)]


@api_command(app, "list", "crawlfleet node list", "crawlfleet node list --cluster default --status online --json")
def list_nodes(
    call: Call,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Only of this cluster.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="Only in this status.")] = None,
) -> None:
    """List the nodes."""
    nodes = call.client.nodes(cluster=cluster, status=status)
    if call.out.is_json:
        call.out.json({"nodes": nodes})
        return
    call.out.table(
        ("NODE", "NAME", "DEVICE", "STATUS", "HEALTH", "RUNNING", "SLOTS", "REGION", "CLUSTER", "LAST SEEN"),
        [
            (node.id, node.name, node.device_id, node.status, node.health, node.running, node.slots, node.region,
             node.cluster, node.last_seen_at)
            for node in nodes
        ],
        empty="no nodes have joined yet: crawlfleet token create --role enrol, then crawlfleet worker",
    )  # fmt: skip


@api_command(app, "show", "crawlfleet node show worker-001", "crawlfleet node show node-0123456789abcdef --json")
def show(call: Call, node_id: NodeId) -> None:
    """Show everything about a node: what it said of itself, what it measures, how it is."""
    _print(call, call.client.node(node_id))


@api_command(app, "drain", "crawlfleet node drain worker-001", "crawlfleet node drain worker-001 --within 600")
def drain(
    call: Call,
    node_id: NodeId,
    within: Annotated[float, typer.Option("--within", help="Seconds after which running work is handed back.")] = 300,
) -> None:
    """Give a node no new work; what it runs may end. It stays so until crawlfleet node ready."""
    _tell(call, call.client.drain(node_id, within_s=within))


@api_command(app, "ready", "crawlfleet node ready worker-001")
def ready(call: Call, node_id: NodeId) -> None:
    """Give a node work again."""
    _tell(call, call.client.ready(node_id))


@api_command(app, "slots", "crawlfleet node slots worker-001 8", "crawlfleet node slots worker-001")
def slots(
    call: Call,
    node_id: NodeId,
    count: Annotated[int | None, typer.Argument(help="Tasks at a time; the node's own number if left out.")] = None,
) -> None:
    """Set how many tasks a node runs at a time."""
    _tell(call, call.client.set_slots(node_id, count))


@api_command(app, "remove", "crawlfleet node remove worker-001")
def remove(call: Call, node_id: NodeId) -> None:
    """Remove a node: its secret is revoked at once, its work goes to others, its history stays."""
    call.client.remove_node(node_id)
    if call.out.is_json:
        call.out.json({"removed": node_id})
    else:
        call.out.text(f"{node_id}: removed")


def _tell(call: Call, node: NodeView) -> None:
    if call.out.is_json:
        call.out.json(node)
    else:
        call.out.text(f"{node.id} ({node.name}): {node.status}, {node.running} running, {node.slots} slots")


def _print(call: Call, node: NodeView) -> None:
    if call.out.is_json:
        call.out.json(node)
    else:
        call.out.record(plain(node))
