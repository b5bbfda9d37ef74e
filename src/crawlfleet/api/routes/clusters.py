"""Clusters: how they are, what they use, and their configuration at run time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Header, Path
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.errors import printable_text
from crawlfleet.api.http.parameters import DEFAULT_PAGE_RECORDS, Body, Limit, Name, Text
from crawlfleet.api.http.responses import ResponseSpec, empty_response, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.nodes import MeasurementView, PathName, measurement_view
from crawlfleet.api.views.tasks import Time, instant_text
from crawlfleet.control.admin.cluster_report import ClusterReport, Use
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model import limits
from crawlfleet.model.ids import node_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.node import Cluster
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.status import ClusterStatus
from crawlfleet.ports.admin_store import ClusterConfig

routes = RouteTable("clusters", PREFIX)

ClusterInPath = Annotated[PathName, Path(description="The cluster's name; `default` is always there.")]


class ClusterBody(Body):
    """What is left out stays as it is."""

    status: Literal["active", "inactive", "maintenance"] | None = None
    description: Annotated[Text, Field(max_length=limits.MESSAGE_CHARS)] | None = None
    project: Annotated[Name, Field(min_length=1)] | None = None
    """Reserved for this project; null: for all."""


class ConfigBody(Body):
    values: dict[str, Any]
    """All that the cluster has of its own: what is left out has its default again."""
    expected_version: Annotated[int, Field(ge=0, lt=1 << 53)] | None = None
    """Refuse the change when another one came before it; `If-Match` says the same."""


class SlotsView(msgspec.Struct, frozen=True):
    total: int
    used: int


class ClusterView(msgspec.Struct, frozen=True):
    name: str
    status: str
    description: str
    project: str | None
    health: str
    """By the share of usable nodes: healthy, degraded, unhealthy; unknown without nodes."""
    nodes: dict[str, int]
    """How many, by status."""
    node_count: int
    slots: SlotsView
    id: str
    """Its name."""
    project_id: str | None
    """The same as `project`."""
    configuration: Mapping[str, Any]
    """What the cluster has of its own; `config` tells the defaults too."""
    created_at: Time | None
    """null: it was always there."""
    updated_at: Time | None


class ClusterList(msgspec.Struct, frozen=True):
    clusters: list[ClusterView]


class NodeUse(msgspec.Struct, frozen=True):
    id: str
    name: str
    status: str
    slots: SlotsView
    declared: dict[str, float]
    reserved: dict[str, float]
    measured: MeasurementView | None


class ProjectUse(msgspec.Struct, frozen=True):
    project_id: str | None
    running: int
    reserved: dict[str, float]


class UsageView(msgspec.Struct, frozen=True):
    cluster: str
    slots: SlotsView
    reserved: dict[str, float]
    nodes: list[NodeUse]
    projects: list[ProjectUse]


class ConfigView(msgspec.Struct, frozen=True):
    cluster: str
    version: int
    """0: nothing was ever set."""
    values: Mapping[str, Any]
    changed_by: str | None
    changed_at: Time | None


class FullConfigView(msgspec.Struct, frozen=True):
    cluster: str
    version: int
    values: Mapping[str, Any]
    effective: Mapping[str, Any]
    """Every setting, the defaults among them."""
    changed_by: str | None
    changed_at: Time | None


class ConfigHistory(msgspec.Struct, frozen=True):
    versions: list[ConfigView]


_VERSIONED_CONFIG = ResponseSpec(FullConfigView, headers={"ETag": "Its version."})


@routes.get("/clusters", ClusterList)
async def list_clusters(services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    return json_response(ClusterList([_cluster_view(report) for report in await services.clusters.list_reports()]))


@routes.get("/clusters/{cluster}", ClusterView, name="show")
async def show_cluster(cluster: ClusterInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    return json_response(_cluster_view(await _find_report(services, cluster)))


@routes.put("/clusters/{cluster}", ClusterView, name="put")
async def put_cluster(
    request: Request,
    cluster: ClusterInPath,
    body: ClusterBody,
    services: TheServices,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Make a cluster, or change one. An inactive one, or one in maintenance, gets no work."""
    changes = body.model_dump(exclude_unset=True)

    def change_cluster(have: Cluster) -> Cluster:
        return Cluster(
            cluster,
            ClusterStatus.of_word(body.status) if body.status else have.status,
            have.description if body.description is None else body.description,
            body.project if "project" in changes else have.project,
        )

    await services.clusters.change_cluster(cluster, change_cluster)
    await write_audit_entry(request, principal, "cluster.put", cluster, changes)
    return json_response(_cluster_view(await _find_report(services, cluster)))


@routes.delete("/clusters/{cluster}", status=204, name="remove")
async def remove_cluster(
    request: Request, cluster: ClusterInPath, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """With its configuration and the history of it. Refused while a node is in it or an open task names it; `default`
    stays always."""
    await services.clusters.remove_cluster(cluster)
    await write_audit_entry(request, principal, "cluster.remove", cluster)
    return empty_response()


@routes.get("/clusters/{cluster}/usage", UsageView, name="usage")
async def show_usage(cluster: ClusterInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """Slots, reserved and measured resources, by node and by project."""
    report = await _find_report(services, cluster)
    nodes = [
        NodeUse(
            node_text(node.id),
            node.description.name,
            node.status.word,
            SlotsView(node.slots, report.by_node[node.id].running),
            dict(node.description.resources),
            report.by_node[node.id].reserved,
            measurement_view(node.measurement),
        )
        for node in report.nodes
    ]
    projects = [
        ProjectUse(project or None, use.running, use.reserved) for project, use in sorted(report.by_project.items())
    ]
    reserved = _sum_reserved(report.by_node.values())
    return json_response(UsageView(cluster, SlotsView(report.slots, report.running), reserved, nodes, projects))


@routes.get("/clusters/{cluster}/config", _VERSIONED_CONFIG, name="config")
async def show_config(cluster: ClusterInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """What the cluster has of its own, and what applies with the defaults."""
    return await _config_response(services, await services.configure.load_own_config(cluster))


@routes.put("/clusters/{cluster}/config", _VERSIONED_CONFIG)
async def put_config(
    request: Request,
    cluster: ClusterInPath,
    body: ConfigBody,
    services: TheServices,
    principal: Principal = allow(Role.ADMIN),
    if_match: Annotated[str | None, Header(alias="If-Match", max_length=50)] = None,
) -> Response:
    """The next version. It reaches the nodes with their next sync."""
    expected = body.expected_version if if_match is None else _parse_version(if_match)
    if expected is not None and body.expected_version not in (None, expected):
        raise InvalidInput("not the version of If-Match", field="expected_version")
    done = await services.clusters.configure_cluster(cluster, body.values, principal, expected)
    details = {"version": done.version, "values": dict(done.values)}
    await write_audit_entry(request, principal, "cluster.configure", cluster, details)
    return await _config_response(services, done)


@routes.get("/clusters/{cluster}/config/history", ConfigHistory, name="history")
async def list_config_versions(
    cluster: ClusterInPath,
    services: TheServices,
    limit: Limit = DEFAULT_PAGE_RECORDS,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """Every version there was, newest first, with who made it."""
    configs = await services.configure.list_versions(cluster, limit)
    return json_response(ConfigHistory([ConfigView(*_config_fields(config)) for config in configs]))


async def _find_report(services: Services, cluster: str) -> ClusterReport:
    reports = await services.clusters.list_reports(only=cluster)
    if not reports:
        raise NotFound(f"no cluster {printable_text(cluster)!r}")
    return reports[0]


async def _config_response(services: Services, config: ClusterConfig) -> Response:
    effective = await services.configure.load_effective_config(config.cluster)
    name, version, values, changed_by, changed_at = _config_fields(config)
    view = FullConfigView(name, version, values, effective.settings.as_values(), changed_by, changed_at)
    return json_response(view, headers={"ETag": f'"{version}"'})


def _config_fields(config: ClusterConfig) -> tuple[str, int, Mapping[str, Any], str | None, str | None]:
    changed_at = None if config.changed_at is None else to_text(config.changed_at)
    return config.cluster, config.version, config.values, config.changed_by or None, changed_at


def _parse_version(if_match: str) -> int | None:
    """`"3"`, or `*` for any."""
    text = if_match.strip().removeprefix("W/").strip('"')
    if text == "*":
        return None
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text)
    raise InvalidInput('the version, such as "3"', field="If-Match")


def _cluster_view(report: ClusterReport) -> ClusterView:
    cluster = report.cluster
    by_status = {status.word: count for status, count in report.by_status.items()}
    return ClusterView(
        cluster.name,
        cluster.status.word,
        cluster.description,
        cluster.project,
        report.health.word,
        by_status,
        len(report.nodes),
        SlotsView(report.slots, report.running),
        cluster.name,
        cluster.project,
        report.configuration,
        instant_text(cluster.created_at),
        instant_text(cluster.changed_at),
    )


def _sum_reserved(uses: Iterable[Use]) -> dict[str, float]:
    total: dict[str, float] = {}
    for use in uses:
        for name, amount in use.reserved.items():
            total[name] = total.get(name, 0.0) + amount
    return total
