"""Serves sync, the one call that every node makes.

    1. outcomes and starts are written, and the lease is renewed, each in one commit for many nodes
    2. what the store assigns to this session is compared with what the node holds: what the node lacks is delivered
       (again), what it should not hold is stopped, what is recalled is asked for
    3. with nothing to answer, the call is held open (long poll) until something changes for the node, for at most two
       seconds

The service keeps no record of what was delivered: a lost answer is made good by the next comparison.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.nodes.resource_allocation import ResourceAllocator
from crawlfleet.control.nodes.sync_grants import GrantSync
from crawlfleet.control.nodes.sync_host_stats import HostStatsSync
from crawlfleet.control.nodes.sync_quota_slices import QuotaSliceSync
from crawlfleet.control.nodes.sync_validation import check_sync, is_valid_progress
from crawlfleet.control.support.batching import Batcher
from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.control.support.master_roster import MasterRoster
from crawlfleet.control.tasks.finish import Finish, is_storable, started_before
from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.instants import Instant, ms
from crawlfleet.model.node import DEFAULT_CLUSTER, Measurement
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.status import NodeStatus, Recall
from crawlfleet.model.task import DecideTransition, LiveTask, RetryPolicy, TaskTransition
from crawlfleet.ports.broker import LEADER, LOOK, Broker, node_topic
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import Renewal, Renewed
from crawlfleet.ports.store import NodeCallStore
from crawlfleet.ports.task_store import Delivery
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.wire.sync import (
    AssignmentBody,
    MeasurementBody,
    NodeConfigBody,
    RecallBody,
    StartBody,
    SyncDown,
    SyncUp,
    SyncVerdict,
)

LONG_POLL_S = 2.0
DELIVERY_BYTES = 16 << 20
"""Limit on the task parameters in one answer: a fraction of what an agent reads, and sent in time over a usual line."""
_DELIVERY_ROWS = 256
_NODES_PER_BATCH = 1_000
_MAX_CLUSTERS_CACHED = 100_000
_encode = msgspec.json.Encoder().encode


class Sync:
    def __init__(
        self,
        *,
        store: NodeCallStore,
        broker: Broker,
        clock: Clock,
        rng: Random,
        finish: Finish,
        configure: Configure,
        allocate: ResourceAllocator,
        roster: MasterRoster,
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._rng = rng
        self._finish = finish
        self._configure = configure
        self._allocate = allocate
        self._roster = roster
        self._grants = GrantSync(store=store, broker=broker, clock=clock)
        self._slices = QuotaSliceSync(store=store, clock=clock)
        self._host_stats = HostStatsSync(store=store, clock=clock)
        self._clusters: dict[NodeId, tuple[int, str]] = {}
        """Session and cluster of each node that synced with this master, by node."""
        self._pending_polls: dict[NodeId, SyncUp] = {}
        self._may_hold_polls = True
        self._renewals: Batcher[Renewal, Renewed] = Batcher(self._renew, max_weight=_NODES_PER_BATCH)
        self._held_reads: Batcher[NodeId, list[LiveTask]] = Batcher(self._read_held, max_weight=_NODES_PER_BATCH)
        self._cluster_reads: Batcher[NodeId, str] = Batcher(self._read_clusters, max_weight=_NODES_PER_BATCH)
        self._starts: Batcher[tuple[NodeId, StartBody], None] = Batcher(self._write_starts, max_weight=4_000)

    async def sync(self, up: SyncUp) -> SyncDown:
        check_sync(up)
        await self._supersede(up)
        host_report = self._grants.encode_report(up)
        measurement = _measurement(up.measurement)
        renewal = Renewal(up.node, up.session, up.number, _encode(measurement), host_report, up.is_departing)
        renewing = self._renewals.put_items([renewal])
        if up.is_departing:
            # First of all: what the node hands back in the same message must not be placed on it again.
            renewed = (await renewing)[0]
            await asyncio.gather(*self._report_writes(up))
        elif up.outcomes or up.started or up.figures is not None:
            # Concurrently, so that one commit may contain it all.
            *_, (renewed,) = await asyncio.gather(*self._report_writes(up), renewing)
        else:
            (renewed,) = await renewing
        acknowledged = [outcome.execution for outcome in up.outcomes]
        if verdict := _verdict(renewed):
            return SyncDown(verdict, acknowledged=acknowledged)
        await self._grants.record_report(up)
        await self._broker.measurements.put_measurement(up.node, measurement)
        if renewed.came_online or renewed.began_departing:
            await self._broker.signals.send_signals([LOOK, LEADER])
        if up.is_leaving:
            return await self._end_session(up, acknowledged)
        slices = await self._slices.grant_requested(up) if up.wants else []
        down = await self._compare(up, renewed, acknowledged)
        if slices:
            return msgspec.structs.replace(down, slices=slices)
        if not _has_content(down, up) and up.wait_ms > 0:
            down = await self._hold_poll(up, down)
        return down

    async def release_polls(self) -> None:
        """Answer every call that is held open now, and hold none from here on: the master stops."""
        self._may_hold_polls = False
        await self._broker.signals.send_signals([node_topic(node) for node in self._pending_polls])

    def _report_writes(self, up: SyncUp) -> list[Coroutine[Any, Any, Sequence[Any]]]:
        """The writes of what the node reports, one coroutine per kind."""
        writes: list[Coroutine[Any, Any, Sequence[Any]]] = []
        if up.outcomes:
            writes.append(self._finish.finish_reported(up.node, up.outcomes))
        if up.started:
            writes.append(self._starts.put_items([(up.node, start) for start in up.started]))
        if up.figures is not None:
            writes.append(self._host_stats.record_batch(up.node, up.figures))
        return writes

    async def _supersede(self, up: SyncUp) -> None:
        """Answer an older call of this node that is still held open here with nothing."""
        parked = self._pending_polls.get(up.node)
        if parked is not None and _is_older(parked, up):
            del self._pending_polls[up.node]
            await self._broker.signals.send_signals([node_topic(up.node)])

    async def _hold_poll(self, up: SyncUp, down: SyncDown) -> SyncDown:
        # Two calls that came at nearly the same time have not seen each other held open. A node has no more than two:
        # if both stayed here, it could send nothing until the first of them is over.
        other = self._pending_polls.get(up.node)
        if other is not None and _is_older(up, other):
            return down
        self._pending_polls[up.node] = up
        try:
            if other is not None:
                await self._broker.signals.send_signals([node_topic(up.node)])
            return await self._wait_for_changes(up, down)
        finally:
            if self._pending_polls.get(up.node) is up:
                del self._pending_polls[up.node]

    async def _wait_for_changes(self, up: SyncUp, down: SyncDown) -> SyncDown:
        """Answer a call that is held open: when the store has something for the node, or when its time is over.

        A signal is kept for the next wait, so it may be older than the last comparison and bring nothing new. The call
        then stays open: an empty answer would make the node pause before its next call.
        """
        ends_at = self._clock.monotonic() + min(up.wait_ms / 1000, LONG_POLL_S)
        while self._may_hold_polls and (left_s := ends_at - self._clock.monotonic()) > 0:
            is_woken = await self._broker.signals.wait_for_signal(node_topic(up.node), left_s)
            if self._pending_polls.get(up.node) is not up:
                return SyncDown(SyncVerdict.STALE_NUMBER)
            if not is_woken:
                # Should the hint have been lost, the node's next call, already on its way, compares again.
                break
            down = await self._compare_again(up, down.acknowledged)
            if down.verdict is not SyncVerdict.OK or _has_content(down, up):
                break
            if self._pending_polls.get(up.node) is not up:
                return SyncDown(SyncVerdict.STALE_NUMBER)
        return down

    async def _compare_again(self, up: SyncUp, acknowledged: list[int]) -> SyncDown:
        nodes, (held,) = await asyncio.gather(self._store.load_nodes([up.node]), self._held_reads.put_items([up.node]))
        (node,) = nodes or (None,)
        if node is None or node.removed_at is not None:
            return SyncDown(SyncVerdict.REMOVED)
        if not node.is_session_open or node.session != up.session:
            return SyncDown(SyncVerdict.SESSION_ENDED)
        # The lease is not renewed by waiting: the node counts from when it sent this call.
        # A departing session is shown to people as maintenance; only a person orders a drain.
        status = NodeStatus.ONLINE if node.is_departing and node.drain_by is None else node.status
        current = Renewed(
            up.node,
            True,
            True,
            status,
            node.slots_wanted,
            node.drain_by,
            is_removed=False,
            held=held,
            slots_measured=node.slots_measured,
            follows_load=node.follows_load,
            granted=node.granted,
        )
        return await self._compare(up, current, acknowledged)

    async def _compare(self, up: SyncUp, renewed: Renewed, acknowledged: list[int]) -> SyncDown:
        ours = {row.execution: row for row in renewed.held if row.session == up.session}
        if up.progress:
            await self._broker.progress.put_progress(
                {
                    progress.execution: bytes(progress.figures)
                    for progress in up.progress
                    if progress.execution in ours and is_valid_progress(progress)
                }
            )
        # An execution that the node has just reported as ended may have been read before that was written.
        on_node = {*up.held, *acknowledged}
        recalls = [
            RecallBody(row.id, row.execution, int(row.recall)) for row in ours.values() if row.recall is not Recall.NONE
        ]
        lacking = [row for row in ours.values() if row.execution not in on_node and row.recall is Recall.NONE]
        now = self._clock.now()
        cluster = await self._cluster_of_node(up)
        await self._configure.refresh()
        return SyncDown(
            SyncVerdict.OK,
            assignments=await self._assignments(lacking),
            recalls=recalls,
            stops=[execution for execution in up.held if execution not in ours],
            acknowledged=acknowledged,
            drain_ms=_drain_ms(renewed, now),
            slots=self._configure.effective_slots(
                cluster, renewed.slots_wanted, renewed.slots_measured, renewed.follows_load
            ),
            masters=self._roster.addresses_unless(up.masters_mark),
            config=self._changed_config(cluster, up),
            grants=await self._grants.changed_grants(up, renewed.granted),
        )

    async def _cluster_of_node(self, up: SyncUp) -> str:
        """Read the cluster of the node once per session: it is set when the node joins and cannot change meanwhile."""
        session, cluster = self._clusters.get(up.node, (None, ""))
        if session != up.session:
            (cluster,) = await self._cluster_reads.put_items([up.node])
            if len(self._clusters) >= _MAX_CLUSTERS_CACHED:
                self._clusters.clear()
            self._clusters[up.node] = up.session, cluster
        return cluster

    async def _read_clusters(self, nodes: list[NodeId]) -> Sequence[str]:
        clusters = {node.id: node.description.cluster for node in await self._store.load_nodes(nodes)}
        return [clusters.get(node, DEFAULT_CLUSTER) for node in nodes]

    def _changed_config(self, cluster: str, up: SyncUp) -> NodeConfigBody | None:
        """The configuration if the node lacks it; never an older one: another master may have read a newer change."""
        config, mark = self._configure.cached_config(cluster), self._configure.mark
        if config.version < up.config_version or (config.version, mark) == (up.config_version, up.config_mark):
            return None
        settings = config.settings
        return NodeConfigBody(
            config.version, settings.allow_hosts, ms(settings.sync_interval_s), mark, settings.log_level_nodes
        )

    async def _assignments(self, rows: Sequence[LiveTask]) -> list[AssignmentBody]:
        """The assignments that fit into one answer; the node's next call comes at once and gets the rest."""
        selected: dict[TaskId, Delivery] = {}
        size, begin = 0, 0
        while begin < len(rows) and size < DELIVERY_BYTES:
            deliveries = await self._store.load_deliveries([row.id for row in rows[begin : begin + _DELIVERY_ROWS]])
            for task, delivery in deliveries.items():
                size += len(delivery.parameters)
                if selected and size > DELIVERY_BYTES:
                    break
                selected[task] = delivery
            begin += _DELIVERY_ROWS
        rows = [row for row in rows if row.id in selected]
        if not rows:
            return []
        allocated = await self._allocate.allocate_tasks(rows[0].node, rows)
        return [
            AssignmentBody(
                row.id,
                row.execution,
                selected[row.id].task_type,
                msgspec.Raw(selected[row.id].parameters),
                row.timeout_s,
                row.retries,
                row.round,
                task_state_machine.needs_own_process(row),
                int(allocated[row.id].get("memory_mb", 0)) if row.id in allocated else 0,
                selected[row.id].is_metered,
                selected[row.id].traceparent,
            )
            for row in rows
        ]

    async def _end_session(self, up: SyncUp, acknowledged: list[int]) -> SyncDown:
        now = self._clock.now()
        decide = task_state_machine.return_execution("its node left", now, self._rng)
        applied = await self._store.end_session(up.node, up.session, NodeStatus.OFFLINE, decide, now)
        if applied is not None:
            await publish_hints(self._broker, applied)
        return SyncDown(SyncVerdict.OK, acknowledged=acknowledged)

    async def _renew(self, renewals: list[Renewal]) -> Sequence[Renewed]:
        return await self._store.renew_leases(renewals, self._clock.now())

    async def _read_held(self, nodes: list[NodeId]) -> Sequence[list[LiveTask]]:
        held = await self._store.held_tasks(nodes)
        return [held[node] for node in nodes]

    async def _write_starts(self, starts: list[tuple[NodeId, StartBody]]) -> Sequence[None]:
        now = self._clock.now()
        starts_by_task: dict[TaskId, list[task_state_machine.ExecutionStart]] = {}
        for node, body in starts:
            if is_storable(body.task, body.execution):
                started_at = started_before(now, body.started_ms_ago)
                start = task_state_machine.ExecutionStart(
                    node, body.execution, now if started_at is None else started_at
                )
                starts_by_task.setdefault(body.task, []).append(start)
        await self._store.change_tasks(list(starts_by_task), _start_live_execution(starts_by_task), now)
        return [None] * len(starts)


def _start_live_execution(
    starts_by_task: Mapping[TaskId, Sequence[task_state_machine.ExecutionStart]],
) -> DecideTransition:
    """Decide each task by the start of its live execution; the fence refuses starts of any other execution."""

    def decide(row: LiveTask, policy: RetryPolicy) -> TaskTransition | Refusal:
        starts = starts_by_task[row.id]
        start = next((start for start in starts if start.execution == row.execution), starts[0])
        return task_state_machine.start_execution({row.id: start})(row, policy)

    return decide


def _is_older(first: SyncUp, second: SyncUp) -> bool:
    return (first.session, first.number) < (second.session, second.number)


def _verdict(renewed: Renewed) -> SyncVerdict | None:
    if renewed.is_removed:
        return SyncVerdict.REMOVED
    if not renewed.is_open:
        return SyncVerdict.SESSION_ENDED
    return None if renewed.is_newest else SyncVerdict.STALE_NUMBER


def _has_content(down: SyncDown, up: SyncUp) -> bool:
    wants_drain = (down.drain_ms is not None) != up.is_draining and not up.is_departing
    wants_slots = down.slots is not None and down.slots != up.slots
    has_orders = down.assignments or down.recalls or down.stops or down.acknowledged
    has_settings = down.config is not None or down.grants is not None
    return bool(has_orders) or has_settings or wants_drain or wants_slots


def _drain_ms(renewed: Renewed, now: Instant) -> int | None:
    if renewed.status is not NodeStatus.MAINTENANCE:
        return None
    return max(0, renewed.drain_by - now) if renewed.drain_by is not None else 0


def _measurement(body: MeasurementBody) -> Measurement:
    return Measurement(
        body.cpu,
        body.memory,
        body.disk,
        body.load,
        body.network_in_bps,
        body.network_out_bps,
        body.gpu,
        body.running,
        body.error_rate,
        body.start_latency_s,
        tuple(body.ends),
    )
