"""`crawlfleet status`: the whole installation on one screen."""

from __future__ import annotations

import typer

from crawlfleet.cli.command import Call, api_command


def add_to(app: typer.Typer) -> None:
    api_command(app, "status", "crawlfleet status", "crawlfleet status --url http://10.0.0.1:8000 --json")(status)


def status(call: Call) -> None:
    """Show the state of the installation: tasks by status, clusters, nodes and paused queues."""
    show_status(call)


def show_status(call: Call) -> None:
    client, out = call.client, call.out
    stats, clusters, nodes, queues = client.stats(), client.clusters(), client.nodes(), client.queues()
    if out.is_json:
        out.json({"url": client.url, "tasks": stats, "clusters": clusters, "nodes": nodes, "queues": queues})
        return
    out.text(f"installation at {client.url}")
    counts = ", ".join(f"{count:,} {word}" for word, count in stats.by_status.items() if count)
    out.text(f"tasks: {stats.total:,}" + (f" ({counts})" if counts else ""))
    for cluster in clusters:
        slots = f"{cluster.slots.used} of {cluster.slots.total} slots in use"
        out.text(f"cluster {cluster.name}: {cluster.status}, {cluster.health}, {cluster.node_count} nodes, {slots}")
    if paused := [queue.name for queue in queues if queue.is_paused]:
        out.text(f"paused queues: {', '.join(paused)}")
    out.text("")
    out.table(
        ("NODE", "NAME", "STATUS", "HEALTH", "RUNNING", "SLOTS"),
        [(node.id, node.name, node.status, node.health, node.running, node.slots) for node in nodes],
        empty="no nodes have joined yet: crawlfleet token create --role enrol, then crawlfleet worker",
    )
