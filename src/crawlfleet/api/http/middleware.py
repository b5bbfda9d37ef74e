"""Middleware around every request: authentication, the limit of the body, and a response whatever happens.

The caller is identified before a byte of the body is read; the body is counted as it streams in, so that a huge one is
refused without ever being held. `fast_routes.py` does the same for the hot routes.
"""

from __future__ import annotations

from http import HTTPStatus
from time import perf_counter

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crawlfleet.api.http.auth import Gate
from crawlfleet.api.http.fast_routes import check_length, exception_response, too_large
from crawlfleet.observe.metrics import UNMATCHED, RequestMetrics

API = "/api/"
"""Path prefix below which nothing is answered without a token, not even what exists."""


class Guard:
    def __init__(self, app: ASGIApp, gate: Gate, body_limit_bytes: int, requests: RequestMetrics) -> None:
        self._app = app
        self._gate = gate
        self._limit = body_limit_bytes
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_started = False
        began = perf_counter()

        async def watched_send(message: Message) -> None:
            nonlocal is_started
            if not is_started:
                is_started = True
                # Streams and slow readers take as long as they like: what counts is when the response begins.
                route = getattr(scope.get("route"), "path", UNMATCHED)
                self._requests.count_request(route, scope["method"], message["status"], perf_counter() - began)
            await send(message)

        try:
            if scope["path"].startswith(API):
                scope.setdefault("state", {})["identity"] = await self._gate.identify_caller(scope)
            check_length(scope, self._limit)
            await self._app(scope, _limit_body(receive, self._limit), watched_send)
        except ClientDisconnect:
            # The caller has disconnected: there is no connection to answer on.
            return
        except Exception as exc:
            if is_started:
                raise
            await exception_response(scope, exc)(scope, receive, watched_send)

    async def _serve_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket: its caller is identified before it is accepted, and refused by an HTTP response."""
        is_answered = False
        began = perf_counter()

        async def watched_send(message: Message) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                status = message.get("status", HTTPStatus.SWITCHING_PROTOCOLS)
                route = getattr(scope.get("route"), "path", UNMATCHED)
                self._requests.count_request(route, "GET", status, perf_counter() - began)
            await send(message)

        try:
            scope.setdefault("state", {})["identity"] = await self._gate.identify_caller(scope)
            await self._app(scope, receive, watched_send)
        except Exception as exc:
            if is_answered:
                raise
            await exception_response(scope, exc)(scope, receive, watched_send)


def _limit_body(receive: Receive, limit: int) -> Receive:
    received_bytes = 0

    async def receive_counted() -> Message:
        nonlocal received_bytes
        message = await receive()
        received_bytes += len(message.get("body", b""))
        if received_bytes > limit:
            raise too_large(limit)
        return message

    return receive_counted
