"""`crawlfleet cluster`: groups of nodes, how they are, what they use, and whether they get work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.output import to_builtins

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import ClusterView

app = typer.Typer(no_args_is_help=True)

ClusterName = Annotated[str, typer.Argument(help="The cluster's name.")]


@api_command(app, "list", "crawlfleet cluster list", "crawlfleet cluster list --json")
def list_clusters(call: Call) -> None:
    """List the clusters, with their health."""
    call.out.print_listing(
        "clusters",
        call.client.clusters(),
        ("CLUSTER", "STATUS", "HEALTH", "PROJECT", "NODES", "RUNNING", "SLOTS"),
        lambda cluster: (
            cluster.name,
            cluster.status,
            cluster.health,
            cluster.project,
            cluster.node_count,
            cluster.slots.used,
            cluster.slots.total,
        ),
    )


@api_command(app, "show", "crawlfleet cluster show eu", "crawlfleet cluster show --json")
def show_cluster(call: Call, name: ClusterName = "default") -> None:
    """Show how a cluster is: its status, its health, its nodes by status, its slots."""
    cluster = call.client.cluster(name)
    if call.out.is_json:
        call.out.print_json(cluster)
    else:
        call.out.print_record(to_builtins(cluster))


@api_command(
    app,
    "set",
    "crawlfleet cluster set eu --status maintenance",
    "crawlfleet cluster set eu --project shop",
    "crawlfleet cluster set eu --for-all --status active",
)
def set_cluster(
    call: Call,
    name: Annotated[str, typer.Argument(help="The cluster's name; a new one is made.", show_default=False)],
    status: Annotated[
        str | None, typer.Option("--status", help="active, or inactive or maintenance: it gets no work then.")
    ] = None,
    project: Annotated[str | None, typer.Option("--project", help="Reserve it for this project.")] = None,
    for_all: Annotated[bool, typer.Option("--for-all", help="Reserve it for nobody.")] = False,
    description: Annotated[str | None, typer.Option("--description", help="A text for people.")] = None,
) -> None:
    """Make a cluster, or change one. What is left out stays as it is."""
    if for_all and project is not None:
        usage_error("--project and --for-all cannot be had together")
    given: dict[str, Any] = {"status": status, "project": project, "description": description}
    fields = {key: value for key, value in given.items() if value is not None}
    _print_cluster(call, call.client.put_cluster(name, **fields | ({"project": None} if for_all else {})))


@api_command(app, "remove", "crawlfleet cluster remove eu")
def remove_cluster(
    call: Call, name: Annotated[str, typer.Argument(help="The cluster's name.", show_default=False)]
) -> None:
    """Remove a cluster with its configuration. Refused while a node is in it or an open task names it."""
    call.client.remove_cluster(name)
    call.out.print_answer({"cluster": name, "removed": True}, f"{name}: removed")


@api_command(app, "usage", "crawlfleet cluster usage", "crawlfleet cluster usage eu --json")
def show_usage(call: Call, name: ClusterName = "default") -> None:
    """Show what a cluster uses: slots and reserved resources, by node and by project."""
    usage = call.client.usage(name)
    if call.out.is_json:
        call.out.print_json(usage)
        return
    rows: list[tuple[object, ...]] = [
        ("node", part.name, part.slots.used, part.slots.total, _format_amounts(to_builtins(part.reserved)))
        for part in usage.nodes
    ]
    rows += [
        ("project", part.project_id or "(none)", part.running, None, _format_amounts(to_builtins(part.reserved)))
        for part in usage.projects
    ]
    rows.append(
        ("cluster", usage.cluster, usage.slots.used, usage.slots.total, _format_amounts(to_builtins(usage.reserved)))
    )
    call.out.print_table(("OF", "NAME", "RUNNING", "SLOTS", "RESERVED"), rows, prose=("RESERVED",))


def _format_amounts(reserved: dict[str, float]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in sorted(reserved.items()))


def _print_cluster(call: Call, cluster: ClusterView) -> None:
    reservation = f", reserved for {cluster.project}" if cluster.project else ""
    call.out.print_answer(
        cluster, f"{cluster.name}: {cluster.status}{reservation}, {cluster.node_count} nodes, {cluster.health}"
    )
