"""Masters: which there are, which of them are alive, and what each measures of itself."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from crawlfleet.api.http.auth import allow
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.tasks import Time
from crawlfleet.control.admin.masters import MasterReport
from crawlfleet.model.installation.master import MasterFigures
from crawlfleet.model.instants import to_text
from crawlfleet.model.principal import Principal, Role

routes = RouteTable("masters", PREFIX)


class LoopView(msgspec.Struct, frozen=True):
    passed_s_ago: float
    overdue_s: float
    """How much longer than its pause ago its last pass ended: how long the pass under way takes."""


class DiskView(msgspec.Struct, frozen=True):
    path: str
    total_bytes: int
    free_bytes: int


class MasterFiguresView(msgspec.Struct, frozen=True):
    url: str
    """The address on which it listens, for callers on its machine."""
    loop_lag_p99_ms: float | None
    """How late its event loop ran its timers in the last five minutes; null for less than a hundred of them."""
    commit_p99_ms: float | None
    """How long its transactions took in the last five minutes; null for less than a hundred of them."""
    loops: dict[str, LoopView]
    """Its loops that are not at rest: most rest while another master leads."""
    broker: str
    """memory or redis."""
    broker_trouble: str | None
    broker_losses: int
    """How often it lost the broker since midnight (UTC), or since it started."""
    broker_resets: int
    """How often it found the broker's content begun anew in that time."""
    broker_memory_ratio: float | None
    """Of the memory limit of the broker, where it has one."""
    leader_changes: int
    """How often it saw another leader in the last hour."""
    memory_bytes: int
    disks: dict[str, DiskView]
    clock_offset_ms: int | None
    """Its clock minus that of the database's machine; null where they are one machine."""


class MasterView(msgspec.Struct, frozen=True):
    name: str
    boot: int
    """The number of this start: a later start has a higher one."""
    version: str
    """Empty until it has reported for the first time."""
    address: str
    """The URL under which nodes reach it, as it says itself (`advertise_url`); empty where it says none."""
    is_alive: bool
    """It has reported in the last 15 seconds, by the clock of the database."""
    is_leader: bool
    started_at: Time
    seen_at: Time
    silent_s: float
    """Since it last reported."""
    figures: MasterFiguresView


class MastersView(msgspec.Struct, frozen=True):
    masters: list[MasterView]


@routes.get(
    "/masters",
    ResponseSpec(MastersView, "Those that are alive, and silent ones that were not started again; the newest first."),
)
async def list_masters(services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """Which masters there are. One that stopped in good order is not listed; one that fell silent is, for an hour."""
    return json_response(MastersView([_master_view(report) for report in await services.masters.list_masters()]))


def _master_view(report: MasterReport) -> MasterView:
    record, identity = report.record, report.record.identity
    return MasterView(
        name=identity.name,
        boot=identity.boot,
        version=identity.version,
        address=identity.address,
        is_alive=record.is_alive,
        is_leader=report.is_leader,
        started_at=to_text(identity.started_at),
        seen_at=to_text(record.seen_at),
        silent_s=record.silent_ms / 1000,
        figures=_figures_view(record.figures),
    )


def _figures_view(figures: MasterFigures) -> MasterFiguresView:
    return MasterFiguresView(
        url=figures.url,
        loop_lag_p99_ms=figures.loop_lag_p99_ms,
        commit_p99_ms=figures.commit_p99_ms,
        loops={name: LoopView(loop.passed_s_ago, loop.overdue_s) for name, loop in figures.loops.items()},
        broker=figures.broker,
        broker_trouble=figures.broker_trouble,
        broker_losses=figures.broker_losses,
        broker_resets=figures.broker_resets,
        broker_memory_ratio=figures.broker_memory_ratio,
        leader_changes=figures.leader_changes,
        memory_bytes=figures.memory_bytes,
        disks={name: DiskView(disk.path, disk.total_bytes, disk.free_bytes) for name, disk in figures.disks.items()},
        clock_offset_ms=figures.clock_offset_ms,
    )
