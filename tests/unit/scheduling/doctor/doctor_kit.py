"""A snapshot of an installation in which everything is in order, to break one thing of it."""

from __future__ import annotations

from typing import Any

from crawlfleet.model.alerts.alert import AlertChannel
from crawlfleet.model.host import Host
from crawlfleet.model.installation.master import DiskFigures, LoopFigures, MasterFigures, MasterIdentity, MasterRecord
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Cluster, Measurement, Node, NodeDescription
from crawlfleet.model.principal import Role, TokenRecord
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.schedule import CatchUp, Overlap, Schedule, Timing
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.scheduling.doctor.check_list import CHECKS, run_checks
from crawlfleet.scheduling.doctor.findings import Finding, FindingSeverity
from crawlfleet.scheduling.doctor.snapshot import (
    AccessPart,
    AlertPart,
    BackupPart,
    CounterPart,
    DatabasePart,
    FilePart,
    HistoryPart,
    HostCondition,
    HostPart,
    LaneBacklog,
    MasterPart,
    NodePart,
    RunningPart,
    SchedulePart,
    Snapshot,
    TypeFigures,
    WorkPart,
)

NOW: Instant = 1_767_225_600_000
"""The instant 2026-01-01T00:00:00Z."""
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
GIB = 1 << 30
FIGURES = MasterFigures(
    commit_p99_ms=4.0,
    loop_lag_p99_ms=2.0,
    loops={"dispatcher": LoopFigures(0.5)},
    broker="redis",
    broker_memory_ratio=0.2,
    broker_eviction="noeviction",
    disks={"data": DiskFigures("/data", 100 * GIB, 60 * GIB)},
    clock_offset_ms=20,
)


def master(name: str = "m1", boot: int = 1, silent_ms: int = 100, version: str = "1.0", **figures: Any) -> MasterRecord:
    values = {field: getattr(FIGURES, field) for field in MasterFigures.__dataclass_fields__} | figures
    return MasterRecord(MasterIdentity(boot, name, NOW - DAY_MS, version), NOW, silent_ms, MasterFigures(**values))


def node(
    number: int = 1,
    *,
    measurement: Measurement | None = None,
    status: NodeStatus = NodeStatus.ONLINE,
    renewed_at: Instant = NOW,
    is_session_open: bool = True,
    **description: Any,
) -> Node:
    values: dict[str, Any] = {"name": f"n{number}", "slots": 4, "task_types": ("echo", "web_crawl")} | description
    return Node(
        number,
        NodeDescription(**values),
        status,
        Health.HEALTHY,
        session=1,
        is_session_open=is_session_open,
        renewed_at=renewed_at,
        measurement=measurement or Measurement(cpu=0.5, memory=0.4, disk=0.3, running=1),
        created_at=NOW - 10 * DAY_MS,
    )


def waiting(
    count: int = 3,
    *,
    task_type: str = "echo",
    queue: str = "default",
    project: str = "shop",
    priority: int = 5,
    age_ms: int = 60_000,
    timeout_s: int = 300,
    **requirement: Any,
) -> LaneBacklog:
    lane = Lane.with_id(queue, project, priority, Requirement(task_type, **requirement))
    return LaneBacklog(lane, count, NOW - age_ms, timeout_s)


def token(number: int = 2, role: Role = Role.ADMIN, name: str = "ann", **fields: Any) -> TokenRecord:
    values: dict[str, Any] = {"expires_at": NOW + 30 * DAY_MS} | fields
    return TokenRecord(number, role, name, NOW - DAY_MS, "ann", **values)


def schedule(**fields: Any) -> Schedule:
    values: dict[str, Any] = {
        "id": 7,
        "name": "nightly",
        "project": "shop",
        "task_type": "echo",
        "task": b"{}",
        "timing": Timing(cron="0 3 * * *"),
        "anchor_at": 0,
        "catch_up": CatchUp.ONE,
        "overlap": Overlap.QUEUE,
        "is_paused": False,
        "created_at": NOW - DAY_MS,
        "created_by": "ann",
        "changed_at": NOW - DAY_MS,
        "fired_until": NOW - HOUR_MS,
        "next_at": NOW + HOUR_MS,
        "due_at": NOW + HOUR_MS,
    }
    return Schedule(**(values | fields))


def channel(**fields: Any) -> AlertChannel:
    return AlertChannel("ops", "webhook", {}, **fields)


def masters(*records: MasterRecord, leader: str = "m1#1") -> dict[str, Any]:
    """The parts about masters, for `healthy`."""
    part = MasterPart(records, leader)
    return {"masters": part, "running": RunningPart(part.alive)}


def healthy(**parts: Any) -> Snapshot:
    """A snapshot in which all checks find nothing, but for the parts that are given."""
    values: dict[str, Any] = {
        "now": NOW,
        "version": "1.0",
        **masters(master()),
        "database": DatabasePart(
            "postgresql",
            "0001",
            True,
            True,
            {
                "fsync": "on",
                "full_page_writes": "on",
                "synchronous_commit": "on",
                "idle_in_transaction_session_timeout": "2s",
            },
        ),
        "files": FilePart(
            store_file="/data/crawlfleet.db",
            file_system="ext4",
            disks={"data": DiskFigures("/data", 100 * GIB, 60 * GIB)},
            listens_on="127.0.0.1",
            certificate="/cert.pem",
            certificate_ends_at=NOW + 90 * DAY_MS,
        ),
        "nodes": NodePart([node(1), node(2)], {1: 2}),
        "work": WorkPart([waiting()], clusters=[Cluster("default")], running_by_project={"shop": 5, "news": 6}),
        "history": HistoryPart({"echo": TypeFigures(100, 0, 1_000.0, 2_000.0)}, 300),
        "counters": CounterPart({"pending": 3}, {"pending": 3}),
        "schedules": SchedulePart([schedule()]),
        "hosts": HostPart([HostCondition(Host("example.com"), 0, 100, 2)]),
        "access": AccessPart([token()], "first admin"),
        "alerts": AlertPart([channel()]),
        "backups": BackupPart(NOW - DAY_MS, NOW - 30 * DAY_MS),
    }
    return Snapshot(**(values | parts))


def problems(check: str, **parts: Any) -> list[Finding]:
    """What one check finds in the snapshot with these parts, without lines for what is in order."""
    chosen = [each for each in CHECKS if each.id == check]
    assert chosen, check
    return [finding for finding in run_checks(healthy(**parts), chosen) if finding.severity is not FindingSeverity.OK]


def only_problem(check: str, **parts: Any) -> Finding:
    (finding,) = problems(check, **parts)
    return finding
