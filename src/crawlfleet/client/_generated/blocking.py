"""The blocking face of the client. Written by scripts/generate_client.py from the async one: do not edit."""

# ruff: noqa
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from crawlfleet.client._generated.models import (
    AcceptedView,
    AcknowledgedView,
    AlertList,
    AuditView,
    BulkView,
    CauseView,
    ChangedView,
    ChannelList,
    ChannelView,
    ClusterView,
    ConfigView,
    CookieJarView,
    CountersRepaired,
    CrawlResult,
    DeadLetterDetail,
    DeadLetterView,
    DeliveryView,
    DoctorView,
    EventPage,
    EventView,
    ExecutionView,
    FlowChangedView,
    FlowDetail,
    FlowView,
    ForgivenView,
    FullConfigView,
    GroupOutcome,
    GroupView,
    HeartbeatHistory,
    HostDetail,
    HostHistory,
    HostView,
    IssuedTokenView,
    LogLevelView,
    MasterView,
    NodeView,
    NodesCleaned,
    NoticePage,
    PreviewView,
    ProductDetail,
    ProductView,
    ProjectView,
    ProxyView,
    QualityView,
    QueueOrder,
    QueueSizesView,
    QueueState,
    QueueView,
    ReadyRepaired,
    ResultPage,
    ResultsChecked,
    ResultsCleaned,
    RetentionCleaned,
    RuleView,
    ScheduleView,
    SilenceView,
    StatsView,
    TaskPageView,
    TaskTypeView,
    TaskView,
    TasksCleaned,
    TokenView,
    UsageView,
)
from crawlfleet.client.transport.loop_thread import Background
from crawlfleet.client.types import (
    BatchItem,
    BatchMode,
    ExportFormat,
    ExportKind,
    Fields,
    LogLevel,
    LogLine,
    OnBytes,
    OnGroup,
    OnLook,
    OnProgress,
    OnWhy,
    Role,
    SavedExport,
    Status,
    Why,
)
from pathlib import Path
from typing import Any, Literal, overload


class Client(Background):
    """Call an installation from code that knows nothing of asyncio: the methods of `AsyncClient`, each of which
    returns when it is done. One thread with one event loop serves all of them."""

    def submit(
        self, task_type: str, parameters: Fields | None = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> AcceptedView:
        """One task; `fields` are the others of a task: project_id, priority, queue, timeout_s, retry, ...
        Answered once it is stored; a retry of a lost answer never makes a second task."""
        return self._run_call(self._client.submit(task_type, parameters, idempotency_key=idempotency_key, **fields))

    @overload
    def submit_batch(
        self, tasks: Iterable[Fields], mode: Literal["atomic"] = "atomic", *, on_progress: OnProgress | None = None
    ) -> Sequence[AcceptedView]: ...

    @overload
    def submit_batch(
        self, tasks: Iterable[Fields], mode: Literal["each"], *, on_progress: OnProgress | None = None
    ) -> Sequence[BatchItem]: ...

    def submit_batch(
        self, tasks: Iterable[Fields], mode: BatchMode = "atomic", *, on_progress: OnProgress | None = None
    ) -> Sequence[Any]:
        """Many tasks, answered in order. `atomic`: all of them or none (up to 10,000). `each`: those that are right,
        any number, with a `RefusedView` for each of the others."""
        return self._run_call(self._client.submit_batch(tasks, mode, on_progress=on_progress))

    def get(self, task_id: str) -> TaskView:
        return self._run_call(self._client.get(task_id))

    def list(
        self,
        *,
        status: Status = None,
        project_id: str | None = None,
        workflow_id: str | None = None,
        type: str | None = None,
        queue: str | None = None,
        node: str | None = None,
        q: str | None = None,
        group: str | None = None,
        limit: int | None = None,
        include: Status = None,
    ) -> Iterator[TaskView]:
        """Newest first, page after page; at most `limit` of them. With `include="parameters"` each with its own."""
        return self._iterate_stream(
            self._client.list(
                status=status,
                project_id=project_id,
                workflow_id=workflow_id,
                type=type,
                queue=queue,
                node=node,
                q=q,
                group=group,
                limit=limit,
                include=include,
            )
        )

    def page(
        self,
        *,
        status: Status = None,
        project_id: str | None = None,
        workflow_id: str | None = None,
        type: str | None = None,
        queue: str | None = None,
        node: str | None = None,
        q: str | None = None,
        group: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        include: Status = None,
    ) -> TaskPageView:
        """One page, with the cursor of the next."""
        return self._run_call(
            self._client.page(
                status=status,
                project_id=project_id,
                workflow_id=workflow_id,
                type=type,
                queue=queue,
                node=node,
                q=q,
                group=group,
                limit=limit,
                cursor=cursor,
                include=include,
            )
        )

    def wait(
        self,
        ids: str | Iterable[str],
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        *,
        with_results: bool = True,
        on_look: OnLook | None = None,
    ) -> Sequence[TaskView]:
        """The tasks, in the order given (one id is a list of one), once all are final. `with_results=False` spares a
        call per task where only their statuses matter. `on_look` is called every second with each of a few tasks as it
        is. Raises WaitTimeout; the tasks themselves go on."""
        return self._run_call(self._client.wait(ids, timeout, on_progress, with_results=with_results, on_look=on_look))

    def cancel(self, task_id: str) -> ChangedView:
        return self._run_call(self._client.cancel(task_id))

    def retry(self, task_id: str) -> ChangedView:
        """The next round of a task that has ended."""
        return self._run_call(self._client.retry(task_id))

    def prioritize(self, task_id: str, priority: int) -> ChangedView:
        return self._run_call(self._client.prioritize(task_id, priority))

    def assign(self, task_id: str, node: str) -> ChangedView:
        """To a node of your choice, by its id, device id or name."""
        return self._run_call(self._client.assign(task_id, node))

    def cancel_many(
        self, *, ids: Sequence[str] | None = None, filter: Fields | None = None, cursor: str | None = None
    ) -> BulkView:
        """By ids or by filter (the words of `list`). More than one call does: go on with the answer's cursor."""
        return self._run_call(self._client.cancel_many(ids=ids, filter=filter, cursor=cursor))

    def retry_many(
        self, *, ids: Sequence[str] | None = None, filter: Fields | None = None, cursor: str | None = None
    ) -> BulkView:
        return self._run_call(self._client.retry_many(ids=ids, filter=filter, cursor=cursor))

    def prioritize_many(
        self,
        priority: int,
        *,
        ids: Sequence[str] | None = None,
        filter: Fields | None = None,
        cursor: str | None = None,
    ) -> BulkView:
        return self._run_call(self._client.prioritize_many(priority, ids=ids, filter=filter, cursor=cursor))

    def assign_many(
        self, node: str, *, ids: Sequence[str] | None = None, filter: Fields | None = None, cursor: str | None = None
    ) -> BulkView:
        """To a node of your choice, as many as it has room for; a filter without a status means those pending."""
        return self._run_call(self._client.assign_many(node, ids=ids, filter=filter, cursor=cursor))

    def why(self, task_id: str) -> Why:
        return self._run_call(self._client.why(task_id))

    def executions(self, task_id: str) -> Sequence[ExecutionView]:
        """Every attempt, oldest first."""
        return self._run_call(self._client.executions(task_id))

    def stats(self, project_id: str | None = None) -> StatsView:
        return self._run_call(self._client.stats(project_id))

    def task_types(self) -> Sequence[TaskTypeView]:
        return self._run_call(self._client.task_types())

    def results(self, task_id: str) -> Iterator[Any]:
        """The items of a task, page after page; of a running one, those that are there."""
        return self._iterate_stream(self._client.results(task_id))

    def result_page(self, task_id: str, *, limit: int = 100, cursor: str | None = None) -> ResultPage:
        return self._run_call(self._client.result_page(task_id, limit=limit, cursor=cursor))

    def log(
        self,
        task_id: str,
        *,
        follow: bool = False,
        execution: str | None = None,
        level: LogLevel | None = None,
        q: str | None = None,
        tail: int | None = None,
    ) -> Iterator[LogLine]:
        """The log of the newest execution, or of the one named; with `follow` until that is over. `level` and above,
        with `q` in them, and with `tail` only the last so many of what is there."""
        return self._iterate_stream(
            self._client.log(task_id, follow=follow, execution=execution, level=level, q=q, tail=tail)
        )

    def export(
        self,
        task_id: str,
        *,
        format: ExportFormat = "jsonl",
        bom: bool = False,
        guard: bool = False,
        kind: ExportKind = "items",
    ) -> Iterator[bytes]:
        """The items of a task as a file, as it comes. `bom` and `guard` are for CSV: the mark that Excel knows UTF-8
        by, and an apostrophe before texts that a spreadsheet would run. `kind`: without the notes that crawls keep of
        pages, only those (`pages`), or both (`all`)."""
        return self._iterate_stream(self._client.export(task_id, format=format, bom=bom, guard=guard, kind=kind))

    def export_group(
        self,
        group_id: str,
        *,
        format: ExportFormat = "jsonl",
        partial: bool = False,
        bom: bool = False,
        guard: bool = False,
        kind: ExportKind = "items",
    ) -> Iterator[bytes]:
        """The items of all members as a file, as it comes. Refused (409) while members are missing, unless
        `partial`."""
        return self._iterate_stream(
            self._client.export_group(group_id, format=format, partial=partial, bom=bom, guard=guard, kind=kind)
        )

    def save_export(
        self,
        task_id: str,
        path: Path,
        *,
        format: ExportFormat = "jsonl",
        bom: bool = False,
        guard: bool = False,
        kind: ExportKind = "items",
        on_bytes: OnBytes | None = None,
    ) -> SavedExport:
        """`export` into a file, which has its name only once all of it is there. A broken connection is begun again
        from the first byte. `on_bytes` is called with how many have come."""
        return self._run_call(
            self._client.save_export(task_id, path, format=format, bom=bom, guard=guard, kind=kind, on_bytes=on_bytes)
        )

    def save_group_export(
        self,
        group_id: str,
        path: Path,
        *,
        format: ExportFormat = "jsonl",
        partial: bool = False,
        bom: bool = False,
        guard: bool = False,
        kind: ExportKind = "items",
        on_bytes: OnBytes | None = None,
    ) -> SavedExport:
        """`export_group` into a file, as `save_export` does."""
        return self._run_call(
            self._client.save_group_export(
                group_id, path, format=format, partial=partial, bom=bom, guard=guard, kind=kind, on_bytes=on_bytes
            )
        )

    def quality(self, task_id: str, *, kind: ExportKind = "items") -> QualityView:
        """Which fields of a task's items are filled and with what, items per page, and duplicates."""
        return self._run_call(self._client.quality(task_id, kind=kind))

    def group_quality(self, group_id: str, *, partial: bool = False, kind: ExportKind = "items") -> QualityView:
        """The same over the items of all members."""
        return self._run_call(self._client.group_quality(group_id, partial=partial, kind=kind))

    def create_group(
        self,
        tasks: Iterable[Fields] = (),
        *,
        name: str | None = None,
        project_id: str | None = None,
        is_closed: bool = False,
        idempotency_key: str | None = None,
    ) -> GroupView:
        """A group with its first tasks (up to 10,000), all of it or nothing. More may join while it is open: submit
        them with `group_id`."""
        return self._run_call(
            self._client.create_group(
                tasks, name=name, project_id=project_id, is_closed=is_closed, idempotency_key=idempotency_key
            )
        )

    def shard(
        self,
        task_type: str,
        parameters: Fields,
        *,
        over: str,
        size: int | None = None,
        count: int | None = None,
        name: str | None = None,
        project_id: str | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> GroupView:
        """A task split into shards: the list at the parameter `over`, by `size` values each or into `count` shards.
        `fields` are the others of a task: priority, queue, timeout_s, retry, ..."""
        return self._run_call(
            self._client.shard(
                task_type,
                parameters,
                over=over,
                size=size,
                count=count,
                name=name,
                project_id=project_id,
                idempotency_key=idempotency_key,
                **fields,
            )
        )

    def crawl(
        self,
        urls: str | Iterable[str],
        parameters: Fields | None = None,
        *,
        members: int,
        name: str | None = None,
        project_id: str | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> GroupView:
        """One crawl over many nodes, from one URL or several: as many tasks as `members` take part in it, and each page
        is read once. `parameters` are those of a web_crawl (depth, max_pages, selectors, ...), of the whole; `fields`
        are the others of its tasks."""
        return self._run_call(
            self._client.crawl(
                urls,
                parameters,
                members=members,
                name=name,
                project_id=project_id,
                idempotency_key=idempotency_key,
                **fields,
            )
        )

    def crawl_result(self, group_id: str, *, partial: bool = False) -> CrawlResult:
        """What a crawl over many nodes found, as one: the first items and the figures of the whole."""
        return self._run_call(self._client.crawl_result(group_id, partial=partial))

    def group(self, group_id: str) -> GroupView:
        """With its progress, exact at this moment, and the first of its failures."""
        return self._run_call(self._client.group(group_id))

    def group_why(self, group_id: str) -> Why:
        """What holds up its members that have not ended."""
        return self._run_call(self._client.group_why(group_id))

    def groups(
        self, *, project_id: str | None = None, kind: str | None = None, limit: int | None = None
    ) -> Iterator[GroupView]:
        """Newest first, page after page."""
        return self._iterate_stream(self._client.groups(project_id=project_id, kind=kind, limit=limit))

    def wait_group(
        self,
        group_id: str,
        timeout: float | None = None,
        on_look: OnGroup | None = None,
        on_still: OnWhy | None = None,
        on_why: OnWhy | None = None,
    ) -> GroupView:
        """The group once every member has ended. `on_look` is called with it about every second, while it stands still
        `on_still` with why, and `on_why` every few seconds with what holds its members up. Raises WaitTimeout; the
        group itself goes on."""
        return self._run_call(self._client.wait_group(group_id, timeout, on_look, on_still, on_why))

    def close_group(self, group_id: str) -> GroupView:
        """Let no other tasks join."""
        return self._run_call(self._client.close_group(group_id))

    def cancel_group(self, group_id: str) -> BulkView:
        """Every member that has not ended; no other task may join any more."""
        return self._run_call(self._client.cancel_group(group_id))

    def retry_group(self, group_id: str, *, status: Status = None) -> BulkView:
        """Only the members that failed or took too long, or that ended as `status` says: failed, timeout, cancelled."""
        return self._run_call(self._client.retry_group(group_id, status=status))

    def remove_group(self, group_id: str) -> None:
        """Forget a finished group, with its tasks and everything they left."""
        return self._run_call(self._client.remove_group(group_id))

    def group_items(self, group_id: str, *, partial: bool = False) -> Iterator[Any]:
        """The items of all members as one list, in the order of the members. Refused (409) while members are missing,
        unless `partial`."""
        return self._iterate_stream(self._client.group_items(group_id, partial=partial))

    def group_outcomes(self, group_id: str) -> Iterator[GroupOutcome]:
        """What became of each member, with the results of those that completed, in order."""
        return self._iterate_stream(self._client.group_outcomes(group_id))

    def submit_flow(
        self,
        steps: Mapping[str, Fields],
        *,
        name: str | None = None,
        project_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> FlowDetail:
        """A whole graph, or nothing of it: `{"list": {"task": {...}}, "each": {"task": {...}, "after": ["list"],
        "for_each": "steps.list.result.urls"}}`."""
        return self._run_call(
            self._client.submit_flow(steps, name=name, project_id=project_id, idempotency_key=idempotency_key)
        )

    def flow(self, flow_id: str) -> FlowDetail:
        return self._run_call(self._client.flow(flow_id))

    def flows(self, *, project_id: str | None = None, limit: int | None = None) -> Iterator[FlowView]:
        """Newest first, page after page."""
        return self._iterate_stream(self._client.flows(project_id=project_id, limit=limit))

    def wait_flow(
        self, flow_id: str, timeout_s: float | None = None, on_look: Callable[[FlowDetail], None] | None = None
    ) -> FlowDetail:
        """The flow once nothing of it runs. Raises WaitTimeout."""
        return self._run_call(self._client.wait_flow(flow_id, timeout_s, on_look))

    def cancel_flow(self, flow_id: str) -> FlowChangedView:
        """Every task of it that has not ended."""
        return self._run_call(self._client.cancel_flow(flow_id))

    def resume_flow(self, flow_id: str) -> FlowChangedView:
        """Run again what ended badly, and what could not run because of it; what completed stays."""
        return self._run_call(self._client.resume_flow(flow_id))

    def drop_flow(self, flow_id: str) -> None:
        """Forget a flow that has ended, with its tasks and their history."""
        return self._run_call(self._client.drop_flow(flow_id))

    def create_schedule(
        self,
        task: Fields,
        *,
        at: str | None = None,
        every_s: int | None = None,
        cron: str | None = None,
        time_zone: str | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> ScheduleView:
        """Submit the task, `{"task_type": ..., "parameters": ...}` as in a batch, `at` a time, `every_s` seconds, or by
        `cron` in a `time_zone`: one of the three. `fields` are the others of a schedule: name, starts_at, ends_at,
        jitter_s, catch_up, overlap, is_paused."""
        return self._run_call(
            self._client.create_schedule(
                task, at=at, every_s=every_s, cron=cron, time_zone=time_zone, idempotency_key=idempotency_key, **fields
            )
        )

    def schedules(
        self,
        *,
        project_id: str | None = None,
        task_type: str | None = None,
        is_paused: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[ScheduleView]:
        """Newest first, page after page."""
        return self._iterate_stream(
            self._client.schedules(project_id=project_id, task_type=task_type, is_paused=is_paused, limit=limit)
        )

    def schedule(self, schedule_id: str) -> ScheduleView:
        """With its next runs, and what became of its last ones."""
        return self._run_call(self._client.schedule(schedule_id))

    def change_schedule(self, schedule_id: str, **fields: Any) -> ScheduleView:
        """Only what is named: `cron`, `time_zone`, `overlap`, `task` (the whole template), ..."""
        return self._run_call(self._client.change_schedule(schedule_id, **fields))

    def pause_schedule(self, schedule_id: str) -> ScheduleView:
        return self._run_call(self._client.pause_schedule(schedule_id))

    def resume_schedule(self, schedule_id: str) -> ScheduleView:
        """From now on: what passed by meanwhile is not caught up."""
        return self._run_call(self._client.resume_schedule(schedule_id))

    def run_schedule(
        self, schedule_id: str, *, force: bool = False, idempotency_key: str | None = None
    ) -> AcceptedView:
        """A task now, outside of its ticks; with `force` also while another one of it goes on."""
        return self._run_call(self._client.run_schedule(schedule_id, force=force, idempotency_key=idempotency_key))

    def remove_schedule(self, schedule_id: str) -> None:
        """Tasks that it made stay."""
        return self._run_call(self._client.remove_schedule(schedule_id))

    def nodes(self, *, cluster: str | None = None, status: str | None = None) -> Sequence[NodeView]:
        return self._run_call(self._client.nodes(cluster=cluster, status=status))

    def node(self, node_id: str) -> NodeView:
        """By its id or device id."""
        return self._run_call(self._client.node(node_id))

    def node_history(
        self, node_id: str, *, since: str | None = None, until: str | None = None, limit: int | None = None
    ) -> HeartbeatHistory:
        """What it measured: one sample a minute, the newest so many, oldest first."""
        return self._run_call(self._client.node_history(node_id, since=since, until=until, limit=limit))

    def drain(self, node_id: str, *, within_s: float = 300.0) -> NodeView:
        """No new work; what still runs after `within_s` is handed back."""
        return self._run_call(self._client.drain(node_id, within_s=within_s))

    def ready(self, node_id: str) -> NodeView:
        """It takes work again, and its health is judged anew."""
        return self._run_call(self._client.ready(node_id))

    def set_slots(self, node_id: str, slots: int | Literal["auto"] | None) -> NodeView:
        """How much it runs at once; `auto`: as its load allows; None: as its cluster says, or else the node itself."""
        return self._run_call(self._client.set_slots(node_id, slots))

    def remove_node(self, node_id: str) -> None:
        """Its secret is revoked; its history stays."""
        return self._run_call(self._client.remove_node(node_id))

    def clusters(self) -> Sequence[ClusterView]:
        return self._run_call(self._client.clusters())

    def cluster(self, name: str = "default") -> ClusterView:
        return self._run_call(self._client.cluster(name))

    def put_cluster(self, name: str, **fields: Any) -> ClusterView:
        """Make it, or change its status, description or project."""
        return self._run_call(self._client.put_cluster(name, **fields))

    def remove_cluster(self, name: str) -> None:
        """Remove it with its configuration; refused while a node is in it or an open task names it."""
        return self._run_call(self._client.remove_cluster(name))

    def usage(self, name: str = "default") -> UsageView:
        return self._run_call(self._client.usage(name))

    def config(self, cluster: str = "default") -> FullConfigView:
        return self._run_call(self._client.config(cluster))

    def put_config(
        self, values: Fields, cluster: str = "default", *, expected_version: int | None = None
    ) -> FullConfigView:
        """All values the cluster has of its own; with `expected_version` refused when another change was quicker."""
        return self._run_call(self._client.put_config(values, cluster, expected_version=expected_version))

    def config_history(self, cluster: str = "default") -> Sequence[ConfigView]:
        return self._run_call(self._client.config_history(cluster))

    def dead_letters(
        self, *, cause: str | None = None, project_id: str | None = None, limit: int | None = None
    ) -> Iterator[DeadLetterView]:
        """Newest first, page after page."""
        return self._iterate_stream(self._client.dead_letters(cause=cause, project_id=project_id, limit=limit))

    def dead_letter_groups(self, *, project_id: str | None = None) -> Sequence[CauseView]:
        """By cause, the most frequent first."""
        return self._run_call(self._client.dead_letter_groups(project_id=project_id))

    def dead_letter(self, task_id: str) -> DeadLetterDetail:
        return self._run_call(self._client.dead_letter(task_id))

    def replay(self, task_id: str) -> ChangedView:
        """The next round of its task."""
        return self._run_call(self._client.replay(task_id))

    def replay_many(self, *, ids: Sequence[str] | None = None, cause: str | None = None) -> BulkView:
        return self._run_call(self._client.replay_many(ids=ids, cause=cause))

    def drop_many(self, *, ids: Sequence[str] | None = None, cause: str | None = None) -> BulkView:
        """Forget them, with their tasks and their history."""
        return self._run_call(self._client.drop_many(ids=ids, cause=cause))

    def drop_dead_letter(self, task_id: str) -> None:
        """Forget it, with its task and its history."""
        return self._run_call(self._client.drop_dead_letter(task_id))

    def queues(self) -> Sequence[QueueView]:
        return self._run_call(self._client.queues())

    def queue_sizes(self) -> QueueSizesView:
        """How many tasks wait in each priority class, and how many wait for a retry."""
        return self._run_call(self._client.queue_sizes())

    def pause(self, queue: str) -> QueueState:
        """Its tasks are kept and not placed; what runs goes on."""
        return self._run_call(self._client.pause(queue))

    def resume(self, queue: str) -> QueueState:
        return self._run_call(self._client.resume(queue))

    def pause_many(self, queues: Sequence[str]) -> Sequence[QueueState]:
        return self._run_call(self._client.pause_many(queues))

    def resume_many(self, queues: Sequence[str]) -> Sequence[QueueState]:
        return self._run_call(self._client.resume_many(queues))

    def set_order(self, queue: str, order: Literal["fifo", "lifo"]) -> QueueOrder:
        """Which of its tasks are placed first: those that came first, or those that came last."""
        return self._run_call(self._client.set_order(queue, order))

    def clean_up_retention(self, *, apply: bool = False, cursor: str | None = None) -> RetentionCleaned:
        """Count what is past its retention; with `apply` remove a batch, and go on with `next_cursor`."""
        return self._run_call(self._client.clean_up_retention(apply=apply, cursor=cursor))

    def clean_up_tasks(
        self,
        older_than_s: float,
        *,
        status: Sequence[str] | None = None,
        project_id: str | None = None,
        task_type: str | None = None,
        apply: bool = False,
        cursor: str | None = None,
    ) -> TasksCleaned:
        """Look at the next thousand finished tasks; with `apply` remove those that the filter selects."""
        return self._run_call(
            self._client.clean_up_tasks(
                older_than_s, status=status, project_id=project_id, task_type=task_type, apply=apply, cursor=cursor
            )
        )

    def clean_up_results(self, *, apply: bool = False, cursor: str | None = None) -> ResultsCleaned:
        """Look at the next thousand files of results; with `apply` remove those that belong to no task."""
        return self._run_call(self._client.clean_up_results(apply=apply, cursor=cursor))

    def clean_up_nodes(self, gone_for_s: float, *, apply: bool = False) -> NodesCleaned:
        """Show the nodes that have been away for that span; with `apply` remove them."""
        return self._run_call(self._client.clean_up_nodes(gone_for_s, apply=apply))

    def repair_counters(self, *, apply: bool = False) -> CountersRepaired:
        """Count the tasks anew and compare them with the counters; with `apply` correct these."""
        return self._run_call(self._client.repair_counters(apply=apply))

    def repair_ready(self) -> ReadyRepaired:
        """Drop the ready index: the leader fills it again from the store."""
        return self._run_call(self._client.repair_ready())

    def check_results(self, cursor: str | None = None) -> ResultsChecked:
        """Look for missing chunks of the next thousand finished tasks."""
        return self._run_call(self._client.check_results(cursor))

    def masters(self) -> Sequence[MasterView]:
        """The masters that are alive, and silent ones that were not started again; the newest start first."""
        return self._run_call(self._client.masters())

    def doctor(self, only: Sequence[str] = ()) -> DoctorView:
        """The checks of the installation, made on the master: all, or those of these ids and areas."""
        return self._run_call(self._client.doctor(only))

    def projects(self) -> Sequence[ProjectView]:
        """Those that are described, and those that have open tasks; by name."""
        return self._run_call(self._client.projects())

    def project(self, name: str) -> ProjectView:
        return self._run_call(self._client.project(name))

    def put_project(self, name: str, **fields: Any) -> ProjectView:
        """Set its weight, max_waiting, max_running, cpu, memory_mb, pages_per_day, bytes_per_day or on_full; None takes
        a limit away."""
        return self._run_call(self._client.put_project(name, **fields))

    def reset_project(self, name: str) -> None:
        """It has the defaults again; its tasks stay."""
        return self._run_call(self._client.reset_project(name))

    def create_token(
        self, role: Role, *, name: str | None = None, uses: int | None = None, expires_in: str | None = None
    ) -> IssuedTokenView:
        """Its secret is in this answer and nowhere else. `expires_in`: 90s, 15m, 24h, 7d, 2w."""
        return self._run_call(self._client.create_token(role, name=name, uses=uses, expires_in=expires_in))

    def tokens(self) -> Sequence[TokenView]:
        return self._run_call(self._client.tokens())

    def rotate_token(self, token_id: int) -> IssuedTokenView:
        """The same token under another secret; the old one is over."""
        return self._run_call(self._client.rotate_token(token_id))

    def revoke_token(self, token_id: int) -> None:
        return self._run_call(self._client.revoke_token(token_id))

    def hosts(
        self,
        *,
        q: str | None = None,
        backing_off: bool | None = None,
        is_set: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[HostView]:
        """By name, page after page: those whose name contains `q`, are in back-off, have a budget of their own."""
        return self._iterate_stream(self._client.hosts(q=q, backing_off=backing_off, is_set=is_set, limit=limit))

    def host(self, name: str) -> HostDetail:
        """With who holds parts of its budget, who waits, and what was counted of it."""
        return self._run_call(self._client.host(name))

    def host_history(
        self,
        name: str,
        *,
        span: str = "minute",
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
    ) -> HostHistory:
        """What was counted of it by `minute` or `hour`, the newest so many points; `*` is all hosts together."""
        return self._run_call(self._client.host_history(name, span=span, since=since, until=until, limit=limit))

    def put_host(
        self, name: str, *, rate: float | None = None, concurrency: int | None = None, delay_s: float | None = None
    ) -> HostDetail:
        """Its budget over all nodes; what is left out has its default."""
        return self._run_call(self._client.put_host(name, rate=rate, concurrency=concurrency, delay_s=delay_s))

    def reset_host(self, name: str) -> HostDetail:
        """Back to the defaults."""
        return self._run_call(self._client.reset_host(name))

    def forgive_host(self, name: str) -> ForgivenView:
        """End its back-off now."""
        return self._run_call(self._client.forgive_host(name))

    def events(
        self,
        *,
        kinds: Sequence[str] = (),
        task: str | None = None,
        node: str | None = None,
        after: int | None = None,
        give_up_s: float | None = 60.0,
    ) -> Iterator[EventView]:
        """From now on, or after a number. `kinds` may be beginnings: `task.` is everything about tasks. A broken stream
        is resumed where it broke; after `give_up_s` without any master it ends in Unreachable (None: never)."""
        return self._iterate_stream(
            self._client.events(kinds=kinds, task=task, node=node, after=after, give_up_s=give_up_s)
        )

    def event_page(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        kinds: Sequence[str] = (),
        task: str | None = None,
        node: str | None = None,
    ) -> EventPage:
        """A page of the log, oldest first. With a filter it may be short, or empty, before the end of the log: that is
        where `next_after` is `last`."""
        return self._run_call(self._client.event_page(after=after, limit=limit, kinds=kinds, task=task, node=node))

    def audit(self, *, limit: int = 100) -> Sequence[AuditView]:
        """Who changed what, newest first."""
        return self._run_call(self._client.audit(limit=limit))

    def products(
        self,
        *,
        project_id: str | None = None,
        shop: str | None = None,
        product_id: str | None = None,
        changed_since: str | None = None,
        gone: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[ProductView]:
        """Page after page. `product_id` is the shop's own, `changed_since` an instant as text; `gone` shows only those
        that are gone, or only the others."""
        return self._iterate_stream(
            self._client.products(
                project_id=project_id,
                shop=shop,
                product_id=product_id,
                changed_since=changed_since,
                gone=gone,
                limit=limit,
            )
        )

    def product(self, id: str) -> ProductDetail:
        """With its last changes."""
        return self._run_call(self._client.product(id))

    def export_products(
        self,
        *,
        format: Literal["jsonl", "csv"] = "jsonl",
        project_id: str | None = None,
        shop: str | None = None,
        product_id: str | None = None,
        changed_since: str | None = None,
        gone: bool | None = None,
        bom: bool = False,
        guard: bool = False,
    ) -> Iterator[bytes]:
        """All of them as a file, as it comes."""
        return self._iterate_stream(
            self._client.export_products(
                format=format,
                project_id=project_id,
                shop=shop,
                product_id=product_id,
                changed_since=changed_since,
                gone=gone,
                bom=bom,
                guard=guard,
            )
        )

    def cookie_jars(self, project_id: str | None = None) -> Sequence[CookieJarView]:
        """By project and name; what is in them is not shown."""
        return self._run_call(self._client.cookie_jars(project_id))

    def remove_cookie_jar(self, name: str, project_id: str | None = None) -> None:
        """Forget the cookies in it: the next crawl that names it begins without any."""
        return self._run_call(self._client.remove_cookie_jar(name, project_id))

    def proxies(self, *, pool: str | None = None, is_up: bool | None = None) -> Sequence[ProxyView]:
        """Those that crawls have used, as each node last reported; `is_up` chooses those in use or those left out."""
        return self._run_call(self._client.proxies(pool=pool, is_up=is_up))

    def alerts(self, *, rule: str | None = None, status: str | None = None) -> AlertList:
        """Those that are not ok: `status` is pending, firing or recovering."""
        return self._run_call(self._client.alerts(rule=rule, status=status))

    def acknowledge_alert(self, rule: str, scope: str = "*", *, why: str = "") -> AcknowledgedView:
        """No more notices of it until it recovers."""
        return self._run_call(self._client.acknowledge_alert(rule, scope, why=why))

    def alert_rules(self) -> Sequence[RuleView]:
        return self._run_call(self._client.alert_rules())

    def alert_rule(self, name: str) -> RuleView:
        return self._run_call(self._client.alert_rule(name))

    def put_alert_rule(self, name: str, **fields: Any) -> RuleView:
        """Set its threshold, clear, for_s, keep_s, severity, channels, hours, least_samples, scope or is_enabled; None
        is the default again. A rule of one's own needs a kind."""
        return self._run_call(self._client.put_alert_rule(name, **fields))

    def preview_alert_rule(self, name: str, *, scope: str | None = None, **fields: Any) -> PreviewView:
        """When it would have fired in the last six hours, with these values in place of its own."""
        return self._run_call(self._client.preview_alert_rule(name, scope=scope, **fields))

    def reset_alert_rule(self, name: str) -> None:
        """It has its defaults again; a rule of one's own is removed."""
        return self._run_call(self._client.reset_alert_rule(name))

    def alert_channels(self) -> ChannelList:
        """The channels, and the kinds that there are with their fields."""
        return self._run_call(self._client.alert_channels())

    def put_alert_channel(
        self, name: str, kind: str, fields: Mapping[str, str], *, language: str = "en", is_enabled: bool = True
    ) -> ChannelView:
        return self._run_call(
            self._client.put_alert_channel(name, kind, fields, language=language, is_enabled=is_enabled)
        )

    def remove_alert_channel(self, name: str) -> None:
        return self._run_call(self._client.remove_alert_channel(name))

    def test_alert_channel(self, name: str) -> DeliveryView:
        """Send a test notice now; the answer has the service's own words."""
        return self._run_call(self._client.test_alert_channel(name))

    def silences(self, *, limit: int = 100) -> Sequence[SilenceView]:
        """Newest first, also those that are over."""
        return self._run_call(self._client.silences(limit=limit))

    def add_silence(
        self,
        matchers: Mapping[str, str],
        why: str,
        *,
        lasts: str | None = None,
        until_at: str | None = None,
        starts_at: str | None = None,
    ) -> SilenceView:
        """Alerts that all matchers match send nothing until `until_at`, or for as long as `lasts` says: 2h, 7d."""
        return self._run_call(
            self._client.add_silence(matchers, why, lasts=lasts, until_at=until_at, starts_at=starts_at)
        )

    def end_silence(self, silence_id: str) -> SilenceView:
        return self._run_call(self._client.end_silence(silence_id))

    def notices(
        self, *, limit: int = 100, cursor: str | None = None, channel: str | None = None, status: str | None = None
    ) -> NoticePage:
        """Newest first; `status` is due, delivered, merged or abandoned."""
        return self._run_call(self._client.notices(limit=limit, cursor=cursor, channel=channel, status=status))

    def log_level(self) -> LogLevelView:
        """The log level of the master that answers."""
        return self._run_call(self._client.log_level())

    def set_log_level(self, level: str | None) -> LogLevelView:
        """Of the master that answers alone, until it ends; None: as all masters have it."""
        return self._run_call(self._client.set_log_level(level))
