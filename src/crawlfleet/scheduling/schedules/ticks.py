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
FURTHEST_MS = 50 * 366 * 86_400_000
_FIRST_LOOK_MS = 60_000
_HASHED = 1 << 64


# -- nominal instants


def ticks(timing: Timing, anchor_at: Instant, after: Instant) -> Iterator[Instant]:
    """The nominal instants after `after`, ascending."""
    if timing.at is not None:
        found: Iterator[Instant] = iter((timing.at,) if timing.at > after else ())
    else:
        if timing.starts_at is not None:
            after = max(after, timing.starts_at - 1)
        if timing.every_s is not None:
            found = _counted(timing.every_s, anchor_at, after)
        else:
            assert timing.cron is not None
            found = cron.instants(timing.cron, timing.time_zone, after)
    ends_at = timing.ends_at
    return found if ends_at is None else takewhile(lambda at: at <= ends_at, found)


def next_after(timing: Timing, anchor_at: Instant, after: Instant) -> Instant | None:
    return next(ticks(timing, anchor_at, after), None)


def _counted(every_s: int, anchor_at: Instant, after: Instant) -> Iterator[Instant]:
    every_ms = every_s * SECOND_MS
    at = anchor_at + max(0, (after - anchor_at) // every_ms + 1) * every_ms
    while True:
        yield at
        at += every_ms


def due_at(schedule: ScheduleId, timing: Timing, anchor_at: Instant, at: Instant) -> Instant:
    """When the tick fires: its jitter is the same on every master, and never reaches the next tick."""
    if not timing.jitter_s:
        return at
    following = next_after(timing, anchor_at, at)
    room_ms = timing.jitter_s * SECOND_MS
    if following is not None:
        room_ms = min(room_ms, following - at)
    digest = blake2b(f"{schedule}:{at}".encode(), digest_size=8).digest()
    return at + int.from_bytes(digest) * room_ms // _HASHED


class Upcoming(NamedTuple):
    at: Instant | None
    due_at: Instant | None


NOTHING = Upcoming(None, None)


def upcoming(schedule: ScheduleId, timing: Timing, anchor_at: Instant, after: Instant) -> Upcoming:
    """The first tick after `after`, and when it fires."""
    at = next_after(timing, anchor_at, after)
    return NOTHING if at is None else Upcoming(at, due_at(schedule, timing, anchor_at, at))


def next_runs(schedule: Schedule, now: Instant, count: int) -> list[Instant]:
    """When the next ticks fire, as far as it is known now."""
    if schedule.is_paused:
        return []
    # One whose jitter is not over yet is still to come.
    is_behind = schedule.due_at is not None and schedule.due_at <= now
    after = max(now, schedule.fired_until) if is_behind else schedule.fired_until
    coming = ticks(schedule.timing, schedule.anchor_at, after)
    return [due_at(schedule.id, schedule.timing, schedule.anchor_at, at) for at in islice(coming, count)]


# -- checks


def check(timing: Timing, anchor_at: Instant, now: Instant) -> None:
    """Check a timing. Raises InvalidInput, with the field named, for one that is none or never fires."""
    said = [name for name in ("at", "every_s", "cron") if getattr(timing, name) is not None]
    if len(said) != 1:
        wrong = f"not {' and '.join(said)}" if said else "none of them is there"
        raise InvalidInput(f"give one of at, every_s and cron; {wrong}", field=said[1] if said else "cron")
    cron.zone_of(timing.time_zone)
    for name in ("at", "starts_at", "ends_at"):
        instant = getattr(timing, name)
        if instant is not None and instant > now + FURTHEST_MS:
            raise InvalidInput("at most fifty years from now", field=name)
    if timing.every_s is not None and not 1 <= timing.every_s <= limits.EVERY_S_MAX:
        raise InvalidInput(f"from 1 to {limits.EVERY_S_MAX} seconds", field="every_s")
    if timing.cron is not None:
        cron.check(timing.cron)
    elif timing.time_zone != DEFAULT_ZONE:
        raise InvalidInput("only cron goes by a time zone", field="time_zone")
    for name in ("at", "ends_at"):
        instant = getattr(timing, name)
        if instant is not None and instant <= now:
            raise InvalidInput("is in the past", field=name)
    if timing.at is not None and timing.starts_at is not None:
        raise InvalidInput("says nothing beside at", field="starts_at")
    if next_after(timing, anchor_at, now) is None:
        within = timing.starts_at is not None or timing.ends_at is not None
        raise InvalidInput(f"never fires{' between starts_at and ends_at' if within else ''}", field=said[0])


# -- what is due


def plan(schedule: Schedule, now: Instant) -> Plan:
    """Plan the ticks that fire now, by the schedule's policy of catching up."""
    if schedule.next_at is None or schedule.due_at is None or schedule.due_at > now:
        return Plan((), None, schedule.fired_until, schedule.next_at, schedule.due_at)
    most = limits.TICKS_CAUGHT_UP if schedule.catch_up is CatchUp.ALL else 1
    due, coming = _due(schedule, schedule.next_at, now, most)
    chosen = due[-most:]
    if schedule.catch_up is CatchUp.SKIP and now - _due_at(schedule, due[-1]) > GRACE_MS:
        chosen = []
    left_out = due[: len(due) - len(chosen)]
    missed = (schedule.next_at, left_out[-1]) if left_out else None
    return Plan(chosen, missed, due[-1], coming.at, coming.due_at)


def _due(schedule: Schedule, first: Instant, now: Instant, most: int) -> tuple[list[Instant], Upcoming]:
    """The newest ticks that are due, at least one more than `max_ticks` if there are that many; and the next tick."""
    timing, anchor_at = schedule.timing, schedule.anchor_at
    look_ms, due = _FIRST_LOOK_MS, [first]
    following = next_after(timing, anchor_at, first)
    # Nearly always it is just the one. After a long silence only the newest are looked at, however many there were.
    while following is not None and following <= now:
        begin = max(first - 1, now - look_ms)
        due = list(takewhile(lambda at: at <= now, ticks(timing, anchor_at, begin)))
        if len(due) > most + 1 or begin == first - 1:
            break
        look_ms *= 4
    if len(due) > 1 and _due_at(schedule, due[-1]) > now:
        due.pop()
    return due, upcoming(schedule.id, timing, anchor_at, due[-1])


def _due_at(schedule: Schedule, at: Instant) -> Instant:
    return due_at(schedule.id, schedule.timing, schedule.anchor_at, at)


# -- overlap


class Turn(NamedTuple):
    """What happens to due ticks, given whether a task of an earlier one goes on."""

    fired: Sequence[Instant] = ()
    held: Instant | None = None
    skipped: Sequence[tuple[Instant, str]] = ()
    is_cancelling: bool = False
    """Whether the tasks that go on are cancelled first."""


def turn(overlap: Overlap, due: Sequence[Instant], *, is_busy: bool) -> Turn:
    """Decide about due ticks, in order, by the overlap policy; one that was held comes first."""
    if not due or overlap is Overlap.ALLOW:
        return Turn(due)
    first, rest = due[0], due[1:]
    match overlap:
        case Overlap.CANCEL_PREVIOUS:
            return Turn(due[-1:], None, [(at, "a newer tick was due as well") for at in due[:-1]], is_busy)
        case Overlap.SKIP if is_busy:
            return Turn(skipped=[(at, BUSY) for at in due])
        case Overlap.SKIP:
            return Turn([first], None, [(at, BUSY) for at in rest])
        case Overlap.QUEUE if is_busy:
            return Turn((), first, [(at, QUEUED) for at in rest])
        case _:
            return Turn([first], rest[0] if rest else None, [(at, QUEUED) for at in rest[1:]])


BUSY = "the task of an earlier run has not ended"
QUEUED = "another tick waits already for an earlier task to end"
