"""Fast path: hot routes are dispatched before FastAPI's middleware, which would cost as much as the handler.

They are Starlette's routes with Starlette's requests, so the rest of the API treats them as its own; a few parts of the
request are made cheaper. A method or a path that none of them has is passed on to the other routes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from crawlfleet.api.http import errors
from crawlfleet.api.http.auth import Gate
from crawlfleet.api.http.errors import TooLarge
from crawlfleet.errors import CrawlfleetError
from crawlfleet.observe.metrics import RequestMetrics

_NO_QUERY = QueryParams()


class PlainRequest(Request):
    limit = 0

    def find_header(self, name: bytes) -> bytes | None:
        """Return a header by its name in lower case. It searches the few headers once, instead of making a mapping of
        them all."""
        for header, value in self.scope["headers"]:
            if header == name:
                return bytes(value)
        return None

    @property
    def query_params(self) -> QueryParams:
        return super().query_params if self.scope["query_string"] else _NO_QUERY

    async def body(self) -> bytes:
        """Read the body; at most `limit` bytes are ever held."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part = message.get("body", b"")
            size += len(part)
            if size > self.limit:
                raise too_large(self.limit)
            if not message.get("more_body", False):
                return b"".join((*parts, part)) if parts else part
            parts.append(part)


class PlainRoutes:
    def __init__(
        self,
        app: ASGIApp,
        routes: Sequence[Route],
        gate: Gate,
        limit: int,
        limits: Mapping[str, int],
        requests: RequestMetrics,
    ) -> None:
        """Create the fast path; `limits` has the routes that take another size of body, by their paths."""
        self._app = app
        self._gate = gate
        self._limit = limit
        self._limits = limits
        self._requests = requests
        self._exact = {
            (method, route.path): route for route in routes if "{" not in route.path for method in route.methods or ()
        }
        self._patterns = [route for route in routes if "{" in route.path]

    def find_route(self, scope: Scope) -> Route | None:
        exact = self._exact.get((scope["method"], scope["path"]))
        if exact is not None:
            return exact
        for route in self._patterns:
            match, more = route.matches(scope)
            if match is Match.FULL:
                scope.update(more)
                return route
        return None

    async def serve_route(self, route: Route, scope: Scope, receive: Receive, send: Send) -> None:
        began = perf_counter()
        scope["app"] = self._app
        request = PlainRequest(scope, receive, send)
        request.limit = self._limits.get(route.path, self._limit)
        try:
            scope.setdefault("state", {})["identity"] = await self._gate.identify_caller(scope)
            check_length(scope, request.limit)
            response: Response = await route.endpoint(request)
        except ClientDisconnect:
            # The caller has disconnected: there is no connection to answer on.
            return
        except Exception as exc:
            response = exception_response(scope, exc)
        self._requests.count_request(route.path, scope["method"], response.status_code, perf_counter() - began)
        await response(scope, receive, send)


def exception_response(scope: Scope, exc: Exception) -> Response:
    match exc:
        case CrawlfleetError():
            return errors.error_response(exc)
        case HTTPException():
            return errors.http_error_response(Request(scope), exc)
        case _:
            return errors.unexpected_response(exc)


def check_length(scope: Scope, limit: int) -> None:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value[:20]) > limit:
            raise too_large(limit)


def too_large(limit: int) -> TooLarge:
    return TooLarge(f"a body has at most {limit} bytes")
