"""Task types that are known, with what their parameters must look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from crawlfleet.api.http.auth import allow
from crawlfleet.api.http.responses import json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.tasks import Time
from crawlfleet.model.instants import to_text
from crawlfleet.model.principal import Principal, Role

routes = RouteTable("task-types", PREFIX)


class TaskTypeView(msgspec.Struct, frozen=True):
    name: str
    version: int
    """Rises when its schema changes."""
    json_schema: Mapping[str, Any] = msgspec.field(name="schema")
    changed_at: Time = ""
    nodes: int = 0
    """Nodes that run it and are there."""


class TaskTypeList(msgspec.Struct, frozen=True):
    task_types: list[TaskTypeView]


@routes.get("/task-types", TaskTypeList)
async def list_task_types(services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """By name. A type is known once a node that runs it has joined; the built-in ones always are."""
    views = [
        TaskTypeView(record.name, record.version, record.schema, to_text(record.changed_at), connected_nodes)
        for record, connected_nodes in await services.task_reader.list_task_types()
    ]
    return json_response(TaskTypeList(views))
