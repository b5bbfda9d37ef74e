"""The routes of one module: one decorator at the handler declares a route.

    routes = RouteTable("clusters", PREFIX)


    @routes.get("/clusters/{cluster}", ClusterView)
    async def show_cluster(
        cluster: ClusterInPath, services: TheServices, _: Principal = allow(Role.VIEWER)
    ) -> Response: ...

The decorator has the path, the status and the responses; the handler's parameters say what it reads of the request and
which role may call it. A plain route is served on the fast path, before FastAPI: it parses the request itself, so that
its decorator describes parameters and body for the OpenAPI document too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack

import msgspec
from fastapi import APIRouter
from starlette.responses import Response
from starlette.routing import Route

from crawlfleet.api.http.responses import Content, ResponseSpec, content_schemas, content_structs

Struct = type[msgspec.Struct]
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Response]])

SECURITY: list[dict[str, list[str]]] = [{"bearer": []}, {"api_key": []}]
"""Alternatives: the token in either of the two headers."""
JSON_MESSAGE: dict[str, Any] = {"application/json": {"type": "array", "items": {}}}
"""Content of the node protocol, whose fields travel by position."""


class RouteOptions(TypedDict, total=False):
    """What a decorator of a route may say beside the path and the response."""

    status: int
    """Status of the response; 200 unless given."""
    other_responses: Mapping[int, ResponseSpec]
    """Responses with other statuses, where they are not the errors that every route has."""
    body: Struct
    """The body of a handler that decodes it itself. Other handlers declare theirs as a parameter."""
    name: str
    """Name in the operation id, and in words the summary; the name of the handler unless given."""


class RouteTable:
    """The routes of one module, with what the OpenAPI document says of them."""

    def __init__(self, tag: str, prefix: str = "") -> None:
        self.router = APIRouter(prefix=prefix, tags=[tag])
        """Routes with FastAPI's parsing."""
        self.plain_routes: list[Route] = []
        """Hot routes, with full paths."""
        self.operations: dict[tuple[str, str], dict[str, Any]] = {}
        """Descriptions of the plain routes, by method and path."""
        self.body_limits: dict[str, int] = {}
        """Bytes of a body, by path, for the plain routes that have a limit of their own."""
        self.structs: dict[Struct, None] = {}
        """Types that the descriptions refer to by name."""
        self._tag = tag
        self._prefix = prefix

    def get(
        self, path: str, response: ResponseSpec | Struct | None = None, **options: Unpack[RouteOptions]
    ) -> Callable[[Handler], Handler]:
        return self._add_route("GET", path, response, options)

    def post(
        self, path: str, response: ResponseSpec | Struct | None = None, **options: Unpack[RouteOptions]
    ) -> Callable[[Handler], Handler]:
        return self._add_route("POST", path, response, options)

    def put(
        self, path: str, response: ResponseSpec | Struct | None = None, **options: Unpack[RouteOptions]
    ) -> Callable[[Handler], Handler]:
        return self._add_route("PUT", path, response, options)

    def patch(
        self, path: str, response: ResponseSpec | Struct | None = None, **options: Unpack[RouteOptions]
    ) -> Callable[[Handler], Handler]:
        return self._add_route("PATCH", path, response, options)

    def delete(
        self, path: str, response: ResponseSpec | Struct | None = None, **options: Unpack[RouteOptions]
    ) -> Callable[[Handler], Handler]:
        return self._add_route("DELETE", path, response, options)

    def plain(
        self,
        method: str,
        path: str,
        response: ResponseSpec | Struct,
        *,
        summary: str,
        description: str,
        status: int = 200,
        parameters: Sequence[Mapping[str, Any]] = (),
        body: Content | None = None,
        body_limit: int | None = None,
        schemas: Iterable[Struct] = (),
        name: str | None = None,
        tag: str | None = None,
    ) -> Callable[[Handler], Handler]:
        """Declare a route of the fast path. `schemas` are types that the described ones name only in their own
        schemas."""
        full_path = self._prefix + path
        response = _as_spec(response)
        tag = tag or self._tag
        self._add_structs(response.content, body)
        self.structs.update(dict.fromkeys(schemas))
        if body_limit is not None:
            self.body_limits[full_path] = body_limit

        def declare(handler: Handler) -> Handler:
            self.plain_routes.append(Route(full_path, handler, methods=[method]))
            self.operations[method, full_path] = {
                "operationId": operation_id(tag, name or handler.__name__),
                "summary": summary,
                "tags": [tag],
                "security": SECURITY,
                "responses": {str(status): response.describe()},
                "description": description,
                **({"parameters": list(parameters)} if parameters else {}),
                **({} if body is None else _describe_body(body)),
            }
            return handler

        return declare

    def _add_route(
        self, method: str, path: str, response: ResponseSpec | Struct | None, options: RouteOptions
    ) -> Callable[[Handler], Handler]:
        status = options.get("status", 200)
        responses = {} if response is None else {status: _as_spec(response)}
        responses |= options.get("other_responses", {})
        body = options.get("body")
        self._add_structs(body, *(each.content for each in responses.values()))
        return self.router.api_route(
            path,
            methods=[method],
            name=options.get("name"),
            status_code=options.get("status"),
            responses={code: each.describe() for code, each in responses.items()},
            openapi_extra=None if body is None else _describe_body(body),
        )

    def _add_structs(self, *contents: Content | None) -> None:
        for content in contents:
            self.structs.update(dict.fromkeys(content_structs(content)))


def operation_id(tag: str, name: str) -> str:
    return f"{tag}_{name}".replace("-", "_")


def describe_parameter(
    name: str, place: str, description: str, schema: Mapping[str, Any] | None = None, *, is_required: bool = False
) -> dict[str, Any]:
    """Return the description of a parameter of a plain route. `place` is path, query or header."""
    return {
        "name": name,
        "in": place,
        "required": is_required or place == "path",
        "description": description,
        "schema": schema or {"type": "string"},
    }


def _as_spec(response: ResponseSpec | Struct) -> ResponseSpec:
    return response if isinstance(response, ResponseSpec) else ResponseSpec(response)


def _describe_body(content: Content) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": content_schemas(content)}}
