"""The snapshot that the checks look at: parts that were read at one time, or why a part could not be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from crawlfleet.model.alerts.alert import AlertChannel
from crawlfleet.model.host import Host
from crawlfleet.model.ids import NodeId, ScheduleId
from crawlfleet.model.installation.master import DiskFigures, MasterRecord
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Cluster, Node
from crawlfleet.model.principal import TokenRecord
from crawlfleet.model.queue import Lane
from crawlfleet.model.schedule import Schedule


class Unchecked(NamedTuple):
    """A part of the snapshot that is not there."""

    reason: str


@dataclass(frozen=True, slots=True)
class MasterPart:
    """The masters, those that fell silent included."""

    records: Sequence[MasterRecord]
    leader: str
    """Name under which the leadership is held; empty when no master holds it."""

    @property
    def alive(self) -> list[MasterRecord]:
        return [record for record in self.records if record.is_alive]


@dataclass(frozen=True, slots=True)
class RunningPart:
    """The masters that are alive: at least one."""

    masters: Sequence[MasterRecord]


class Standby(NamedTuple):
    """A server that follows the database."""

    name: str
    sync_state: str
    """async, sync, quorum or potential, as PostgreSQL calls it."""


@dataclass(frozen=True, slots=True)
class DatabasePart:
    """The database as it describes itself."""

    kind: str
    """sqlite or postgresql."""
    revision: str
    """Revision of its tables; empty where it has none."""
    is_known_revision: bool
    is_newest_revision: bool
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of PostgreSQL that the checks look at, by name."""
    standbys: Sequence[Standby] = ()


class OpenFile(NamedTuple):
    """A file with a secret that more than its owner may read."""

    path: str
    mode: int


@dataclass(frozen=True, slots=True)
class FilePart:
    """Files and addresses of the machine that the check runs on."""

    store_file: str = ""
    """Path of the SQLite file; empty for another store."""
    file_system: str = ""
    """Type of the file system that the SQLite file is on; empty where it is not known."""
    disks: Mapping[str, DiskFigures] = field(default_factory=dict)
    open_files: Sequence[OpenFile] = ()
    listens_on: str = ""
    """Host that the API listens on."""
    has_tls: bool = False
    is_behind_tls: bool = False
    """Whether the master says that nodes reach it by HTTPS, through a proxy."""
    certificate: str = ""
    certificate_ends_at: Instant | None = None
    certificate_trouble: str = ""
    """Why the certificate could not be read."""


@dataclass(frozen=True, slots=True)
class NodePart:
    nodes: Sequence[Node]
    """Nodes that were not removed."""
    sessions: Mapping[NodeId, int] = field(default_factory=dict)
    """Number of sessions that nodes opened in the last hour, for those that opened several."""


class LaneBacklog(NamedTuple):
    """A lane with ready tasks."""

    lane: Lane
    waiting: int
    """Number of ready tasks."""
    oldest_at: Instant
    """Instant at which its oldest ready task was submitted."""
    timeout_s: int = 0
    """Timeout of its oldest ready task."""


class QueuePause(NamedTuple):
    """Who paused a queue and when, as far as the audit log still has it."""

    since: Instant | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class WorkPart:
    """Work that waits."""

    lanes: Sequence[LaneBacklog]
    """Lanes with ready tasks; those with the oldest tasks where there are too many."""
    left_out: int = 0
    """Number of lanes that are not among them."""
    paused: Mapping[str, QueuePause] = field(default_factory=dict)
    """Paused queues, by name."""
    clusters: Sequence[Cluster] = ()
    running_by_project: Mapping[str, int] = field(default_factory=dict)

    @property
    def open_lanes(self) -> list[LaneBacklog]:
        """The lanes whose queue is not paused."""
        return [waiting for waiting in self.lanes if waiting.lane.queue not in self.paused]


class TypeFigures(NamedTuple):
    """How the executions of a task type went in the last day."""

    ends: int
    timeouts: int
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class HistoryPart:
    types: Mapping[str, TypeFigures]
    timeout_s: int
    """Timeout of tasks that set none."""


@dataclass(frozen=True, slots=True)
class CounterPart:
    """The counters of tasks by status, and a count of the rows."""

    counters: Mapping[str, int]
    rows: Mapping[str, int]


class MissedTicks(NamedTuple):
    """Ticks of a schedule in the last day that did not fire."""

    ticks: int
    reason: str


@dataclass(frozen=True, slots=True)
class SchedulePart:
    schedules: Sequence[Schedule]
    missed: Mapping[ScheduleId, MissedTicks] = field(default_factory=dict)
    has_more: bool = False
    """Whether there are schedules that were not looked at."""


class HostCondition(NamedTuple):
    """A host with what waits for it and how it answered in the last hour."""

    host: Host
    waiting: int = 0
    """Number of parked tasks, at most as many as are counted."""
    requests: int = 0
    blocked: int = 0


@dataclass(frozen=True, slots=True)
class HostPart:
    hosts: Sequence[HostCondition]


@dataclass(frozen=True, slots=True)
class AccessPart:
    tokens: Sequence[TokenRecord]
    """Tokens that can be used."""
    first_admin: str
    """Name of the token that the installation made by itself."""


@dataclass(frozen=True, slots=True)
class AlertPart:
    channels: Sequence[AlertChannel]


@dataclass(frozen=True, slots=True)
class BackupPart:
    newest_at: Instant | None
    """Instant of the newest backup; None where none was ever made."""
    installed_at: Instant | None
    """Instant of the installation's first token; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known of an installation at one time."""

    now: Instant
    version: str
    """Version of the program that makes the checks."""
    masters: MasterPart | Unchecked
    running: RunningPart | Unchecked
    database: DatabasePart | Unchecked
    files: FilePart | Unchecked
    nodes: NodePart | Unchecked
    work: WorkPart | Unchecked
    history: HistoryPart | Unchecked
    counters: CounterPart | Unchecked
    schedules: SchedulePart | Unchecked
    hosts: HostPart | Unchecked
    access: AccessPart | Unchecked
    alerts: AlertPart | Unchecked
    backups: BackupPart | Unchecked
