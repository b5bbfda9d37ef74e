"""Schedules as people use them: create, change, pause, run by hand, remove. The firer fires them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import msgspec

from crawlfleet.control.support.broker_hints import publish_hints, publish_ready
from crawlfleet.control.tasks.submit import Submit
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model import instants, limits
from crawlfleet.model.ids import IdFactory, ScheduleId, schedule_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.schedule import CatchUp, Overlap, Schedule, Tick, Timing
from crawlfleet.model.task import TaskRecord
from crawlfleet.ports.broker import SCHEDULES, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.record_page import RecordPage
from crawlfleet.ports.schedule_store import HandRun, RunAnswer, ScheduleAnswer, ScheduleFilter, ScheduleStore
from crawlfleet.ports.task_store import Claim, TaskReadStore
from crawlfleet.scheduling.schedules import ticks as times
from crawlfleet.wire.schedules import KINDS, ScheduleBody, ScheduleChange, apply_change, change_fields
from crawlfleet.wire.schema_errors import shorten_text
from crawlfleet.wire.tasks import TaskBody, read_task, storage_problem

LAST_RUNS = 20
NEXT_RUNS = 5
_SECOND_MS = times.SECOND_MS
_TIMES = {*KINDS, "time_zone", "starts_at", "ends_at", "jitter_s"}


class _Store(ScheduleStore, TaskReadStore, Protocol):
    pass


class Refused(InvalidInput):
    """The template cannot be submitted; with the code that submitting it would have given."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail, field=f"task.{refusal.field}" if refusal.field else "task")
        self.refusal = Refusal(refusal.code, refusal.detail, self.field)


class Runs(NamedTuple):
    """The runs of one schedule: when it fires next, the outcome of its last ticks, and the tasks they made."""

    coming: Sequence[Instant]
    last: Sequence[Tick]
    tasks: dict[int, TaskRecord]


class Schedules:
    def __init__(self, *, store: _Store, broker: Broker, clock: Clock, id_factory: IdFactory, submit: Submit) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._ids = id_factory
        self._submit = submit

    async def create_schedule(self, body: ScheduleBody, *, by: str, claim: Claim | None = None) -> ScheduleAnswer:
        """Create a schedule. Raises InvalidInput with the field named; Refused for a template that could not be
        submitted now."""
        now = self._clock.now()
        task = await self._check_template(body.task)
        number = self._ids.new_id()
        # Not before the store has looked for the key: a time in the future may have passed when the request is
        # repeated.
        answer = await self._store.add_schedule(lambda: _new_schedule(number, body, task, by, now), claim, now)
        await self._broker.signals.send_signals([SCHEDULES])
        return answer

    async def change_schedule(self, schedule: ScheduleId, change: ScheduleChange) -> Schedule:
        task = None if change.task is msgspec.UNSET else await self._check_template(change.task)
        now = self._clock.now()
        return await self._write_change(schedule, lambda have: _changed_schedule(have, change, task, now), now)

    async def pause_schedule(self, schedule: ScheduleId) -> Schedule:
        """Pause the schedule: its ticks are skipped until it is resumed."""
        now = self._clock.now()
        return await self._write_change(schedule, lambda have: _paused_schedule(have, now), now)

    async def resume_schedule(self, schedule: ScheduleId) -> Schedule:
        """Resume the schedule from now on: ticks that were skipped meanwhile are not caught up."""
        now = self._clock.now()
        return await self._write_change(schedule, lambda have: _resumed_schedule(have, now), now)

    async def remove_schedule(self, schedule: ScheduleId) -> None:
        await self._store.remove_schedule(schedule, self._clock.now())

    async def run_schedule(
        self, schedule: ScheduleId, *, is_forced: bool = False, claim: Claim | None = None
    ) -> RunAnswer:
        """Submit a task now, outside of the schedule's ticks. Raises Refused, NotFound, or OverLimit."""
        record = await self.get_schedule(schedule)
        async with self._submit.prepare_admitted([read_task(record.task)]) as (task,):
            if isinstance(task, Refusal):
                raise Refused(task)
            limited = await self._submit.find_limited_projects([task])
            run = HandRun(schedule, task, is_forced, claim, limited)
            answer = await self._store.run_schedule(run, self._clock.now())
        await publish_hints(self._broker, answer.cancelled)
        await publish_ready(self._broker, answer.ready)
        return answer

    async def get_schedule(self, schedule: ScheduleId) -> Schedule:
        record = await self._store.find_schedule(schedule)
        if record is None:
            raise NotFound(f"no schedule {schedule_text(schedule)}")
        return record

    async def list_schedules(
        self, where: ScheduleFilter, limit: int, before: ScheduleId | None = None
    ) -> RecordPage[Schedule]:
        return await self._store.list_schedules(where, limit, before)

    async def load_runs(self, schedule: Schedule, limit: int = LAST_RUNS) -> Runs:
        last = await self._store.list_ticks(schedule.id, limit)
        tasks = await self._store.load_tasks([tick.task for tick in last if tick.task is not None])
        return Runs(times.next_runs(schedule, self._clock.now(), NEXT_RUNS), last, tasks)

    async def _write_change(
        self, schedule: ScheduleId, change: Callable[[Schedule], Schedule], now: Instant
    ) -> Schedule:
        record = await self._store.change_schedule(schedule, change, now)
        await self._broker.signals.send_signals([SCHEDULES])
        return record

    async def _check_template(self, raw: msgspec.Raw) -> TaskBody:
        """Read the template and check it as if it were submitted now."""
        if len(bytes(raw)) > limits.TEMPLATE_BYTES:
            detail = f"{len(bytes(raw))} bytes; a template has at most {limits.TEMPLATE_BYTES}"
            raise Refused(Refusal(Code.TOO_LARGE, detail))
        body = read_task(raw)
        if isinstance(body, TaskBody):
            for field in ("run_at", "depends_on"):
                if getattr(body, field):
                    body = Refusal(Code.INVALID_INPUT, "a schedule says when its tasks run", field)
                    break
            else:
                body = await self._submit.check_task(body)
        if isinstance(body, Refusal):
            raise Refused(body)
        return body


# -- records


def _new_schedule(number: ScheduleId, body: ScheduleBody, task: TaskBody, by: str, now: Instant) -> Schedule:
    timing = _parse_timing(body)
    anchor_at = _anchor_instant(timing, now)
    times.check_timing(timing, anchor_at, now)
    coming = times.NO_TICK if body.is_paused else times.next_tick(number, timing, anchor_at, now)
    return Schedule(
        number,
        _check_name(body.name),
        task.project_id or "",
        task.task_type,
        bytes(body.task),
        timing,
        anchor_at,
        CatchUp.of_word(body.catch_up),
        Overlap.of_word(body.overlap),
        body.is_paused,
        now,
        by,
        now,
        now,
        coming.at,
        coming.due_at,
    )


def _changed_schedule(have: Schedule, change: ScheduleChange, task: TaskBody | None, now: Instant) -> Schedule:
    body = apply_change(schedule_body(have), change)
    want = replace(
        have,
        name=_check_name(body.name),
        catch_up=CatchUp.of_word(body.catch_up),
        overlap=Overlap.of_word(body.overlap),
    )
    if task is not None:
        want = replace(
            want, task=bytes(body.task), project=task.project_id or "", task_type=task.task_type, last_error=None
        )
    if change_fields(change) & _TIMES:
        timing = _parse_timing(body)
        is_counted_alike = (timing.every_s, timing.starts_at) == (have.timing.every_s, have.timing.starts_at)
        anchor_at = have.anchor_at if is_counted_alike else _anchor_instant(timing, now)
        times.check_timing(timing, anchor_at, now)
        if timing != have.timing:
            want = _fire_from_now(replace(want, timing=timing, anchor_at=anchor_at), now)
    return want if want == have else replace(want, changed_at=now)


def _paused_schedule(have: Schedule, now: Instant) -> Schedule:
    return have if have.is_paused else replace(have, is_paused=True, next_at=None, due_at=None, changed_at=now)


def _resumed_schedule(have: Schedule, now: Instant) -> Schedule:
    return _fire_from_now(replace(have, is_paused=False, changed_at=now), now) if have.is_paused else have


def _fire_from_now(schedule: Schedule, now: Instant) -> Schedule:
    # Not from a `now` that was set back: ticks that have fired stay fired.
    until = max(schedule.fired_until, now)
    if schedule.is_paused:
        return replace(schedule, fired_until=until)
    coming = times.next_tick(schedule.id, schedule.timing, schedule.anchor_at, until)
    return replace(schedule, fired_until=until, next_at=coming.at, due_at=coming.due_at)


def schedule_body(schedule: Schedule) -> ScheduleBody:
    timing = schedule.timing
    return ScheduleBody(
        task=msgspec.Raw(schedule.task),
        name=schedule.name,
        at=_instant_text(timing.at),
        every_s=timing.every_s,
        cron=timing.cron,
        time_zone=timing.time_zone,
        starts_at=_instant_text(timing.starts_at),
        ends_at=_instant_text(timing.ends_at),
        jitter_s=timing.jitter_s,
        catch_up=schedule.catch_up.word,  # type: ignore[arg-type]
        overlap=schedule.overlap.word,  # type: ignore[arg-type]
        is_paused=schedule.is_paused,
    )


def _parse_timing(body: ScheduleBody) -> Timing:
    expression = None if body.cron is None else " ".join(body.cron.split())
    return Timing(
        _parse_instant(body.at, "at"),
        body.every_s,
        expression,
        body.time_zone,
        _parse_instant(body.starts_at, "starts_at"),
        _parse_instant(body.ends_at, "ends_at"),
        body.jitter_s,
    )


def _anchor_instant(timing: Timing, now: Instant) -> Instant:
    return timing.starts_at if timing.starts_at is not None else now // _SECOND_MS * _SECOND_MS


def _parse_instant(text: str | None, field: str) -> Instant | None:
    """Return the instant rounded up to a whole second, never before the given time."""
    if text is None:
        return None
    try:
        return -(-instants.from_text(text) // _SECOND_MS) * _SECOND_MS
    except (ValueError, OverflowError) as exc:
        raise InvalidInput(shorten_text(str(exc)), field=field) from exc


def _check_name(name: str | None) -> str | None:
    if name is not None and (complaint := storage_problem(name)):
        raise InvalidInput(complaint, field="name")
    return name


def _instant_text(instant: Instant | None) -> str | None:
    return None if instant is None else instants.to_text(instant)
