"""All checks in order, and the run over a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from crawlfleet.scheduling.doctor import (
    care_checks,
    master_checks,
    node_checks,
    schedule_checks,
    store_checks,
    work_checks,
)
from crawlfleet.scheduling.doctor.findings import Check, Finding, FindingSeverity
from crawlfleet.scheduling.doctor.snapshot import Snapshot, Unchecked

STORE, MASTERS, NODES, WORK, HOSTS, CARE = "store", "masters", "nodes", "work", "hosts", "care"
AREAS = (STORE, MASTERS, NODES, WORK, HOSTS, CARE)
OPTIONAL = "?"
"""Mark of a part that a check can do without: it then gets the reason why the part is missing."""

CHECKS = (
    Check(
        "D1",
        STORE,
        "commits are quick",
        "commits take more than 50 ms at p99, of a living master",
        ("running", "database?"),
        store_checks.find_slow_commits,
    ),
    Check(
        "D2",
        STORE,
        "the store is on no shared file system",
        "the SQLite file is on NFS, CIFS, FUSE or another shared file system",
        ("files",),
        store_checks.find_shared_disk,
    ),
    Check(
        "D3",
        STORE,
        "disks have space",
        "less than 10 % or 5 GiB is free for data or results, or less than 10 % on a node (2 % or 512 MiB: an error)",
        ("files", "masters?", "nodes?"),
        store_checks.find_full_disks,
    ),
    Check(
        "D4",
        STORE,
        "the database keeps what it confirms",
        "PostgreSQL has `fsync`, `full_page_writes` or `synchronous_commit` off: answered tasks can be lost",
        ("database",),
        store_checks.find_unsafe_settings,
    ),
    Check(
        "D5",
        STORE,
        "standbys follow in step",
        "all standbys of PostgreSQL follow asynchronously: a failover loses the newest answers",
        ("database",),
        store_checks.find_asynchronous_standbys,
    ),
    Check(
        "D6",
        STORE,
        "our settings reach the database",
        "`idle_in_transaction_session_timeout` is not the 2 s that we set: a pooler dropped our settings",
        ("database",),
        store_checks.find_dropped_settings,
    ),
    Check(
        "D7",
        STORE,
        "versions agree",
        "living masters have different versions, or the tables are older or newer than this program",
        ("database", "masters?", "version"),
        store_checks.find_mixed_versions,
    ),
    Check(
        "D8",
        MASTERS,
        "the broker works",
        "Redis is away, was lost or emptied three times today, is nearly full, or drops keys",
        ("running",),
        master_checks.find_broker_trouble,
    ),
    Check(
        "D9",
        MASTERS,
        "one master leads",
        "no master leads, the leader changed more than three times in an hour, or a master fell silent",
        ("masters",),
        master_checks.find_leaderless,
    ),
    Check(
        "D10",
        MASTERS,
        "loops pass",
        "a loop of a master has not passed for a minute beyond its pause",
        ("running",),
        master_checks.find_stuck_loops,
    ),
    Check(
        "D11",
        STORE,
        "counters agree with the rows",
        "the counters of tasks disagree with a count of the rows (counted up to 200,000 tasks)",
        ("counters",),
        store_checks.find_counter_drift,
    ),
    Check(
        "D12",
        MASTERS,
        "event loops are on time",
        "the event loop of a master lags by more than 100 ms at p99",
        ("running",),
        master_checks.find_loop_lag,
    ),
    Check(
        "D13",
        MASTERS,
        "clocks agree",
        "a master's clock is more than 2 s off the database's: cron and run_at follow it",
        ("running",),
        master_checks.find_clock_offsets,
    ),
    Check(
        "D14",
        MASTERS,
        "the API is protected on its way",
        "the API speaks plain HTTP to other machines, or the certificate ends within 21 days (3 days: an error)",
        ("files", "now"),
        master_checks.find_plain_addresses,
    ),
    Check(
        "D16",
        NODES,
        "sessions last",
        "a node opened more than six sessions in an hour",
        ("nodes",),
        node_checks.find_unsteady_nodes,
    ),
    Check(
        "D17",
        NODES,
        "no node is gone for days",
        "nodes are gone for more than three days",
        ("nodes", "now"),
        node_checks.find_departed_nodes,
    ),
    Check(
        "D18",
        NODES,
        "slots fit the machines",
        "all slots of a node are taken at less than 25 % CPU while tasks wait",
        ("nodes", "work"),
        node_checks.find_idle_processors,
    ),
    Check(
        "D19",
        NODES,
        "nodes have memory",
        "more than 90 % of a node's memory is used; with how many executions died with their process",
        ("nodes",),
        node_checks.find_full_memory,
    ),
    Check(
        "D20",
        WORK,
        "nodes have what tasks want",
        "ready tasks want a type or a capability (browser, sandbox) that no node has, or no node has joined",
        ("work", "nodes"),
        work_checks.find_missing_capabilities,
    ),
    Check(
        "D21",
        WORK,
        "every task has a node",
        "ready tasks that no node can ever run, by filter, or whose nodes are all away",
        ("work", "nodes"),
        work_checks.find_unplaceable_tasks,
    ),
    Check(
        "D22",
        WORK,
        "no work waits in a paused queue",
        "ready tasks wait in a paused queue or for a cluster that is not active; since when, and by whom",
        ("work", "now"),
        work_checks.find_paused_work,
    ),
    Check(
        "D23",
        WORK,
        "no task waits for long",
        "the oldest ready task of a priority is older than an hour (15 minutes from priority 8 on)",
        ("work", "now"),
        work_checks.find_long_waits,
    ),
    Check(
        "D24",
        WORK,
        "timeouts leave time",
        "p95 of a task type in the last day is 80 % of its timeout or more (from 20 ends on)",
        ("history", "work"),
        work_checks.find_short_timeouts,
    ),
    Check(
        "D25",
        WORK,
        "projects share the slots",
        "one project has 80 % of the slots in use or more while tasks of others wait",
        ("work",),
        work_checks.find_unequal_shares,
    ),
    Check(
        "D26",
        WORK,
        "schedules fire",
        "a schedule is late, holds a tick for an hour, left ticks out, failed, or names a time that is left out",
        ("schedules", "now"),
        schedule_checks.find_missed_ticks,
    ),
    Check(
        "D27",
        HOSTS,
        "hosts answer",
        "a host is in back-off with tasks waiting or of level 5, or blocked half of its requests in an hour",
        ("hosts", "now"),
        schedule_checks.find_refusing_hosts,
    ),
    Check(
        "D28",
        CARE,
        "tokens and secret files are safe",
        "a secret file is open to others, a token never ends, or the first admin token is the only one",
        ("access", "files?", "now"),
        care_checks.find_weak_access,
    ),
    Check(
        "D29",
        CARE,
        "alerts arrive",
        "there is no alert channel, or its last delivery failed",
        ("alerts", "now"),
        care_checks.find_failing_channels,
    ),
    Check(
        "D30",
        CARE,
        "there is a recent backup",
        "there is no backup, or the newest is more than 7 days old",
        ("backups", "now"),
        care_checks.find_old_backups,
    ),
)


def select_checks(only: Collection[str] = ()) -> list[Check]:
    """Return the checks of these ids and areas, in order; all of them for none. Raises ValueError for a name that is
    neither."""
    names = {check.id.lower() for check in CHECKS} | set(AREAS)
    wanted = {name.strip().lower() for name in only if name.strip()}
    if unknown := sorted(wanted - names):
        raise ValueError(
            f"{unknown[0]!r} is no check: use {CHECKS[0].id} to {CHECKS[-1].id}, or one of {', '.join(AREAS)}"
        )
    return [check for check in CHECKS if not wanted or check.id.lower() in wanted or check.area in wanted]


def needed_parts(checks: Collection[Check]) -> set[str]:
    """Return the parts of a snapshot that these checks look at, by name."""
    return {need.removesuffix(OPTIONAL) for check in checks for need in check.needs}


def run_checks(snapshot: Snapshot, checks: Collection[Check] = CHECKS) -> list[Finding]:
    """Return what the checks found: a line for each problem, and one for each check that found none."""
    return [finding for check in checks for finding in _run_check(check, snapshot)]


def _run_check(check: Check, snapshot: Snapshot) -> Iterator[Finding]:
    arguments = []
    for need in check.needs:
        part = getattr(snapshot, need.removesuffix(OPTIONAL))
        if isinstance(part, Unchecked) and not need.endswith(OPTIONAL):
            yield Finding(check.id, check.area, FindingSeverity.NOTE, f"not checked: {part.reason}")
            return
        arguments.append(part)
    problems = list(check.find_problems(*arguments))
    for problem in problems:
        yield Finding(check.id, check.area, *problem)
    if not problems:
        yield Finding(check.id, check.area, FindingSeverity.OK, check.title)
