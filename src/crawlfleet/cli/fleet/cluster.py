"""`crawlfleet cluster`: groups of nodes, how they are, what they use, and whether they get work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.output import plain

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import ClusterView

app = typer.Typer(no_args_is_help=True)

ClusterName = Annotated[str, typer.Argument(help="The cluster's name.")]


@api_command(app, "list", "crawlfleet cluster list", "crawlfleet cluster list --json")
def list_clusters(call: Call) -> None:
    """List the clusters, with their health."""
    call.out.listing(
        "clusters",
        call.client.clusters(),
        ("CLUSTER", "STATUS", "HEALTH", "PROJECT", "NODES", "RUNNING", "SLOTS"),
        lambda one: (one.name, one.status, one.health, one.project, one.node_count, one.slots.used, one.slots.total),
    )


@api_command(app, "show", "crawlfleet cluster show eu", "crawlfleet cluster show --json")
def show(call: Call, name: ClusterName = "default") -> None:
    """Show how a cluster is: its status, its health, its nodes by status, its slots."""
    found = call.client.cluster(name)
    if call.out.is_json:
        call.out.json(found)
    else:
        call.out.record(plain(found))


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
    said: dict[str, Any] = {"status": status, "project": project, "description": description}
    fields = {key: value for key, value in said.items() if value is not None}
    _tell(call, call.client.put_cluster(name, **fields | ({"project": None} if for_all else {})))


@api_command(app, "remove", "crawlfleet cluster remove eu")
def remove(call: Call, name: Annotated[str, typer.Argument(help="The cluster's name.", show_default=False)]) -> None:
    """Remove a cluster with its configuration. Refused while a node is in it or an open task names it."""
    call.client.remove_cluster(name)
    call.out.answer({"cluster": name, "removed": True}, f"{name}: removed")


@api_command(app, "usage", "crawlfleet cluster usage", "crawlfleet cluster usage eu --json")
def usage(call: Call, name: ClusterName = "default") -> None:
    """Show what a cluster uses: slots and reserved resources, by node and by project."""
    found = call.client.usage(name)
    if call.out.is_json:
        call.out.json(found)
        return
    rows: list[tuple[object, ...]] = [
        ("node", one.name, one.slots.used, one.slots.total, _amounts(plain(one.reserved))) for one in found.nodes
    ]
    rows += [
        ("project", one.project_id or "(none)", one.running, None, _amounts(plain(one.reserved)))
        for one in found.projects
    ]
    rows.append(("cluster", found.cluster, found.slots.used, found.slots.total, _amounts(plain(found.reserved))))
    call.out.table(("OF", "NAME", "RUNNING", "SLOTS", "RESERVED"), rows, prose=("RESERVED",))


def _amounts(reserved: dict[str, float]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in sorted(reserved.items()))


def _tell(call: Call, one: ClusterView) -> None:
    kept = f", reserved for {one.project}" if one.project else ""
    call.out.answer(one, f"{one.name}: {one.status}{kept}, {one.node_count} nodes, {one.health}")
