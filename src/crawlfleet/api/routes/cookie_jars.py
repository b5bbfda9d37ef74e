"""Cookie jars: exchanged with the executions of crawls that keep their cookies; listed and removed by people."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Path, Query, Request
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.fast_routes import PlainRequest
from crawlfleet.api.http.parameters import Text
from crawlfleet.api.http.responses import ResponseSpec, empty_response, json_response
from crawlfleet.api.http.route_table import JSON_MESSAGE, RouteTable
from crawlfleet.api.http.services import TheServices, get_services
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.routes.node_calls.execution_products import EXECUTION_PARAMETERS, read_call
from crawlfleet.api.views.tasks import Time
from crawlfleet.model.cookie import JAR_NAME_CHARS
from crawlfleet.model.instants import to_text
from crawlfleet.model.limits import LABEL_CHARS
from crawlfleet.model.principal import Principal, Role
from crawlfleet.wire.cookies import BODY_BYTES, CookiesUp

routes = RouteTable("cookie jars", PREFIX)
JarName = Annotated[Text, Path(min_length=1, max_length=JAR_NAME_CHARS, description="As the list shows it.")]
ProjectQuery = Annotated[Text | None, Query(max_length=LABEL_CHARS)]
_UP = msgspec.json.Decoder(CookiesUp)


class CookieJarView(msgspec.Struct, frozen=True):
    """What is in it stays between the sites and the executions: it may be a login."""

    project_id: str
    name: str
    """As `keep_cookies` of a task says; `@` and an id: the jar of one task or one crawl."""
    cookies: int
    hosts: list[str]
    """That set them, at most 20."""
    changed_at: Time


class CookieJarsView(msgspec.Struct, frozen=True):
    cookie_jars: list[CookieJarView]


@routes.get("/cookie-jars", ResponseSpec(CookieJarsView, "By project and name, at most 1,000."))
async def list_cookie_jars(
    services: TheServices, project_id: ProjectQuery = None, _: Principal = allow(Role.VIEWER)
) -> Response:
    jars = await services.cookie_jars.list_jars(project_id)
    return json_response(
        CookieJarsView(
            [
                CookieJarView(jar.project, jar.name, jar.cookies, list(jar.hosts), to_text(jar.changed_at))
                for jar in jars
            ]
        )
    )


@routes.delete("/cookie-jars/{name}", status=204)
async def remove_cookie_jar(
    request: Request,
    name: JarName,
    services: TheServices,
    project_id: ProjectQuery = None,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Forget the cookies in it. A running execution that keeps its cookies there may bring them back."""
    project = project_id or ""
    await services.cookie_jars.remove_jar(project, name)
    await write_audit_entry(request, principal, "cookie_jar.remove", f"{project}/{name}")
    return empty_response()


@routes.plain(
    "POST",
    "/executions/{execution_id}/cookies",
    ResponseSpec(JSON_MESSAGE, "The jar."),
    summary="Save an execution's cookies, and read the jar",
    description="`CookiesUp` up, `CookiesDown` down; fields travel by position (see `wire/cookies.py`). "
    "409 `stale_execution` when the execution is over.",
    tag="executions",
    parameters=EXECUTION_PARAMETERS,
    body=JSON_MESSAGE,
    body_limit=BODY_BYTES,
)
async def exchange_cookies(request: PlainRequest) -> Response:
    speaker, up = await read_call(request, _UP, BODY_BYTES)
    return json_response(await get_services(request).cookie_jars.exchange_cookies(speaker, up))
