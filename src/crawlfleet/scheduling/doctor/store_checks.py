"""Checks of the store: its speed, its disk, its settings, its tables and its counters."""

from __future__ import annotations

from collections.abc import Iterator

from crawlfleet.model.installation.master import DiskFigures
from crawlfleet.model.status import NodeStatus
from crawlfleet.scheduling.doctor.findings import FoundProblem, error, warning
from crawlfleet.scheduling.doctor.snapshot import (
    CounterPart,
    DatabasePart,
    FilePart,
    MasterPart,
    NodePart,
    RunningPart,
    Unchecked,
)
from crawlfleet.scheduling.doctor.wording import count_text, list_names, size_text

SLOW_COMMIT_MS = 50.0
LOW_PART, LOW_BYTES = 0.10, 5 << 30
FULL_PART, FULL_BYTES = 0.02, 512 << 20
SHARED_FILE_SYSTEMS = ("nfs", "cifs", "smb", "fuse", "9p", "ceph", "gluster", "lustre", "afs", "beegfs", "virtiofs")
SAFE_SETTINGS = ("fsync", "full_page_writes", "synchronous_commit")
IDLE_TIMEOUT = "idle_in_transaction_session_timeout"
IDLE_TIMEOUT_VALUE = "2s"


def find_slow_commits(running: RunningPart, database: DatabasePart | Unchecked) -> Iterator[FoundProblem]:
    is_sqlite = not isinstance(database, DatabasePart) or database.kind == "sqlite"
    hint = "a faster disk for the data folder, or PostgreSQL: store = postgresql://..."
    if not is_sqlite:
        hint = "a faster disk for PostgreSQL, or a shorter way to it"
    for record in running.masters:
        p99_ms = record.figures.commit_p99_ms
        if p99_ms is not None and p99_ms > SLOW_COMMIT_MS:
            yield warning(
                f"commits of master {record.identity.name} take {p99_ms:,.0f} ms at p99",
                hint,
            )


def find_shared_disk(files: FilePart) -> Iterator[FoundProblem]:
    if files.store_file and files.file_system.startswith(SHARED_FILE_SYSTEMS):
        yield error(
            f"the SQLite file {files.store_file} is on {files.file_system}: its locks and writes are not safe there",
            "move the data folder to a local disk, or use PostgreSQL",
        )


def find_full_disks(
    files: FilePart, masters: MasterPart | Unchecked, nodes: NodePart | Unchecked
) -> Iterator[FoundProblem]:
    disks = [("this machine", name, disk) for name, disk in files.disks.items()]
    seen = {(name, disk.path) for _, name, disk in disks}
    if isinstance(masters, MasterPart):
        for record in masters.alive:
            disks += [
                (f"master {record.identity.name}", name, disk)
                for name, disk in record.figures.disks.items()
                if (name, disk.path) not in seen
            ]
    for owner, name, disk in disks:
        yield from _judge_disk(owner, name, disk)
    if isinstance(nodes, NodePart):
        full = [
            node.description.name
            for node in nodes.nodes
            if node.status is NodeStatus.ONLINE and node.measurement and node.measurement.disk > 1 - LOW_PART
        ]
        if full:
            yield warning(
                f"less than {LOW_PART:.0%} of the disk is free on {count_text(len(full), 'node')}: {list_names(full)}",
                "make space there: a node keeps outcomes on its disk until a master has taken them",
            )


def _judge_disk(owner: str, name: str, disk: DiskFigures) -> Iterator[FoundProblem]:
    part = disk.free_bytes / disk.total_bytes if disk.total_bytes else 1.0
    sentence = f"{part:.0%} ({size_text(disk.free_bytes)}) of the disk for {name} is free on {owner}: {disk.path}"
    hint = "crawlfleet clean-up, or keep less: retain_tasks_days, retain_events_days"
    if part < FULL_PART or disk.free_bytes < FULL_BYTES:
        yield error(sentence, hint)
    elif part < LOW_PART or disk.free_bytes < LOW_BYTES:
        yield warning(sentence, hint)


def find_unsafe_settings(database: DatabasePart) -> Iterator[FoundProblem]:
    off = [name for name in SAFE_SETTINGS if database.settings.get(name) == "off"]
    if off:
        yield error(
            f"PostgreSQL has {' and '.join(off)} off: tasks that were answered can be lost in a crash of its machine",
            "; ".join(f"ALTER SYSTEM SET {name} = on" for name in off),
        )


def find_asynchronous_standbys(database: DatabasePart) -> Iterator[FoundProblem]:
    names = [standby.name for standby in database.standbys if standby.sync_state == "async"]
    if names and len(names) == len(database.standbys):
        yield warning(
            f"the database's standby follows asynchronously ({list_names(names)}): a failover loses the newest answers",
            "ALTER SYSTEM SET synchronous_standby_names = '*'",
        )


def find_dropped_settings(database: DatabasePart) -> Iterator[FoundProblem]:
    value = database.settings.get(IDLE_TIMEOUT)
    if value is not None and value != IDLE_TIMEOUT_VALUE:
        yield error(
            f"a pooler dropped our settings: {IDLE_TIMEOUT} is {value}, not {IDLE_TIMEOUT_VALUE}; "
            "a frozen master can hold up all others",
            "connect to PostgreSQL directly, or by a pooler in session mode",
        )


def find_mixed_versions(
    database: DatabasePart, masters: MasterPart | Unchecked, version: str
) -> Iterator[FoundProblem]:
    if not database.is_known_revision:
        yield error(
            f"the tables are of revision {database.revision or 'none'}, which version {version} does not know",
            "use the version that made them or a newer one; or restore a backup: crawlfleet restore FILE",
        )
    elif not database.is_newest_revision:
        yield warning(
            f"the tables are of revision {database.revision}: a newer one comes with version {version}",
            "start a master of this version: it upgrades the tables",
        )
    if isinstance(masters, MasterPart):
        versions = sorted({record.identity.version for record in masters.alive} - {""})
        if len(versions) > 1:
            yield warning(
                f"masters of {len(versions)} versions run: {', '.join(versions)}",
                "upgrade them all: crawlfleet status shows which has which",
            )


def find_counter_drift(counters: CounterPart) -> Iterator[FoundProblem]:
    statuses = sorted({*counters.counters, *counters.rows})
    drift = {
        status: counters.counters.get(status, 0) - counters.rows.get(status, 0)
        for status in statuses
        if counters.counters.get(status, 0) != counters.rows.get(status, 0)
    }
    if drift:
        words = ", ".join(f"{status} {count:+,}" for status, count in drift.items())
        yield error(f"the counters of tasks disagree with the rows: {words}", "crawlfleet repair counters")
