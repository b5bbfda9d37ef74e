"""Repairs on a person's order: counters, the ready index, results. None of them changes the state of a task."""

from __future__ import annotations

import msgspec
from fastapi import Request
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.parameters import Body, parse_cursor
from crawlfleet.api.http.responses import json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.routes.clean_up import CursorText
from crawlfleet.control.results.repair import LaneDrift
from crawlfleet.model.ids import execution_text, task_text
from crawlfleet.model.principal import Principal, Role

routes = RouteTable("repair", PREFIX)

SHOWN_DRIFTS = 100


class CountersRepair(Body):
    apply: bool = False
    """Correct the counters; otherwise the answer only says what is wrong."""


class ResultsRepair(Body):
    cursor: CursorText | None = None
    """`next_cursor` of the call before."""


class CounterDriftView(msgspec.Struct, frozen=True):
    queue: str | None
    """Null, as the next three, for a lane that is gone."""
    project_id: str | None
    priority: int | None
    task_type: str | None
    status: str
    missing: int
    """By how much the counter is too small; negative where it is too large."""


class CountersRepaired(msgspec.Struct, frozen=True):
    applied: bool
    wrong_counters: int
    drift: int
    """Sum of the differences, each without its sign."""
    counters: list[CounterDriftView]
    """At most 100 of them."""


class ReadyRepaired(msgspec.Struct, frozen=True):
    windows: int
    """Windows of the ready index that were dropped; the leader fills them again from the store."""
    lanes: int
    """Lanes with ready tasks, by the store."""


class MissingChunksView(msgspec.Struct, frozen=True):
    task_id: str
    execution_id: str
    kind: str
    """items, log or warc."""
    expected: int
    """Chunks that the task's manifest counts."""
    stored: int
    """Chunks that are there before the first missing one."""


class ResultsChecked(msgspec.Struct, frozen=True):
    looked_at: int
    """Finished tasks that were looked at."""
    missing: list[MissingChunksView]
    next_cursor: str | None


@routes.post("/repair/counters", CountersRepaired, status=200)
async def repair_counters(
    request: Request, body: CountersRepair, services: TheServices, principal: Principal = allow(Role.ADMIN)
) -> Response:
    """Count the rows of all tasks anew and compare them with the counters, in one snapshot. Slow with many tasks."""
    drifts = await services.repair.recount_tasks(is_applied=body.apply)
    if body.apply and drifts:
        await write_audit_entry(request, principal, "repair", "counters", {"wrong_counters": len(drifts)})
    return json_response(
        CountersRepaired(
            body.apply,
            len(drifts),
            sum(abs(drift.missing) for drift in drifts),
            [_drift_view(drift) for drift in drifts[:SHOWN_DRIFTS]],
        )
    )


@routes.post("/repair/ready", ReadyRepaired, status=200)
async def repair_ready_index(
    request: Request, services: TheServices, principal: Principal = allow(Role.ADMIN)
) -> Response:
    """Drop the ready index, which holds only hints; the leader fills it again from the store within a second."""
    report = await services.repair.rebuild_ready_index()
    await write_audit_entry(request, principal, "repair", "ready", {"windows": report.windows})
    return json_response(ReadyRepaired(report.windows, report.lanes))


@routes.post("/repair/results", ResultsChecked, status=200)
async def check_results(body: ResultsRepair, services: TheServices, _: Principal = allow(Role.ADMIN)) -> Response:
    """Look for chunks that completed tasks should have and that are not stored, a thousand tasks at a time."""
    check = await services.repair.check_results(parse_cursor(body.cursor) or 0)
    missing = [
        MissingChunksView(
            task_text(chunks.task), execution_text(chunks.execution), chunks.kind, chunks.expected, chunks.stored
        )
        for chunks in check.missing
    ]
    return json_response(
        ResultsChecked(check.looked_at, missing, None if check.cursor is None else task_text(check.cursor))
    )


def _drift_view(drift: LaneDrift) -> CounterDriftView:
    lane = drift.description
    if lane is None:
        return CounterDriftView(None, None, None, None, drift.status.word, drift.missing)
    return CounterDriftView(
        lane.queue, lane.project, lane.priority, lane.requirement.task_type, drift.status.word, drift.missing
    )
