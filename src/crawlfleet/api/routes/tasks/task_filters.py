"""Which tasks: the same words in the query of a list and in the body of a bulk change."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from crawlfleet.api.http.parameters import Body, Label, Name, find_node_id, parse_cursor
from crawlfleet.api.http.services import Services
from crawlfleet.api.views.tasks import StatusWord
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.task_store import TaskFilter


def split_commas(value: Any) -> Any:
    """`status=failed,timeout` means what `status=failed&status=timeout` does."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        return value
    return [word for entry in value for word in (entry.split(",") if isinstance(entry, str) else [entry])]


class TaskWhere(Body):
    status: Annotated[list[StatusWord], BeforeValidator(split_commas)] = Field(
        default_factory=list, max_length=limits.LABELS
    )
    project_id: Name | None = None
    workflow_id: Name | None = None
    type: Label | None = None
    queue: Label | None = None
    group: Label | None = Field(None, description="A group's id.")
    node: Label | None = Field(None, description="A node's id, or its device id.")
    q: Annotated[Name, Field(min_length=1)] | None = Field(
        None, description="The beginning of a task's id or name, or a part of the host of its URL."
    )

    async def resolve_filter(self, services: Services, default_statuses: tuple[TaskStatus, ...] = ()) -> TaskFilter:
        """`default_statuses` where none is named. Raises InvalidInput for a node that is not there."""
        return TaskFilter(
            statuses=tuple(TaskStatus.of_word(word) for word in dict.fromkeys(self.status)) or default_statuses,
            project=self.project_id,
            workflow=self.workflow_id,
            task_type=self.type,
            queue=self.queue,
            group=parse_cursor(self.group, "group", field="group"),
            node=None if self.node is None else await find_node_id(services.node_reader, self.node),
        )

    def require_something(self, field: str) -> None:
        if not self.model_fields_set:
            raise InvalidInput("name at least one property, such as project_id or status", field=field)
