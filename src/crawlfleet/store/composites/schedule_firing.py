"""The firing of schedules: ticks, their tasks, and the progress of the schedules, in one transaction.

A tick counts once: its schedule is locked and still the one the plan was made of, and the nominal instant is part of
the key of its row. What was planned on an older record is left for the next pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import TaskId, schedule_text, task_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.schedule import Overlap, Schedule, Tick, TickStatus
from crawlfleet.ports.schedule_store import Fired, Firing, HandRun, RunAnswer
from crawlfleet.ports.task_store import Accepted, Applied, Submission
from crawlfleet.scheduling.schedules.ticks import OverlapDecision, resolve_overlap
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store import row_codec, schema
from crawlfleet.store.admin.installation_counts import count_ticks
from crawlfleet.store.composites.schedules import SCHEDULES, TICK_ROWS, lock_schedule
from crawlfleet.store.engine.transaction import Engine, Row, Tx
from crawlfleet.store.projects.project_quotas import over_limit
from crawlfleet.store.projects.projects import lock_projects
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.task_insert import add_tasks, stored_answer
from crawlfleet.store.tasks.transaction_log import write_events
from crawlfleet.store.tasks.transitions import Transition

LOCK_REVISIONS = "SELECT id, revision FROM schedule WHERE id AMONG($1) ORDER BY id LOCK_ROWS(schedule)"
KNOWN_TICKS = "SELECT schedule, at FROM tick WHERE schedule AMONG($1) AND at AMONG($2)"
STILL_LIVE = "SELECT id FROM live WHERE id AMONG($1)"
NEWEST_TICK = "SELECT MAX(at) FROM tick WHERE schedule = $1"
SET_RECENT = "UPDATE schedule SET recent = $2, revision = revision + 1 WHERE id = $1"
_STATES = SCHEDULES.column_writer(
    "id", "fired_until", "next_at", "due_at", "held_at", "held_for", "recent", "last_error", "revision"
)
MAX_RECENT = 100
"""Limit of the remembered tasks that overlap: more than one runs only where overlap was allowed, or forced."""
MISSED = "nobody was there to fire it in time"
_CANCELLED = "cancelled for the next run of its schedule"


class FireTables:
    _engine: Engine
    _lanes: LaneBook

    async def fire_schedules(self, firings: Sequence[Firing], term: int, now: Instant) -> Fired:
        return await self._engine.write(lambda tx: _FiringTransaction(tx, self._lanes, now).fire_ticks(firings), term)

    async def run_schedule(self, run: HandRun, now: Instant) -> RunAnswer:
        return await self._engine.write(lambda tx: _run_by_hand(tx, self._lanes, run, now))


class _FiringTransaction:
    def __init__(self, tx: Tx, lanes: LaneBook, now: Instant) -> None:
        self._tx = tx
        self._lanes = lanes
        self._now = now
        self._answer = Fired()
        self._limited: set[str] = set()
        self._ticks: list[Tick] = []
        self._states: list[Schedule] = []
        self._fired: list[Row] = []
        self._skipped: list[Row] = []
        self._missed: list[Row] = []

    async def fire_ticks(self, firings: Sequence[Firing]) -> Fired:
        by_id = {firing.schedule.id: firing for firing in firings}
        rows = await self._tx.fetch(LOCK_REVISIONS, sorted(by_id))
        current = [
            by_id[schedule_id] for schedule_id, revision in rows if by_id[schedule_id].schedule.revision == revision
        ]
        self._answer.stale = len(by_id) - len(current)
        if not current:
            return self._answer
        self._limited = {project for firing in current for project in firing.limited}
        await lock_projects(self._tx, self._limited)
        live = await _select_live(self._tx, [task for firing in current for task in firing.schedule.recent])
        decisions = await self._decide_overlaps(current, live)
        overtaken = {
            task for firing, decision in decisions if decision.is_cancelling for task in firing.schedule.recent
        }
        self._answer.cancelled = await _cancel_tasks(self._tx, self._lanes, sorted(overtaken & live), self._now)
        answers = await self._add_tasks(decisions)
        for firing, decision in decisions:
            self._record_decision(firing, decision, live, answers)
        await self._write_rows()
        return self._answer

    async def _decide_overlaps(
        self, firings: Sequence[Firing], live: set[TaskId]
    ) -> list[tuple[Firing, OverlapDecision]]:
        ids = [firing.schedule.id for firing in firings]
        instants = sorted({tick_at for firing in firings for tick_at in firing.tasks})
        existing = {tuple(row) for row in await self._tx.fetch(KNOWN_TICKS, ids, instants)} if instants else set()
        decisions = []
        for firing in firings:
            schedule = firing.schedule
            due = [tick_at for tick_at in sorted(firing.tasks) if (schedule.id, tick_at) not in existing]
            is_busy = not live.isdisjoint(schedule.recent)
            decisions.append((firing, resolve_overlap(schedule.overlap, due, is_busy=is_busy)))
        return decisions

    async def _add_tasks(
        self, decisions: Sequence[tuple[Firing, OverlapDecision]]
    ) -> dict[tuple[int, Instant], Accepted | Refusal]:
        keys = [(firing.schedule.id, tick_at) for firing, decision in decisions for tick_at in decision.fired]
        items = [firing.tasks[tick_at] for firing, decision in decisions for tick_at in decision.fired]
        if not items:
            return {}
        # With quotas, each task is a submission of its own: as many are accepted as the quotas allow.
        parts = [[item] for item in items] if self._limited else [items]
        submissions = [Submission(part, limited=self._limited) for part in parts]
        added = await add_tasks(self._tx, self._lanes, submissions, self._now)
        self._answer.ready = {lane: list(tasks) for lane, tasks in added.ready.items()}
        return dict(zip(keys, (item for answer in added.answers for item in answer.items), strict=True))

    def _record_decision(
        self,
        firing: Firing,
        decision: OverlapDecision,
        live: set[TaskId],
        answers: dict[tuple[int, Instant], Accepted | Refusal],
    ) -> None:
        schedule, plan = firing.schedule, firing.plan
        new: list[TaskId] = []
        error = schedule.last_error
        for tick_at in decision.fired:
            match answers[schedule.id, tick_at]:
                case Accepted(id=task):
                    new.append(task)
                    error = None
                    self._ticks.append(Tick(schedule.id, tick_at, TickStatus.FIRED, task, self._now))
                    self._fired.append((schedule.id, tick_at, task))
                case Refusal() as refusal:
                    error = _refusal_text(refusal)
                    self._skip_tick(schedule, tick_at, TickStatus.REFUSED, error)
        for tick_at, reason in decision.skipped:
            self._skip_tick(schedule, tick_at, TickStatus.SKIPPED, reason)
        if plan.missed is not None:
            self._missed.append((schedule.id, *plan.missed))
            # One row for all of them, at the last: people and alerts see that something was left out.
            self._ticks.append(Tick(schedule.id, plan.missed[1], TickStatus.SKIPPED, None, self._now, MISSED))
        recent = _select_recent([*schedule.recent, *new], live.union(new))
        held_for = recent[-1] if decision.held is not None and recent else None
        self._states.append(
            replace(
                schedule,
                fired_until=plan.fired_until,
                next_at=plan.next_at,
                due_at=plan.due_at,
                held_at=decision.held,
                held_for=held_for,
                recent=tuple(recent),
                last_error=error,
                revision=schedule.revision + 1,
            )
        )

    def _skip_tick(self, schedule: Schedule, tick_at: Instant, status: TickStatus, reason: str) -> None:
        self._ticks.append(Tick(schedule.id, tick_at, status, None, self._now, reason))
        self._skipped.append((schedule.id, tick_at, reason))

    async def _write_rows(self) -> None:
        tx = self._tx
        if self._ticks:
            await tx.insert(schema.tick, TICK_ROWS.columns, TICK_ROWS.to_rows(self._ticks))
            await count_ticks(tx, self._ticks)
        await tx.update(schema.schedule, _STATES.columns, _STATES.to_rows(self._states))
        batches = [
            EventBatch(kind, dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)), shared)
            for kind, names, rows, shared in (
                (Kind.SCHEDULE_FIRED, ("schedule", "run_at", "task"), self._fired, {}),
                (Kind.SCHEDULE_SKIPPED, ("schedule", "run_at", "reason"), self._skipped, {}),
                (Kind.SCHEDULE_SKIPPED, ("schedule", "since", "run_at"), self._missed, {"reason": MISSED}),
            )
            if rows
        ]
        if batches:
            await write_events(tx, batches, self._now)
        self._answer.fired, self._answer.skipped = len(self._fired), len(self._skipped) + len(self._missed)


async def _run_by_hand(tx: Tx, lanes: LaneBook, run: HandRun, now: Instant) -> RunAnswer:
    schedule = await lock_schedule(tx, run.schedule)
    if run.claim is not None and (stored := await stored_answer(tx, run.claim, 1, now)) is not None:
        return RunAnswer(stored.items[0], is_replay=stored.is_replay)
    await lock_projects(tx, run.limited)
    live = await _select_live(tx, schedule.recent)
    if live and not run.is_forced and schedule.overlap in (Overlap.SKIP, Overlap.QUEUE):
        return RunAnswer(_busy_refusal(schedule, max(live)))
    cancelled = Applied()
    if not run.is_forced and schedule.overlap is Overlap.CANCEL_PREVIOUS:
        cancelled = await _cancel_tasks(tx, lanes, sorted(live), now)
    added = await add_tasks(tx, lanes, [Submission([run.task], claim=run.claim, limited=run.limited)], now)
    if (full := added.answers[0].over_quota) is not None:
        # Raised, so that the rollback undoes everything, also the cancellation of the previous tasks.
        raise over_limit(full, added.answers[0].renews_at, now)
    (item,) = added.answers[0].items
    if isinstance(item, Accepted) and not added.answers[0].is_replay:
        tick_at = await _instant_by_hand(tx, schedule, now)
        tick = Tick(schedule.id, tick_at, TickStatus.BY_HAND, item.id, now)
        await tx.insert(schema.tick, TICK_ROWS.columns, [TICK_ROWS.to_row(tick)])
        await count_ticks(tx, [tick])
        recent = _select_recent([*schedule.recent, item.id], {*live, item.id})
        await tx.execute(SET_RECENT, schedule.id, row_codec.encode_json(recent))
        shared = {"schedule": schedule.id, "task": item.id, "is_by_hand": True}
        await write_events(tx, [EventBatch(Kind.SCHEDULE_FIRED, shared=shared)], now)
    return RunAnswer(item, added.answers[0].is_replay, added.ready, cancelled)


async def _instant_by_hand(tx: Tx, schedule: Schedule, now: Instant) -> Instant:
    """Return the instant of a tick by hand: after all others, and never a whole second, where it could collide with a
    planned tick."""
    newest = (await tx.fetch(NEWEST_TICK, schedule.id))[0][0]
    tick_at = now if newest is None else max(now, newest + 1)
    return tick_at if tick_at % 1000 else tick_at + 1


async def _select_live(tx: Tx, tasks: Sequence[TaskId]) -> set[TaskId]:
    return {row[0] for row in await tx.fetch(STILL_LIVE, list(tasks))} if tasks else set()


async def _cancel_tasks(tx: Tx, lanes: LaneBook, tasks: Sequence[TaskId], now: Instant) -> Applied:
    if not tasks:
        return Applied()
    transition = Transition(tx, lanes, now)
    await transition.change_tasks(tasks, task_state_machine.cancel_task(_CANCELLED))
    return await transition.write_all()


def _select_recent(recent: Sequence[TaskId], live: set[TaskId]) -> list[TaskId]:
    """Select the tasks to remember: those that have not ended, and the last one, which a person may open again."""
    return [task for task in recent if task in live or task == recent[-1]][-MAX_RECENT:]


def _busy_refusal(schedule: Schedule, task: TaskId) -> Refusal:
    detail = f"{task_text(task)} of {schedule_text(schedule.id)} has not ended; with force=true it is run all the same"
    return Refusal(Code.NOT_READY, detail)


def _refusal_text(refusal: Refusal) -> str:
    return f"task.{refusal.field}: {refusal.detail}" if refusal.field else refusal.detail
