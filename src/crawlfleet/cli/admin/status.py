"""`crawlfleet status`: the whole installation on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from crawlfleet.cli.command import Call, api_command

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import MasterView


def add_to(app: typer.Typer) -> None:
    api_command(app, "status", "crawlfleet status", "crawlfleet status --url http://10.0.0.1:8000 --json")(show_status)


def show_status(call: Call) -> None:
    """Show the state of the installation: tasks by status, masters, clusters, nodes and paused queues."""
    print_status(call)


def print_status(call: Call) -> None:
    client, out = call.client, call.out
    stats, clusters, nodes, queues = client.stats(), client.clusters(), client.nodes(), client.queues()
    masters = client.masters()
    if out.is_json:
        out.print_json(
            {
                "url": client.url,
                "tasks": stats,
                "masters": masters,
                "clusters": clusters,
                "nodes": nodes,
                "queues": queues,
            }
        )
        return
    out.print_text(f"installation at {client.url}")
    counts = ", ".join(f"{count:,} {word}" for word, count in stats.by_status.items() if count)
    out.print_text(f"tasks: {stats.total:,}" + (f" ({counts})" if counts else ""))
    for master in masters:
        out.print_text(f"master {master.name}: {_describe_master(master)}")
    for cluster in clusters:
        slots = f"{cluster.slots.used} of {cluster.slots.total} slots in use"
        out.print_text(
            f"cluster {cluster.name}: {cluster.status}, {cluster.health}, {cluster.node_count} nodes, {slots}"
        )
    if paused := [queue.name for queue in queues if queue.is_paused]:
        out.print_text(f"paused queues: {', '.join(paused)}")
    out.print_text("")
    out.print_table(
        ("NODE", "NAME", "STATUS", "HEALTH", "RUNNING", "SLOTS"),
        [(node.id, node.name, node.status, node.health, node.running, node.slots) for node in nodes],
        empty="no nodes have joined yet: crawlfleet token create --role enrol, then crawlfleet worker",
    )


def _describe_master(master: MasterView) -> str:
    if not master.is_alive:
        return f"silent for {master.silent_s:.0f} s"
    words = ["leads" if master.is_leader else "stands by"]
    if master.version:
        words.append(f"version {master.version}")
    if address := master.address or master.figures.url:
        words.append(address)
    return ", ".join(words)
