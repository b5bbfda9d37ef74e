"""Answers of the device dialect about tasks. Words for a task's status are ours, but `running` is a task that runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from crawlfleet.api.views.tasks import Time, instant_text, task_spec
from crawlfleet.control.nodes.pull import PulledTask
from crawlfleet.model.ids import NodeId, execution_text, node_text, task_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import TaskRecord

TaskWord = Literal[
    "pending", "waiting", "assigned", "running", "retrying", "completed", "failed", "timeout", "cancelled"
]
_RUNNING = "running"


class PulledTaskView(msgspec.Struct, frozen=True):
    """A task that the device has to run."""

    task_id: str
    execution_id: str
    """To be named with every report."""
    task_type: str
    params: Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "object"})]
    priority: int
    retry_count: int
    timeout: int
    """Seconds that it may run."""
    deadline_at: Time | None
    """When it is asked for at the latest."""


class PulledTasks(msgspec.Struct, frozen=True):
    tasks: list[PulledTaskView]
    """Highest priority first; empty when there is nothing to do."""
    next_pull_s: float
    """Seconds to wait before the next pull."""


class TaskReported(msgspec.Struct, frozen=True):
    task_id: str
    status: TaskWord
    """Of the task after the report: `retrying` when it is tried again."""
    accepted: bool


class DeviceAssigned(msgspec.Struct, frozen=True):
    task_id: str
    device_id: str
    execution_id: str
    status: TaskWord


class DeviceSubmitted(msgspec.Struct, frozen=True):
    task_id: str
    status: TaskWord
    created_at: Time


class DeviceTaskView(msgspec.Struct, frozen=True):
    """A task as it stands."""

    task_id: str
    task_name: str | None
    task_type: str
    project_id: str | None
    status: TaskWord
    priority: int
    device_id: str | None
    """The device that has it, or had it last."""
    execution_id: str | None
    retry_count: int
    max_retry_count: int
    timeout: int
    created_at: Time
    scheduled_at: Time | None
    """When it starts, or is tried again, at the earliest."""
    started_at: Time | None
    finished_at: Time | None
    error_message: str | None
    """Why it ended as it did, or waits."""


class DeviceTaskPage(msgspec.Struct, frozen=True):
    tasks: list[DeviceTaskView]
    next_cursor: str | None
    """Ask again with it as `cursor`; null at the end."""
    total: int | None
    """How many there are; null where only some are asked for."""


def device_task_view(record: TaskRecord, device_names: Mapping[NodeId, str]) -> DeviceTaskView:
    """`device_names` has the names of the devices that have tasks, or had them."""
    return DeviceTaskView(
        task_id=task_text(record.id),
        task_name=record.name,
        task_type=record.task_type,
        project_id=record.project or None,
        status=task_word(record.status),
        priority=record.priority,
        device_id=None if record.node is None else device_names.get(record.node, node_text(record.node)),
        execution_id=None if record.execution is None else execution_text(record.execution),
        retry_count=record.retries,
        max_retry_count=task_spec(record).retry.max_retries,
        timeout=record.timeout_s,
        created_at=to_text(record.created_at),
        scheduled_at=instant_text(record.due_at),
        started_at=instant_text(record.started_at),
        finished_at=instant_text(record.ended_at),
        error_message=record.reason,
    )


def task_word(status: TaskStatus) -> Any:
    """Return the dialect's word for a task's status."""
    return _RUNNING if status is TaskStatus.PROCESSING else status.word


def parse_task_word(word: str) -> TaskStatus:
    return TaskStatus.PROCESSING if word == _RUNNING else TaskStatus.of_word(word)


def pulled_task_view(task: PulledTask) -> PulledTaskView:
    row, delivery = task.row, task.delivery
    return PulledTaskView(
        task_text(row.id),
        execution_text(row.execution),
        delivery.task_type,
        msgspec.Raw(delivery.parameters),
        task.priority,
        row.retries,
        row.timeout_s,
        instant_text(row.deadline_at),
    )
