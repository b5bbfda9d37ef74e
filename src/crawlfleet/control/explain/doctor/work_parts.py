"""Parts of the snapshot about work: nodes, lanes that wait, figures, schedules and hosts. Every read is bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from crawlfleet.errors import Unavailable
from crawlfleet.model.execution import ParkCause
from crawlfleet.model.figures.task_figures import HOUR_S, TIMEOUT, TYPE, count_runs, percentile_ms, run_times, sum_rows
from crawlfleet.model.host import Host
from crawlfleet.model.ids import NodeId, ScheduleId, made_at
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.schedule import TickStatus
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.admin_store import AccessStore, ConfigStore
from crawlfleet.ports.doctor_store import DoctorStore
from crawlfleet.ports.figure_store import FigureStore
from crawlfleet.ports.host_store import HostFilter, HostStore
from crawlfleet.ports.queue_store import PlacementView, ReadyTaskStore
from crawlfleet.ports.schedule_store import ScheduleFilter, ScheduleStore
from crawlfleet.ports.task_store import TaskStore
from crawlfleet.scheduling.doctor.snapshot import (
    CounterPart,
    HistoryPart,
    HostCondition,
    HostPart,
    LaneBacklog,
    MissedTicks,
    NodePart,
    QueuePause,
    RunningPart,
    SchedulePart,
    TypeFigures,
    WorkPart,
)

MAX_LANES = 500
MAX_AUDIT_ENTRIES = 1_000
MAX_SCHEDULES = 200
MAX_TICKS = 50
MAX_HOSTS = 50
MAX_HOST_ROWS = 2_000
MAX_PARKED = 1_000
MAX_COUNTED_TASKS = 200_000
COUNT_TRIES = 3
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
_HELD = (TaskStatus.ASSIGNED, TaskStatus.PROCESSING)


class WorkStore(
    ReadyTaskStore,
    TaskStore,
    FigureStore,
    ScheduleStore,
    HostStore,
    AccessStore,
    ConfigStore,
    DoctorStore,
    Protocol,
):
    """The part of the store that these parts are read from."""


class WorkParts:
    def __init__(self, store: WorkStore, now: Instant, timeout_s: int) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._now = now
        self._view: PlacementView | None = None
        self._sessions: Counter[NodeId] = Counter()

    def add_sessions(self, running: RunningPart) -> None:
        """Take the sessions that each master counted."""
        for record in running.masters:
            self._sessions.update(record.figures.sessions)

    async def read_nodes(self) -> NodePart:
        return NodePart((await self._read_view()).nodes, dict(self._sessions))

    async def read_work(self) -> WorkPart:
        view = await self._read_view()
        totals = await self._store.lane_totals()
        oldest = sorted(view.ready_heads.items(), key=lambda head: head[1])
        heads = dict(oldest[:MAX_LANES])
        held = {lane: sum(counts.get(status, 0) for status in _HELD) for lane, counts in totals.items()}
        busy = Counter(held).most_common(MAX_LANES)
        lanes = {
            lane.id: lane for lane in await self._store.load_lanes([*heads, *(lane for lane, count in busy if count)])
        }
        rows = await self._store.live_tasks(list(heads.values()))
        running: Counter[str] = Counter()
        for lane, count in busy:
            if count and lane in lanes:
                running[lanes[lane].project] += count
        waiting = [
            LaneBacklog(
                lanes[lane],
                max(1, totals.get(lane, {}).get(TaskStatus.PENDING, 0)),
                made_at(task),
                rows[task].timeout_s if task in rows else 0,
            )
            for lane, task in heads.items()
            if lane in lanes
        ]
        paused = await self._read_pauses(view.paused_queues)
        return WorkPart(waiting, max(0, len(oldest) - MAX_LANES), paused, view.clusters, running)

    async def _read_pauses(self, queues: set[str]) -> Mapping[str, QueuePause]:
        pauses = dict.fromkeys(sorted(queues), QueuePause())
        if not queues:
            return pauses
        missing = set(queues)
        for entry in await self._store.audit_page(MAX_AUDIT_ENTRIES):
            named = {entry.target} if entry.action == "queue.pause" else set()
            if entry.action == "queues.pause":
                named = set(entry.details.get("names", ()))
            for queue in named & missing:
                pauses[queue] = QueuePause(entry.at, entry.name)
                missing.discard(queue)
        return pauses

    async def read_history(self) -> HistoryPart:
        names = list(await self._store.figure_totals(TYPE))
        points = await self._store.figure_history(names, HOUR_S, self._now - DAY_MS, self._now + 1, 25)
        types = {}
        for series in names:
            row = sum_rows(point.figures for point in points.get(series, ()))
            times = run_times(row)
            types[series.partition(":")[2]] = TypeFigures(
                count_runs(row), row[TIMEOUT], percentile_ms(times, 0.95), percentile_ms(times, 0.99)
            )
        config = await self._store.cluster_config(DEFAULT_CLUSTER)
        return HistoryPart(types, int(config.values.get("task_timeout_s", self._timeout_s)))

    async def read_counters(self) -> CounterPart:
        """Count the rows where that is quick, between two equal readings of the counters."""
        before = await self._store.task_totals()
        if (total := sum(before.values())) > MAX_COUNTED_TASKS:
            raise Unavailable(f"{total:,} tasks are too many to count here; crawlfleet repair counters counts them")
        for _ in range(COUNT_TRIES):
            rows = await self._store.count_rows()
            after = await self._store.task_totals()
            if after == before:
                return CounterPart(_by_word(after), _by_word(rows))
            before = after
        raise Unavailable("tasks changed while they were counted; try again when less happens")

    async def read_schedules(self) -> SchedulePart:
        page = await self._store.list_schedules(ScheduleFilter(is_paused=False), MAX_SCHEDULES)
        missed: dict[ScheduleId, MissedTicks] = {}
        for schedule in page:
            ticks = await self._store.list_ticks(schedule.id, MAX_TICKS)
            left_out = [
                tick
                for tick in ticks
                if tick.status in (TickStatus.SKIPPED, TickStatus.REFUSED) and tick.made_at > self._now - DAY_MS
            ]
            if left_out:
                missed[schedule.id] = MissedTicks(len(left_out), left_out[0].reason or "")
        return SchedulePart(page, missed, has_more=page.has_more)

    async def read_hosts(self) -> HostPart:
        backing_off = await self._store.list_hosts(HostFilter(is_backing_off=True), self._now, MAX_HOSTS)
        answers = {answer.host: answer for answer in await self._store.host_answers(self._now - HOUR_MS, MAX_HOST_ROWS)}
        refusing = {host.name: host for host in backing_off}
        names = dict.fromkeys([*refusing, *sorted(answers, key=lambda name: -answers[name].blocked)[:MAX_HOSTS]])
        conditions = []
        for name in names:
            answer = answers.get(name)
            waiting = 0
            if name in refusing:
                waiting = len(await self._store.parked_for(ParkCause.HOST_BACKOFF, name, MAX_PARKED))
            requests, blocked = (answer.requests, answer.blocked) if answer else (0, 0)
            conditions.append(HostCondition(refusing.get(name) or Host(name), waiting, requests, blocked))
        return HostPart(conditions)

    async def _read_view(self) -> PlacementView:
        if self._view is None:
            self._view = await self._store.placement_view()
        return self._view


def _by_word(counts: Mapping[TaskStatus, int]) -> dict[str, int]:
    return {status.word: count for status, count in counts.items() if count}
