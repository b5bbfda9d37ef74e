"""How records are shown. Parameters and results pass through as the bytes they were stored as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from crawlfleet.model.execution import ExecutionRecord, Failure
from crawlfleet.model.ids import TaskId, execution_text, group_text, node_text, task_text
from crawlfleet.model.instants import Instant, from_text, to_text
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.status import ExecutionStatus, Recall, TaskStatus
from crawlfleet.model.task import TaskRecord
from crawlfleet.ports.task_store import Accepted, Applied
from crawlfleet.scheduling.explain.task import Explanation
from crawlfleet.wire.tasks import RetryBody, SpecBody

StatusWord = Literal[
    "pending", "waiting", "assigned", "processing", "retrying", "completed", "failed", "timeout", "cancelled"
]
Time = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
AnObject = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "object"})]

NULL = msgspec.Raw(b"null")
REFUSALS_SHOWN = 100
_USUAL = SpecBody()
_spec = msgspec.json.Decoder(SpecBody).decode


class ErrorView(msgspec.Struct, frozen=True):
    """What went wrong in an execution."""

    error_class: str = msgspec.field(name="class")
    message: str
    is_permanent: bool
    """A retry cannot help."""


class ResultView(msgspec.Struct, frozen=True):
    """What the execution that completed a task gave."""

    success: bool
    data: msgspec.Raw
    metrics: msgspec.Raw
    timestamp: Time | None
    items: int | msgspec.UnsetType = msgspec.UNSET
    """Of a crawl: how many there are in its results."""
    data_truncated: bool | msgspec.UnsetType = msgspec.UNSET
    """Of a crawl: `data` holds the first of them only."""
    notes: list[str] | msgspec.UnsetType = msgspec.UNSET


_IN_SHAPE = msgspec.json.Decoder(ResultView)


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A task, as it was submitted and as it stands."""

    id: str
    project_id: str | None
    workflow_id: str | None
    name: str | None
    task_type: str
    parameters: AnObject | msgspec.UnsetType = msgspec.UNSET
    """Where one task is shown, and in lists with `include=parameters`."""
    priority: int
    min_resources: dict[str, float]
    capabilities: dict[str, Any]
    cluster: str | None
    node_type: str | None
    schedule_strategy: str | None
    target_region: str | None
    require_region: bool
    content_features: dict[str, Any]
    categories: list[str]
    queue: str
    depends_on: list[str]
    group_id: str | None
    timeout_s: int
    retry: RetryBody
    preemptible: bool
    node_id: str | None
    """The only node that may run it."""
    status: StatusWord
    created_at: Time
    updated_at: Time
    run_at: Time | None
    """When it was to start at the earliest, as it was submitted."""
    due_at: Time | None
    """When it starts, or is tried again, at the earliest."""
    assigned_node: str | None
    assigned_at: Time | None
    started_at: Time | None
    completed_at: Time | None
    """When it ended, however it did."""
    execution_id: str | None
    retry_count: int
    max_retries: int
    losses: int
    """Executions lost with their node: they cost no retry."""
    round: int
    """Which time around it is: each retry by a person begins another."""
    recall: str | None
    """Why its node was asked to stop it."""
    reason: str | None
    """Why it ended as it did."""
    result: ResultView | msgspec.UnsetType | None = msgspec.UNSET
    """Only where one task is shown."""
    error: ErrorView | msgspec.UnsetType | None = msgspec.UNSET
    """Of the last execution that failed; only where one task is shown."""
    progress: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """How far it is while it runs, in its executor's own figures; null before it told any. Only where one task is
    shown."""


class TaskPageView(msgspec.Struct, frozen=True, omit_defaults=True):
    tasks: list[TaskView]
    next_cursor: str | None
    """Ask again with it as `cursor`; null at the end. A page may be shorter than `limit` before it: one of large tasks,
    and one of a search, which may even be empty."""
    searched_back_to: Time | None = None
    """Where a search stopped looking for this page: tasks created before are found on the next ones."""


class AcceptedView(msgspec.Struct, frozen=True):
    """A task that was stored."""

    id: str
    status: StatusWord
    created_at: Time
    priority: int


class RefusedItem(msgspec.Struct, frozen=True):
    code: str
    detail: str
    field: str | None


class RefusedView(msgspec.Struct, frozen=True):
    """A task that was not."""

    error: RefusedItem


class StatsView(msgspec.Struct, frozen=True):
    total: int
    by_status: dict[str, int]


class ExecutionView(msgspec.Struct, frozen=True):
    """One attempt at a task on one node."""

    id: str
    task_id: str
    node_id: str
    status: str
    """While it lives, its task's."""
    start_time: Time | None
    end_time: Time | None
    metrics: msgspec.Raw
    assigned_at: Time
    round: int
    retry: int
    retry_count: int
    """The same: how many retries its task had used before it."""
    session: int
    result: msgspec.Raw
    error: ErrorView | None
    progress: msgspec.Raw
    """Of one that runs: its executor's own figures; null before it told any."""


class ExecutionsView(msgspec.Struct, frozen=True):
    executions: list[ExecutionView]
    next_cursor: str | None = None
    """Ask again with it as `cursor`; null at the end."""


class ChangedView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task after what was asked."""

    id: str
    status: StatusWord
    is_requested: bool = False
    """Its node was asked to stop; it is final when the node has, or its lease has ended."""
    priority: int | None = None
    assigned_node: str | None = None


class WhyView(msgspec.Struct, frozen=True):
    """Why a task is where it is. What the cause is about follows, by cause."""

    id: str
    sentence: str
    status: StatusWord
    cause: str


class RefusalView(msgspec.Struct, frozen=True):
    id: str
    code: str
    detail: str


class BulkView(msgspec.Struct, frozen=True):
    """What was done to many tasks."""

    changed: int
    by_status: dict[str, int]
    """Their statuses after it."""
    refused: int
    refusals: list[RefusalView]
    """The first of them."""
    next_cursor: str | None
    """More than one call does: ask again with it as `cursor`."""


def task_view(
    record: TaskRecord,
    executions: Sequence[ExecutionRecord] | None = None,
    progress: bytes | None = None,
    *,
    with_parameters: bool = True,
) -> TaskView:
    """With the executions, the result or the error too."""
    spec = task_spec(record)
    return TaskView(
        id=task_text(record.id),
        project_id=record.project or None,
        workflow_id=record.workflow,
        name=record.name,
        task_type=record.task_type,
        priority=record.priority,
        parameters=msgspec.Raw(record.parameters) if with_parameters else msgspec.UNSET,
        min_resources=spec.min_resources,
        capabilities=spec.capabilities,
        cluster=spec.cluster,
        node_type=spec.node_type,
        schedule_strategy=spec.schedule_strategy,
        target_region=spec.target_region,
        require_region=spec.require_region,
        content_features=spec.content_features,
        categories=spec.categories,
        queue=record.queue,
        depends_on=spec.depends_on,
        timeout_s=record.timeout_s,
        retry=spec.retry,
        group_id=None if record.group is None else group_text(record.group),
        preemptible=spec.preemptible,
        node_id=spec.node_id,
        status=_status_word(record.status),
        created_at=to_text(record.created_at),
        updated_at=to_text(updated_at(record, executions or ())),
        due_at=instant_text(record.due_at),
        run_at=None if spec.run_at is None else to_text(from_text(spec.run_at)),
        assigned_node=None if record.node is None else node_text(record.node),
        assigned_at=instant_text(record.assigned_at),
        started_at=instant_text(record.started_at),
        completed_at=instant_text(record.ended_at),
        execution_id=None if record.execution is None else execution_text(record.execution),
        retry_count=record.retries,
        max_retries=spec.retry.max_retries,
        losses=record.losses,
        round=record.round,
        recall=None if record.recall is Recall.NONE else record.recall.word,
        reason=record.reason,
        result=msgspec.UNSET if executions is None else _result_json(record, executions),
        error=msgspec.UNSET if executions is None else last_error(record, executions),
        progress=msgspec.UNSET if executions is None else _raw_json(progress),
    )


def task_spec(record: TaskRecord) -> SpecBody:
    return _USUAL if record.spec is None else _spec(record.spec)


def updated_at(record: TaskRecord, executions: Sequence[ExecutionRecord]) -> Instant:
    """Return the instant of the newest change of a task."""
    instants = (record.created_at, record.assigned_at, record.started_at, record.ended_at)
    ends = (execution.ended_at for execution in executions)
    return max(instant for instant in (*instants, *ends) if instant is not None)


def with_result(view: TaskView, result: bytes | None) -> TaskView:
    """One that ended without an execution of its own."""
    if result is None:
        return view
    is_completed = view.status == "completed"
    given = ResultView(is_completed, msgspec.Raw(result), NULL, view.completed_at)
    return msgspec.structs.replace(view, result=given)


def _result_json(record: TaskRecord, executions: Sequence[ExecutionRecord]) -> ResultView | None:
    for execution in executions:
        if execution.id == record.execution and execution.status is ExecutionStatus.COMPLETED:
            return _in_shape(execution.result) or ResultView(
                True, _raw_json(execution.result), _raw_json(execution.metrics), instant_text(execution.ended_at)
            )
    return None


def last_result(record: TaskRecord, executions: Sequence[ExecutionRecord]) -> bytes | None:
    """Return what the execution that completed the task returned, as its executor gave it."""
    return next(
        (
            execution.result
            for execution in executions
            if execution.id == record.execution and execution.status is ExecutionStatus.COMPLETED
        ),
        None,
    )


def _in_shape(result: bytes | None) -> ResultView | None:
    """An executor that gives the whole of it itself, as a crawl does, is not wrapped once more."""
    try:
        return _IN_SHAPE.decode(result or b"")
    except msgspec.MsgspecError:
        return None


def last_error(record: TaskRecord, executions: Sequence[ExecutionRecord]) -> ErrorView | None:
    """Return the error of the last execution that failed in this round; None for a task that completed."""
    if record.status is TaskStatus.COMPLETED:
        return None
    failures = [
        execution.failure
        for execution in executions
        if execution.round == record.round and execution.failure is not None
    ]
    return error_view(failures[-1]) if failures else None


def execution_view(execution: ExecutionRecord, live_status: TaskStatus, progress: bytes | None = None) -> ExecutionView:
    status = live_status.word if execution.status is None else execution.status.word
    return ExecutionView(
        execution_text(execution.id),
        task_text(execution.task),
        node_text(execution.node),
        status,
        instant_text(execution.started_at),
        instant_text(execution.ended_at),
        _raw_json(execution.metrics),
        to_text(execution.assigned_at),
        execution.round,
        execution.retry,
        execution.retry,
        execution.session,
        _raw_json(execution.result),
        error_view(execution.failure),
        _raw_json(progress),
    )


def accepted_view(item: Accepted) -> AcceptedView:
    task, status, created_at, priority = item
    return AcceptedView(task_text(task), _WORDS[status], to_text(created_at), priority)


def item_view(item: Accepted | Refusal) -> AcceptedView | RefusedView:
    if isinstance(item, Refusal):
        return RefusedView(RefusedItem(str(item.code), item.detail, item.field))
    return accepted_view(item)


def stats_view(totals: Mapping[TaskStatus, int]) -> StatsView:
    return StatsView(sum(totals.values()), {status.word: totals.get(status, 0) for status in TaskStatus})


def changed_view(task: TaskId, applied: Applied, **more: Any) -> ChangedView:
    return ChangedView(task_text(task), _status_word(applied.after[task]), **more)


def why_view(task: TaskId, why: Explanation) -> dict[str, Any]:
    return {"id": task_text(task), "sentence": why.sentence, **why.data}


def error_view(failure: Failure | None) -> ErrorView | None:
    return None if failure is None else ErrorView(failure.error.word, failure.message, failure.is_permanent)


def _raw_json(content: bytes | None) -> msgspec.Raw:
    return NULL if content is None else msgspec.Raw(content)


def instant_text(instant: Instant | None) -> str | None:
    return None if instant is None else to_text(instant)


def _status_word(status: TaskStatus) -> StatusWord:
    return _WORDS[status]


_WORDS: dict[TaskStatus, StatusWord] = {status: status.word for status in TaskStatus}  # type: ignore[misc]
