"""Ticks of a schedule: its nominal instants, which are due now, and what a tick does while an earlier task goes on.

A nominal instant names a tick: it is the same on every master and after every restart, so a tick can be stored as a row
and is never fired twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice, takewhile
from typing import NamedTuple

from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.ids import ScheduleId
from crawlfleet.model.instants import Instant
from crawlfleet.model.schedule import DEFAULT_ZONE, CatchUp, Overlap, Plan, Schedule, Timing
from crawlfleet.scheduling.schedules import cron

SECOND_MS = 1_000
GRACE_MS = 60_000
"""Delay up to which a tick does not count as missed: leaders change, stores are away for a short time."""
MAX_AHEAD_MS = 50 * 366 * 86_400_000
_FIRST_SEARCH_MS = 60_000
_HASHED = 1 << 64


# -- nominal instants


def nominal_ticks(timing: Timing, anchor_at: Instant, after: Instant) -> Iterator[Instant]:
    """The nominal instants after `after`, ascending."""
    if timing.at is not None:
        instants: Iterator[Instant] = iter((timing.at,) if timing.at > after else ())
    else:
        if timing.starts_at is not None:
            after = max(after, timing.starts_at - 1)
        if timing.every_s is not None:
            instants = _interval_ticks(timing.every_s, anchor_at, after)
        else:
            assert timing.cron is not None
            instants = cron.cron_instants(timing.cron, timing.time_zone, after)
    ends_at = timing.ends_at
    return instants if ends_at is None else takewhile(lambda at: at <= ends_at, instants)


def next_tick_at(timing: Timing, anchor_at: Instant, after: Instant) -> Instant | None:
    return next(nominal_ticks(timing, anchor_at, after), None)


def _interval_ticks(every_s: int, anchor_at: Instant, after: Instant) -> Iterator[Instant]:
    every_ms = every_s * SECOND_MS
    tick_at = anchor_at + max(0, (after - anchor_at) // every_ms + 1) * every_ms
    while True:
        yield tick_at
        tick_at += every_ms


def tick_due_at(schedule: ScheduleId, timing: Timing, anchor_at: Instant, tick_at: Instant) -> Instant:
    """When the tick fires: its jitter is the same on every master, and never reaches the next tick."""
    if not timing.jitter_s:
        return tick_at
    following = next_tick_at(timing, anchor_at, tick_at)
    room_ms = timing.jitter_s * SECOND_MS
    if following is not None:
        room_ms = min(room_ms, following - tick_at)
    digest = blake2b(f"{schedule}:{tick_at}".encode(), digest_size=8).digest()
    return tick_at + int.from_bytes(digest) * room_ms // _HASHED


class NextTick(NamedTuple):
    at: Instant | None
    due_at: Instant | None


NO_TICK = NextTick(None, None)


def next_tick(schedule: ScheduleId, timing: Timing, anchor_at: Instant, after: Instant) -> NextTick:
    """The first tick after `after`, and when it fires."""
    tick_at = next_tick_at(timing, anchor_at, after)
    return NO_TICK if tick_at is None else NextTick(tick_at, tick_due_at(schedule, timing, anchor_at, tick_at))


def next_runs(schedule: Schedule, now: Instant, count: int) -> list[Instant]:
    """When the next ticks fire, as far as it is known now."""
    if schedule.is_paused:
        return []
    # One whose jitter is not over yet is still to come.
    is_behind = schedule.due_at is not None and schedule.due_at <= now
    after = max(now, schedule.fired_until) if is_behind else schedule.fired_until
    coming = nominal_ticks(schedule.timing, schedule.anchor_at, after)
    return [tick_due_at(schedule.id, schedule.timing, schedule.anchor_at, tick_at) for tick_at in islice(coming, count)]


# -- checks


def check_timing(timing: Timing, anchor_at: Instant, now: Instant) -> None:
    """Check a timing. Raises InvalidInput, with the field named, for one that is none or never fires."""
    given = [name for name in ("at", "every_s", "cron") if getattr(timing, name) is not None]
    if len(given) != 1:
        wrong = f"not {' and '.join(given)}" if given else "none of them is there"
        raise InvalidInput(f"give one of at, every_s and cron; {wrong}", field=given[1] if given else "cron")
    cron.find_time_zone(timing.time_zone)
    for name in ("at", "starts_at", "ends_at"):
        instant = getattr(timing, name)
        if instant is not None and instant > now + MAX_AHEAD_MS:
            raise InvalidInput("at most fifty years from now", field=name)
    if timing.every_s is not None and not 1 <= timing.every_s <= limits.EVERY_S_MAX:
        raise InvalidInput(f"from 1 to {limits.EVERY_S_MAX} seconds", field="every_s")
    if timing.cron is not None:
        cron.check_expression(timing.cron)
    elif timing.time_zone != DEFAULT_ZONE:
        raise InvalidInput("only cron goes by a time zone", field="time_zone")
    for name in ("at", "ends_at"):
        instant = getattr(timing, name)
        if instant is not None and instant <= now:
            raise InvalidInput("is in the past", field=name)
    if timing.at is not None and timing.starts_at is not None:
        raise InvalidInput("says nothing beside at", field="starts_at")
    if next_tick_at(timing, anchor_at, now) is None:
        within = timing.starts_at is not None or timing.ends_at is not None
        raise InvalidInput(f"never fires{' between starts_at and ends_at' if within else ''}", field=given[0])


# -- what is due


def plan_ticks(schedule: Schedule, now: Instant) -> Plan:
    """Plan the ticks that fire now, by the schedule's policy of catching up."""
    if schedule.next_at is None or schedule.due_at is None or schedule.due_at > now:
        return Plan((), None, schedule.fired_until, schedule.next_at, schedule.due_at)
    max_ticks = limits.TICKS_CAUGHT_UP if schedule.catch_up is CatchUp.ALL else 1
    due, following = _due_ticks(schedule, schedule.next_at, now, max_ticks)
    chosen = due[-max_ticks:]
    if schedule.catch_up is CatchUp.SKIP and now - _schedule_due_at(schedule, due[-1]) > GRACE_MS:
        chosen = []
    left_out = due[: len(due) - len(chosen)]
    missed = (schedule.next_at, left_out[-1]) if left_out else None
    return Plan(chosen, missed, due[-1], following.at, following.due_at)


def _due_ticks(schedule: Schedule, first: Instant, now: Instant, max_ticks: int) -> tuple[list[Instant], NextTick]:
    """The newest ticks that are due, at least one more than `max_ticks` if there are that many; and the next tick."""
    timing, anchor_at = schedule.timing, schedule.anchor_at
    search_ms, due = _FIRST_SEARCH_MS, [first]
    following = next_tick_at(timing, anchor_at, first)
    # Nearly always it is just the one. After a long silence only the newest are looked at, however many there were.
    while following is not None and following <= now:
        begin = max(first - 1, now - search_ms)
        due = list(takewhile(lambda at: at <= now, nominal_ticks(timing, anchor_at, begin)))
        if len(due) > max_ticks + 1 or begin == first - 1:
            break
        search_ms *= 4
    if len(due) > 1 and _schedule_due_at(schedule, due[-1]) > now:
        due.pop()
    return due, next_tick(schedule.id, timing, anchor_at, due[-1])


def _schedule_due_at(schedule: Schedule, tick_at: Instant) -> Instant:
    return tick_due_at(schedule.id, schedule.timing, schedule.anchor_at, tick_at)


# -- overlap


class OverlapDecision(NamedTuple):
    """What happens to due ticks, given whether a task of an earlier one goes on."""

    fired: Sequence[Instant] = ()
    held: Instant | None = None
    skipped: Sequence[tuple[Instant, str]] = ()
    is_cancelling: bool = False
    """Whether the tasks that go on are cancelled first."""


def resolve_overlap(overlap: Overlap, due: Sequence[Instant], *, is_busy: bool) -> OverlapDecision:
    """Decide about due ticks, in order, by the overlap policy; one that was held comes first."""
    if not due or overlap is Overlap.ALLOW:
        return OverlapDecision(due)
    first, rest = due[0], due[1:]
    match overlap:
        case Overlap.CANCEL_PREVIOUS:
            return OverlapDecision(
                due[-1:], None, [(tick_at, "a newer tick was due as well") for tick_at in due[:-1]], is_busy
            )
        case Overlap.SKIP if is_busy:
            return OverlapDecision(skipped=[(tick_at, BUSY) for tick_at in due])
        case Overlap.SKIP:
            return OverlapDecision([first], None, [(tick_at, BUSY) for tick_at in rest])
        case Overlap.QUEUE if is_busy:
            return OverlapDecision((), first, [(tick_at, QUEUED) for tick_at in rest])
        case _:
            return OverlapDecision([first], rest[0] if rest else None, [(tick_at, QUEUED) for tick_at in rest[1:]])


BUSY = "the task of an earlier run has not ended"
QUEUED = "another tick waits already for an earlier task to end"
