"""The summary of a run in figures, mostly from its own event log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from crawlfleet.model.event import Event, Kind
from crawlfleet.model.instants import Instant
from testkit.chaos.faults import Faults, LeaderKill
from testkit.chaos.load import Load
from testkit.chaos.resources import Resources
from testkit.history import History, MasterKilled, NodeKilled
from testkit.judge import final_status
from testkit.recovery import is_disturbed
from testkit.violations import Invariant, Limits, Violation


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recovery from one kill of a leader."""

    kill: LeaderKill
    elected_s: float | None
    """Seconds until a new leader was elected."""
    placed_s: float | None
    """Seconds until the new leader placed a task."""


def recoveries(kills: Sequence[LeaderKill], events: Sequence[Event]) -> list[Recovery]:
    elected = sorted(event.at for event in events if event.kind == Kind.LEADER_ELECTED)
    assigned = sorted(event.at for event in events if event.kind == Kind.TASK_ASSIGNED)
    found_recoveries = []
    for kill in kills:
        elected_at = _first_from(elected, kill.at)
        placed_at = None if elected_at is None else _first_from(assigned, elected_at)
        found_recoveries.append(Recovery(kill, _span_s(kill.at, elected_at), _span_s(kill.at, placed_at)))
    return found_recoveries


def late_placements(recoveries: Sequence[Recovery], since: Instant, limits: Limits = Limits()) -> Iterator[Violation]:
    """Report late placements. Where only masters are hit and work always waits, such a pause has no other cause."""
    for recovery in recoveries:
        if recovery.placed_s is not None and recovery.placed_s * 1000 > limits.election_ms:
            after = f"{recovery.placed_s:.1f} s later"
            detail = f"{recovery.kill.master} was killed as the leader, and the next task placed {after}"
            yield Violation(Invariant.RECOVERY_BOUNDED, detail, recovery.kill.at - since)


def summary(load: Load, faults: Faults, events: Sequence[Event], resources: Resources, drained_s: float) -> list[str]:
    executions = sum(event.kind == Kind.TASK_ASSIGNED for event in events)
    lines = [
        f"tasks        {load.tasks} in {len(load.answered)} submits, {executions} executions",
        f"submits      longest wait for an answer {load.longest_wait_s:.1f} s; tries that failed: {_counted(load)}",
        f"faults       {sum(faults.counts.values())}: "
        + ", ".join(f"{count} {kind}" for kind, count in sorted(faults.counts.items())),
        _timed(faults),
        *_pauses(events, faults, load.ended_at),
        f"drained      {drained_s:.1f} s after the last fault was healed",
        f"processes    largest {resources.largest_bytes >> 20} MiB, {resources.connections} connections to PostgreSQL",
    ]
    for recovery in recoveries(faults.leader_kills, events):
        at_s = (recovery.kill.at - faults.since) / 1000
        lines.append(
            f"leader kill  {recovery.kill.master} at {at_s:.1f} s: another elected after {_shown(recovery.elected_s)}, "
            f"placing after {_shown(recovery.placed_s)}"
        )
    return lines


def _timed(faults: Faults, limits: Limits = Limits()) -> str:
    history = History()
    for record in faults.records:
        history.add(record)
    nodes = [not is_disturbed(history, kill, kill.at + limits.recovery_ms, limits) for kill in history.of(NodeKilled)]
    masters = [
        not is_disturbed(history, kill, kill.at + limits.election_ms, limits) for kill in history.of(MasterKilled)
    ]
    return (
        f"recovery     timed for what came alone: {sum(nodes)} of {len(nodes)} kills of workers, "
        f"{sum(masters)} of {len(masters)} stops and kills of masters"
    )


def _pauses(events: Sequence[Event], faults: Faults, until: Instant | None) -> Iterator[str]:
    """Describe the longest pauses while there was new work: at the end the last long tasks end one by one."""
    ended = sorted(event.at for event in events if final_status(event) is not None and event.at <= (until or event.at))
    if len(ended) > 1:
        longest, began_at = max((after - before, before) for before, after in pairwise(ended))
        yield f"completions  longest pause {longest / 1000:.1f} s, from {(began_at - faults.since) / 1000:.1f} s on"


def _first_from(instants: Sequence[int], since: int) -> int | None:
    place = bisect_left(instants, since)
    return instants[place] if place < len(instants) else None


def _span_s(start: int, end: int | None) -> float | None:
    return None if end is None else (end - start) / 1000


def _shown(seconds: float | None) -> str:
    return "no time (never)" if seconds is None else f"{seconds:.1f} s"


def _counted(load: Load) -> str:
    return ", ".join(f"{count} {what}" for what, count in load.refusals.most_common()) or "none"
