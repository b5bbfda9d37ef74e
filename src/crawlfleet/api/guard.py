"""Around every request: who calls, how much they may send, and an answer whatever happens.

Who calls is settled before a byte of the body is read; the body is counted as it streams in, so that a huge one is
refused without ever being held. The plain routes, which are the busy ones, are called from here: what lies between
costs as much as they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crawlfleet.api import problems
from crawlfleet.api.auth import Gate
from crawlfleet.api.problems import TooLarge
from crawlfleet.errors import CrawlfleetError

API = "/api/"
"""Below this nothing is told without a token, not even what exists."""


class Guard:
    def __init__(
        self, app: ASGIApp, gate: Gate, body_limit_bytes: int, plain: Sequence[Route] = (),
        body_limits: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """`body_limits` are of plain routes that take another size, by their paths."""
        self._app = app
        self._gate = gate
        self._limit = body_limit_bytes
        self._limits = body_limits or {}
        self._exact = {(method, route.path): route for route in plain if "{" not in route.path
                       for method in route.methods or ()}  # fmt: skip
        self._patterns = [route for route in plain if "{" in route.path]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_started = False

        async def watched_send(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        try:
            if scope["path"].startswith(API):
                scope.setdefault("state", {})["identity"] = await self._gate.identify(scope)
            route = self._plain(scope)
            limit = self._limit if route is None else self._limits.get(route.path, self._limit)
            _check_length(scope, limit)
            await self._serve(route, scope, _counted(receive, limit), watched_send)
        except ClientDisconnect:
            # Whoever asked has gone: nobody is left to answer.
            return
        except Exception as exc:
            if is_started:
                raise
            await self._told(scope, exc)(scope, receive, send)

    def _told(self, scope: Scope, exc: Exception) -> Response:
        match exc:
            case CrawlfleetError():
                return problems.of_error(exc)
            case HTTPException():
                return problems.of_http(Request(scope), exc)
            case _:
                return problems.unexpected(exc)

    async def _serve(self, route: Route | None, scope: Scope, receive: Receive, send: Send) -> None:
        if route is None:
            await self._app(scope, receive, send)
        else:
            response = await route.endpoint(Request(scope, receive, send))
            await response(scope, receive, send)

    def _plain(self, scope: Scope) -> Route | None:
        found = self._exact.get((scope["method"], scope["path"]))
        if found is not None:
            return found
        for route in self._patterns:
            match, more = route.matches(scope)
            if match is Match.FULL:
                scope.update(more)
                return route
        return None


def _counted(receive: Receive, limit: int) -> Receive:
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > limit:
            raise _too_large(limit)
        return message

    return counted


def _check_length(scope: Scope, limit: int) -> None:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value[:20]) > limit:
            raise _too_large(limit)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"a body has at most {limit} bytes")
