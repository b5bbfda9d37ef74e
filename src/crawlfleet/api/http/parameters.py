"""Parts of requests that many routes take, each with its bounds and its name in the document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.requests import HTTPConnection

from crawlfleet.api.http.errors import printable_text
from crawlfleet.control.nodes.node_reader import NodeReader
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model import ids, limits
from crawlfleet.model.ids import ExecutionId, GroupId, NodeId, ScheduleId, TaskId
from crawlfleet.model.instants import Instant, from_text
from crawlfleet.wire.field_messages import unknown_name
from crawlfleet.wire.tasks import storage_problem

MAX_PAGE_RECORDS = 1_000
DEFAULT_PAGE_RECORDS = 100
_NODES_NAMED = 10


def _check_storable(text: str) -> str:
    if complaint := storage_problem(text):
        raise ValueError(complaint)
    return text


Text = Annotated[str, AfterValidator(_check_storable)]
Name = Annotated[Text, Field(max_length=limits.NAME_CHARS)]
Label = Annotated[Text, Field(min_length=1, max_length=limits.LABEL_CHARS)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_RECORDS, description="How many to show at most.")]
Moment = Annotated[Text, Field(max_length=limits.LABEL_CHARS, json_schema_extra={"format": "date-time"})]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before.")]


def parse_instant(field: str, text: str | None) -> Instant | None:
    """Parse an instant. Raises InvalidInput with the field named."""
    try:
        return None if text is None else from_text(text)
    except (ValueError, OverflowError) as exc:
        raise InvalidInput(str(exc), field=field) from exc


class Body(BaseModel):
    """A JSON body: what it does not know it refuses, and a word is not taken for a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


def parse_cursor(text: str | None, prefix: str = "task", *, field: str = "cursor") -> int | None:
    return None if text is None else ids.parse_id(text, prefix, field=field)


def parse_path_id(text: str, prefix: str) -> int:
    """Parse an id from a path. Raises NotFound, also for a text that is no id at all: it is the id of nothing."""
    try:
        return ids.parse_id(text, prefix, field=f"{prefix}_id")
    except InvalidInput:
        noun = "execution" if prefix == "exec" else prefix
        raise NotFound(f"no {noun} {printable_text(text)[: limits.NAME_CHARS]!r}") from None


def _id_parameter(prefix: str) -> Any:
    extra = {"pattern": f"^{prefix}-[0-9a-f]{{16}}$", "example": f"{prefix}-0123456789abcdef"}
    return Path(json_schema_extra=extra)


async def _task_in_path(task_id: Annotated[str, _id_parameter("task")]) -> TaskId:
    return parse_path_id(task_id, "task")


async def _execution_in_path(execution_id: Annotated[str, _id_parameter("exec")]) -> ExecutionId:
    return parse_path_id(execution_id, "exec")


async def _node_in_path(node_id: Annotated[str, _id_parameter("node")]) -> NodeId:
    return parse_path_id(node_id, "node")


async def _group_in_path(group_id: Annotated[str, _id_parameter("group")]) -> GroupId:
    return parse_path_id(group_id, "group")


async def _schedule_in_path(schedule_id: Annotated[str, _id_parameter("schedule")]) -> ScheduleId:
    return parse_path_id(schedule_id, "schedule")


TaskInPath = Annotated[TaskId, Depends(_task_in_path)]
"""The parsed `{task_id}` of a path; 404 when it is no id."""
ExecutionInPath = Annotated[ExecutionId, Depends(_execution_in_path)]
NodeInPath = Annotated[NodeId, Depends(_node_in_path)]
GroupInPath = Annotated[GroupId, Depends(_group_in_path)]
ScheduleInPath = Annotated[ScheduleId, Depends(_schedule_in_path)]


async def find_node_id(reader: NodeReader, text: str, *, field: str = "node") -> NodeId:
    """Return the node of an id, of a device id, or of a name that only one node has."""
    try:
        return ids.parse_id(text, "node", field=field)
    except InvalidInput:
        nodes = await reader.list_nodes()
    for node in nodes:
        if node.description.device_id == text:
            return node.id
    named = [node.id for node in nodes if node.description.name == text]
    if len(named) > 1:
        several = ", ".join(map(ids.node_text, named[:_NODES_NAMED]))
        raise InvalidInput(f"{len(named)} nodes have the name {text!r}: {several}; give an id", field=field)
    if not named:
        detail = f"no node has this id, device id or name: {printable_text(text)[: limits.NAME_CHARS]!r}"
        raise InvalidInput(detail, field=field)
    return named[0]


def check_query_names(connection: HTTPConnection, *allowed: str) -> None:
    """Refuse an unknown query parameter, for plain routes, so that a misspelt filter does not count as a filter left
    out."""
    for name in connection.query_params:
        if name not in allowed:
            detail = (
                unknown_name(name, allowed, shown="unknown query parameter")
                if allowed
                else ("unknown query parameter; this route takes none")
            )
            raise InvalidInput(detail, field=printable_text(name)[: limits.NAME_CHARS])


async def check_route_query(request: Request) -> None:
    """Refuse unknown query parameters for every route of FastAPI, by what its function declares."""
    route = request.scope.get("route")
    if request.query_params and isinstance(route, APIRoute):
        check_query_names(request, *sorted(_query_names(route.dependant)))


def _query_names(dependant: Dependant) -> Iterator[str]:
    for field in dependant.query_params:
        kind = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from (inner.alias or name for name, inner in kind.model_fields.items())
        else:
            yield field.alias
    for inner in dependant.dependencies:
        yield from _query_names(inner)
