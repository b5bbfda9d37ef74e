"""Clean-up on a person's order: counted first, removed in bounded batches, written to the audit log."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Request
from pydantic import Field
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.parameters import Body, Label, Text, parse_cursor
from crawlfleet.api.http.responses import json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.tasks import Time
from crawlfleet.control.nodes.departed_nodes import REMOVED_AT_ONCE, last_seen
from crawlfleet.control.results.clean_up import finished_before
from crawlfleet.errors import InvalidInput
from crawlfleet.model.ids import group_text, node_text, task_text
from crawlfleet.model.instants import ms, to_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.maintenance_store import FinishedFilter, PruneCursor

routes = RouteTable("clean-up", PREFIX)

_FINAL = {status.word: status for status in TaskStatus if status.is_final}
_SPAN_MAX_S = 36_500 * 86_400
Span = Annotated[float, Field(ge=0, le=_SPAN_MAX_S, allow_inf_nan=False)]
CursorText = Annotated[Text, Field(max_length=200)]


class CleanUpBody(Body):
    apply: bool = False
    """Remove; otherwise nothing changes and the counts say what would be removed."""
    cursor: CursorText | None = None
    """`next_cursor` of the call before."""


class TasksCleanUp(CleanUpBody):
    older_than_s: Span
    """Age in seconds of the youngest task that is selected, since its end."""
    status: Annotated[list[Text], Field(min_length=1, max_length=len(_FINAL))] | None = None
    """completed, failed, timeout, cancelled; all of them if not given."""
    project_id: Label | None = None
    task_type: Label | None = None


class NodesCleanUp(Body):
    gone_for_s: Annotated[float, Field(ge=60, le=_SPAN_MAX_S, allow_inf_nan=False)] = 7 * 86_400.0
    """Time in seconds since a node was last seen; only nodes that are offline or unresponsive are selected."""
    apply: bool = False


class DueView(msgspec.Struct, frozen=True):
    """What is past its retention; each kind is counted up to 100,000."""

    tasks: int
    """Those that a group needs stay all the same."""
    events: int
    """Batches of events."""
    heartbeats: int
    idempotency_keys: int
    audit_entries: int


class RetentionCleaned(msgspec.Struct, frozen=True):
    applied: bool
    due: DueView | None
    """In the first call of several."""
    removed_rows: int
    next_cursor: str | None


class TasksCleaned(msgspec.Struct, frozen=True):
    applied: bool
    looked_at: int
    selected: int
    """Tasks that the filter selects and that may be removed."""
    needed: int
    """Tasks that it selects and that stay: their group, flow or crawl is not finished as long."""
    removed: int
    next_cursor: str | None


class ResultsCleaned(msgspec.Struct, frozen=True):
    applied: bool
    files: int
    """Files of results that were looked at."""
    orphans: int
    """Tasks that do not exist and have files. At the border of two calls a task may be counted in both."""
    orphan_files: int
    orphan_bytes: int
    removed: int
    examples: list[str]
    """At most 20 of them."""
    next_cursor: str | None


class GoneNode(msgspec.Struct, frozen=True):
    id: str
    name: str
    status: str
    last_seen_at: Time


class NodesCleaned(msgspec.Struct, frozen=True):
    applied: bool
    nodes: list[GoneNode]
    """At most 1,000."""
    removed: int
    is_more: bool


@routes.post("/clean-up/retention", RetentionCleaned, status=200)
async def clean_up_retention(
    request: Request, body: CleanUpBody, services: TheServices, principal: Principal = allow(Role.ADMIN)
) -> Response:
    """What retention removes by itself over time, now: counted, and with `apply` removed batch by batch."""
    report = await services.clean_up.apply_retention(_parse_position(body.cursor), is_applied=body.apply)
    if body.apply:
        await _write_audit(request, principal, "retention", {"removed_rows": report.removed_rows})
    due = None if report.due is None else DueView(*report.due)
    cursor = report.cursor
    next_cursor = None if cursor is None else f"{task_text(cursor.task)}/{group_text(cursor.group)}"
    return json_response(RetentionCleaned(body.apply, due, report.removed_rows, next_cursor))


@routes.post("/clean-up/tasks", TasksCleaned, status=200)
async def clean_up_tasks(
    request: Request, body: TasksCleanUp, services: TheServices, principal: Principal = allow(Role.ADMIN)
) -> Response:
    """Finished tasks by filter, a thousand at a time, with everything that belongs to them."""
    wanted = FinishedFilter(
        before=finished_before(services.clock.now(), body.older_than_s),
        statuses=frozenset(_parse_statuses(body.status or list(_FINAL))),
        project=body.project_id,
        task_type=body.task_type,
    )
    report = await services.clean_up.remove_tasks(wanted, parse_cursor(body.cursor) or 0, is_applied=body.apply)
    if report.removed:
        details = body.model_dump(exclude={"apply", "cursor"}, exclude_none=True)
        await _write_audit(request, principal, "tasks", {**details, "removed": report.removed})
    next_cursor = None if report.cursor is None else task_text(report.cursor)
    return json_response(
        TasksCleaned(body.apply, report.looked_at, report.selected, report.needed, report.removed, next_cursor)
    )


@routes.post("/clean-up/results", ResultsCleaned, status=200)
async def clean_up_results(
    request: Request, body: CleanUpBody, services: TheServices, principal: Principal = allow(Role.ADMIN)
) -> Response:
    """Files of results that belong to no task, a thousand files at a time."""
    report = await services.clean_up.remove_orphans(body.cursor or "", is_applied=body.apply)
    if report.removed:
        await _write_audit(request, principal, "results", {"removed": report.removed, "bytes": report.orphan_bytes})
    return json_response(
        ResultsCleaned(
            body.apply,
            report.files,
            report.orphans,
            report.orphan_files,
            report.orphan_bytes,
            report.removed,
            [task_text(task) for task in report.examples],
            report.cursor,
        )
    )


@routes.post("/clean-up/nodes", NodesCleaned, status=200)
async def clean_up_nodes(
    request: Request, body: NodesCleanUp, services: TheServices, principal: Principal = allow(Role.ADMIN)
) -> Response:
    """Nodes that have been away for long: their secrets are revoked, their history stays."""
    nodes = await services.departed_nodes.clean_up(ms(body.gone_for_s), is_applied=body.apply)
    if body.apply and nodes:
        await _write_audit(request, principal, "nodes", {"removed": [node_text(node.id) for node in nodes[:100]]})
    views = [
        GoneNode(node_text(node.id), node.description.name, node.status.word, to_text(last_seen(node)))
        for node in nodes
    ]
    removed = len(nodes) if body.apply else 0
    return json_response(NodesCleaned(body.apply, views, removed, len(nodes) == REMOVED_AT_ONCE))


def _parse_statuses(words: list[str]) -> list[TaskStatus]:
    for index, word in enumerate(words):
        if word not in _FINAL:
            raise InvalidInput(f"{word[:50]!r} is none of {', '.join(_FINAL)}", field=f"status[{index}]")
    return [_FINAL[word] for word in words]


def _parse_position(text: str | None) -> PruneCursor | None:
    if text is None:
        return None
    task, _, group = text.partition("/")
    return PruneCursor(parse_cursor(task) or 0, parse_cursor(group, "group") or 0)


async def _write_audit(request: Request, principal: Principal, target: str, details: dict[str, Any]) -> None:
    await write_audit_entry(request, principal, "clean_up", target, details)
