"""Checks of masters: broker, leadership, loops, clocks and the address they serve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from crawlfleet.model.installation.master import MasterRecord
from crawlfleet.model.instants import Instant
from crawlfleet.scheduling.doctor.findings import FoundProblem, error, note, warning
from crawlfleet.scheduling.doctor.snapshot import FilePart, MasterPart, RunningPart
from crawlfleet.scheduling.doctor.wording import count_text, list_names, span_text

BROKER_LOSSES = 3
BROKER_FULL_PART = 0.9
LEADER_CHANGES = 3
OVERDUE_S = 60.0
LAG_MS = 100.0
CLOCK_OFFSET_MS = 2_000
CERTIFICATE_MS = 21 * 86_400_000
CERTIFICATE_URGENT_MS = 3 * 86_400_000
_EVERY_ADDRESS = ("0.0.0.0", "::")


def find_broker_trouble(running: RunningPart) -> Iterator[FoundProblem]:
    hint = "give Redis to crawlfleet alone, with maxmemory-policy noeviction; what it loses costs time, never tasks"
    away = [record for record in running.masters if record.figures.broker_trouble]
    for record in away:
        yield warning(
            f"master {record.identity.name}: {record.figures.broker_trouble}",
            "start Redis again; until then the masters go on without it, a little slower",
        )
    losses = max(record.figures.broker_losses for record in running.masters)
    resets = max(record.figures.broker_resets for record in running.masters)
    if losses + resets >= BROKER_LOSSES:
        yield warning(
            f"Redis was lost {count_text(losses, 'time')} and emptied {count_text(resets, 'time')} today",
            hint,
        )
    ratio = max((record.figures.broker_memory_ratio or 0.0 for record in running.masters), default=0.0)
    if ratio > BROKER_FULL_PART:
        yield warning(f"Redis uses {ratio:.0%} of its maxmemory", hint)
    evictions = {record.figures.broker_eviction for record in running.masters} - {"", "noeviction"}
    if evictions:
        yield note(f"Redis drops keys at its memory limit ({', '.join(sorted(evictions))})", hint)


def find_leaderless(masters: MasterPart) -> Iterator[FoundProblem]:
    alive = masters.alive
    if not alive:
        if masters.records:
            yield warning(f"no master runs: {_describe_silent(masters.records)} without stopping", "start them again")
        else:
            yield note("no master runs: nothing is taken and nothing is placed", "crawlfleet master, or standalone")
        return
    if masters.leader not in {record.identity.holder for record in alive}:
        yield error(
            f"no master leads: nothing is placed ({count_text(len(alive), 'master')} alive)",
            "look for store_away and loop_failed in the masters' logs; crawlfleet status",
        )
    changes = max(record.figures.leader_changes for record in alive)
    if changes > LEADER_CHANGES:
        yield warning(
            f"the leader changed {changes} times in the last hour",
            "the store is slow, or a master's event loop lags: see D1 and D12",
        )
    silent = [record for record in masters.records if not record.is_alive]
    if silent:
        yield warning(
            f"{_describe_silent(silent)} without stopping",
            "start it again; a master that is gone for good is forgotten within an hour",
        )


def _describe_silent(records: Sequence[MasterRecord]) -> str:
    names = list_names([record.identity.name for record in records])
    longest = span_text(max(record.silent_ms for record in records) / 1000)
    return f"{count_text(len(records), 'master')} ({names}) fell silent {longest} ago"


def find_stuck_loops(running: RunningPart) -> Iterator[FoundProblem]:
    for record in running.masters:
        for name, loop in record.figures.loops.items():
            if loop.overdue_s > OVERDUE_S:
                yield warning(
                    f"loop {name} of master {record.identity.name} has not passed for {span_text(loop.passed_s_ago)}",
                    f"look for loop={name} in its log; a restart of that master starts the loop anew",
                )


def find_loop_lag(running: RunningPart) -> Iterator[FoundProblem]:
    for record in running.masters:
        lag_ms = record.figures.loop_lag_p99_ms
        if lag_ms is not None and lag_ms > LAG_MS:
            yield warning(
                f"the event loop of master {record.identity.name} lags by {lag_ms:,.0f} ms at p99",
                "fewer event streams and smaller batches, a faster core, or a second master",
            )


def find_clock_offsets(running: RunningPart) -> Iterator[FoundProblem]:
    offsets = [(record, record.figures.clock_offset_ms) for record in running.masters]
    for record, offset_ms in offsets:
        if offset_ms is not None and abs(offset_ms) > CLOCK_OFFSET_MS:
            where = "ahead of" if offset_ms > 0 else "behind"
            yield warning(
                f"the clock of master {record.identity.name} is {abs(offset_ms) / 1000:,.0f} s {where} the database's: "
                "cron and run_at follow it",
                "keep clocks in step: timedatectl set-ntp true",
            )


def find_plain_addresses(files: FilePart, now: Instant) -> Iterator[FoundProblem]:
    if files.certificate_trouble:
        yield error(f"the certificate {files.certificate} cannot be read: {files.certificate_trouble}", "tls_cert")
    if files.certificate_ends_at is not None:
        left_ms = files.certificate_ends_at - now
        hint = "renew it, then restart the master"
        if left_ms <= 0:
            yield error(f"the certificate {files.certificate} has ended", hint)
        elif left_ms < CERTIFICATE_URGENT_MS:
            yield error(f"the certificate {files.certificate} ends in {span_text(left_ms / 1000)}", hint)
        elif left_ms < CERTIFICATE_MS:
            yield warning(f"the certificate {files.certificate} ends in {span_text(left_ms / 1000)}", hint)
    if files.has_tls or not files.listens_on or _is_loopback(files.listens_on):
        return
    sentence = f"the API speaks plain HTTP on {files.listens_on}: tokens and results can be read on the way"
    hint = "--tls-cert and --tls-key, or a proxy with TLS and --host 127.0.0.1"
    if files.is_behind_tls or _is_private(files.listens_on):
        yield note(sentence, hint)
    else:
        yield warning(sentence, hint)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_private(host: str) -> bool:
    try:
        return host not in _EVERY_ADDRESS and ip_address(host).is_private
    except ValueError:
        return False
