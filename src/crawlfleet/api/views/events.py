"""Events as callers see them, and the filter that chooses among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from crawlfleet.api.http.parameters import find_node_id
from crawlfleet.api.views.tasks import Time
from crawlfleet.control.nodes.node_reader import NodeReader
from crawlfleet.errors import InvalidInput
from crawlfleet.model import ids
from crawlfleet.model.event import Event, Kind
from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.instants import to_text
from crawlfleet.model.status import TaskStatus


class EventView(msgspec.Struct, frozen=True):
    number: int
    """Its place in the log: events are numbered without gaps in the order in which they became visible. 0: it is not in
    the log, as a live `node.heartbeat`."""
    at: Time
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EventFilter:
    kinds: tuple[str, ...] = ()
    task: TaskId | None = None
    node: NodeId | None = None

    @property
    def wants_heartbeats(self) -> bool:
        """Only where their kind is named: they would drown everything else."""
        return Kind.NODE_HEARTBEAT in self.kinds and self.task is None

    def matches_event(self, event: Event) -> bool:
        if self.kinds and not event.kind.startswith(self.kinds):
            return False
        data = event.data
        if self.task is not None and data.get("task") != self.task and self.task not in data.get("tasks", ()):
            return False
        return self.node is None or data.get("node") == self.node


async def make_event_filter(
    reader: NodeReader, kinds: Sequence[str], task: str | None, node: str | None, *, kind_field: str = "kind"
) -> EventFilter:
    """Make a filter of what a caller sent. Raises InvalidInput."""
    for word in kinds:
        if not any(existing.startswith(word) for existing in Kind):
            raise InvalidInput(f"no kind of event begins so; there are {', '.join(Kind)}", field=kind_field)
    return EventFilter(
        tuple(kinds),
        None if task is None else ids.parse_id(task, "task", field="task"),
        None if node is None else await find_node_id(reader, node),
    )


def event_view(event: Event) -> EventView:
    return EventView(
        event.number,
        to_text(event.at),
        event.kind,
        {name: _shown_value(name, value) for name, value in event.data.items()},
    )


_TEXTS = {
    "task": ids.task_text,
    "node": ids.node_text,
    "execution": ids.execution_text,
    "group": ids.group_text,
    "schedule": ids.schedule_text,
}


def _shown_value(name: str, value: Any) -> Any:
    """As people see it elsewhere: ids and instants as text, statuses as words, nothing for a zero that is no id."""
    if name in _TEXTS and isinstance(value, int):
        return _TEXTS[name](value) if value else None
    match name, value:
        case "tasks", list():
            return [ids.task_text(task) for task in value]
        case "status", int():
            return TaskStatus(value).word
        case "drain_by" | "run_at" | "since", int():
            return to_text(value)
        case _:
            return value
