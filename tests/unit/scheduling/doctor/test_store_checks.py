"""Checks of the store: each says its sentence when its cause is there."""

import pytest

from crawlfleet.model.installation.master import DiskFigures
from crawlfleet.model.node import Measurement
from crawlfleet.scheduling.doctor.findings import FindingSeverity
from crawlfleet.scheduling.doctor.snapshot import CounterPart, DatabasePart, FilePart, NodePart, Standby
from tests.unit.scheduling.doctor.doctor_kit import GIB, master, masters, node, only_problem, problems

SAFE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}


def database(**fields: object) -> DatabasePart:
    values = {"kind": "postgresql", "revision": "0001", "is_known_revision": True, "is_newest_revision": True}
    return DatabasePart(**(values | fields))  # type: ignore[arg-type]


def test_slow_commits_are_told_with_their_master() -> None:
    finding = only_problem("D1", **masters(master(commit_p99_ms=51.0), master("m2", 2, commit_p99_ms=50.0)))
    assert finding.severity is FindingSeverity.WARNING
    assert finding.sentence == "commits of master m1 take 51 ms at p99"
    assert finding.hint.startswith("a faster disk for PostgreSQL")
    on_sqlite = only_problem("D1", database=database(kind="sqlite"), **masters(master(commit_p99_ms=51.0)))
    assert "or PostgreSQL: store = " in on_sqlite.hint
    assert problems("D1", **masters(master(commit_p99_ms=None))) == []


@pytest.mark.parametrize("file_system", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "ceph"])
def test_sqlite_on_a_shared_file_system_is_an_error(file_system: str) -> None:
    finding = only_problem("D2", files=FilePart(store_file="/data/db", file_system=file_system))
    assert finding.severity is FindingSeverity.ERROR
    assert finding.sentence.startswith(f"the SQLite file /data/db is on {file_system}")


@pytest.mark.parametrize("file_system", ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "apfs", ""])
def test_sqlite_on_a_local_disk_is_in_order(file_system: str) -> None:
    assert problems("D2", files=FilePart(store_file="/data/db", file_system=file_system)) == []
    assert problems("D2", files=FilePart(store_file="", file_system="nfs")) == [], "PostgreSQL has no such file"


@pytest.mark.parametrize(
    ("total", "free", "severity"),
    [
        (100 * GIB, 10 * GIB, None),
        (100 * GIB, 9 * GIB, FindingSeverity.WARNING),
        (10 * GIB, 4 * GIB, FindingSeverity.WARNING),
        (100 * GIB, 1 * GIB, FindingSeverity.ERROR),
        (1_000 * GIB, 19 * GIB, FindingSeverity.ERROR),
        (8 * GIB, GIB // 4, FindingSeverity.ERROR),
        (0, 0, FindingSeverity.ERROR),
    ],
)
def test_a_disk_that_gets_full_is_told(total: int, free: int, severity: FindingSeverity | None) -> None:
    found = problems("D3", files=FilePart(disks={"results": DiskFigures("/results", total, free)}))
    assert [finding.severity for finding in found] == ([] if severity is None else [severity])
    if severity is not None:
        assert "of the disk for results is free on this machine: /results" in found[0].sentence


def test_full_disks_of_other_masters_and_of_nodes_are_told() -> None:
    full = DiskFigures("/data", 100 * GIB, 4 * GIB)
    finding = only_problem("D3", files=FilePart(), **masters(master(disks={"data": full})))
    assert finding.sentence == "4% (4.0 GiB) of the disk for data is free on master m1: /data"
    nodes = NodePart([node(1), node(2, measurement=Measurement(disk=0.95))])
    finding = only_problem("D3", nodes=nodes)
    assert finding.sentence == "less than 10% of the disk is free on 1 node: n2"


@pytest.mark.parametrize("name", SAFE)
def test_a_database_that_may_lose_what_it_confirmed_is_an_error(name: str) -> None:
    finding = only_problem("D4", database=database(settings=SAFE | {name: "off"}))
    assert finding.severity is FindingSeverity.ERROR
    assert finding.sentence.startswith(f"PostgreSQL has {name} off")
    assert finding.hint == f"ALTER SYSTEM SET {name} = on"
    assert problems("D4", database=database(kind="sqlite")) == []


def test_a_standby_that_follows_asynchronously_is_told() -> None:
    finding = only_problem("D5", database=database(standbys=[Standby("replica", "async")]))
    assert "follows asynchronously (replica)" in finding.sentence
    in_step = [Standby("replica", "async"), Standby("other", "sync")]
    assert problems("D5", database=database(standbys=in_step)) == [], "one that is in step is enough"


def test_settings_that_a_pooler_dropped_are_an_error() -> None:
    finding = only_problem("D6", database=database(settings={"idle_in_transaction_session_timeout": "0"}))
    assert finding.severity is FindingSeverity.ERROR
    assert "idle_in_transaction_session_timeout is 0, not 2s" in finding.sentence


def test_versions_that_differ_are_told() -> None:
    finding = only_problem("D7", database=database(revision="0099", is_known_revision=False))
    assert finding.severity is FindingSeverity.ERROR
    assert "the tables are of revision 0099, which version 1.0 does not know" in finding.sentence
    assert "revision none" in only_problem("D7", database=database(revision="", is_known_revision=False)).sentence
    assert only_problem("D7", database=database(is_newest_revision=False)).severity is FindingSeverity.WARNING
    mixed = masters(
        master(version="1.0"), master("m2", 2, version="1.1"), master("m3", 3, version="2", silent_ms=10**6)
    )
    assert only_problem("D7", **mixed).sentence == "masters of 2 versions run: 1.0, 1.1"


def test_counters_that_disagree_with_the_rows_are_an_error() -> None:
    finding = only_problem("D11", counters=CounterPart({"pending": 5, "failed": 1}, {"pending": 3, "completed": 4}))
    assert finding.severity is FindingSeverity.ERROR
    assert finding.sentence.endswith("disagree with the rows: completed -4, failed +1, pending +2")
    assert finding.hint == "crawlfleet repair counters"
