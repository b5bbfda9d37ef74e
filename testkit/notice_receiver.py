"""Receivers of notices that behave as the real services do: chat robots, a signed webhook, and every fault on the way.

A service verifies signatures, keywords and sizes by itself, from what its documentation says, and puts refusals where
the real one does: into an answer with status 200.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

HOST = "127.0.0.1"


class Fault(StrEnum):
    """What goes wrong at the receiver, after it read the request."""

    NONE = "none"
    HANG = "hang"
    DRIP = "drip"
    """The answer comes byte by byte, and never ends."""
    CUT = "cut"
    """The answer breaks off in its body."""
    CLOSE = "close"
    REDIRECT = "redirect"
    HUGE = "huge"
    """An answer without end."""
    BUSY = "busy"
    """429 with Retry-After."""
    GONE = "gone"
    PAGE = "page"
    """The page of a proxy in place of the service's answer."""
    NOT_HTTP = "not http"


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request, as it arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Headers by their names in lower case."""
    body: bytes

    def parse_json(self) -> Any:
        return json.loads(self.body)


Reply = tuple[int, str]
"""Status and body of an answer."""


@dataclass(slots=True)
class NoticeReceiver:
    """A small HTTP server on a free port of this machine; `service` makes the answers."""

    service: Callable[[ReceivedRequest], Reply]
    fault: Fault = Fault.NONE
    requests: list[ReceivedRequest] = field(default_factory=list)
    port: int = 0
    _server: asyncio.Server | None = None
    _arrival: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def origin(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def wait_for_requests(self, count: int) -> list[ReceivedRequest]:
        """Wait until at least this many requests have arrived, and return all."""
        async with self._arrival:
            await self._arrival.wait_for(lambda: len(self.requests) >= count)
        return list(self.requests)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _read_request(reader)
            async with self._arrival:
                self.requests.append(request)
                self._arrival.notify_all()
            await self._answer(request, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The sender went away; it is judged by what it says about that.
        finally:
            writer.transport.abort()

    async def _answer(
        self, request: ReceivedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        match self.fault:
            case Fault.NONE:
                status, body = self.service(request)
                await _write(writer, _encode_answer(status, body))
                await reader.read()  # until the sender has read it and closed
            case Fault.HANG:
                await reader.read()
            case Fault.DRIP:
                await _write(writer, b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while not reader.at_eof():
                    await _write(writer, b" ")
                    await asyncio.sleep(0.01)
            case Fault.CUT:
                await _write(writer, b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"errcode":0')
            case Fault.CLOSE:
                pass
            case Fault.REDIRECT:
                status, body = self.service(request)
                await _write(writer, _encode_answer(302, body, Location=f"{self.origin}/elsewhere"))
                await reader.read()
            case Fault.HUGE:
                await _write(writer, b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
                while True:
                    await _write(writer, b" " * 65_536)
            case Fault.BUSY:
                await _write(writer, _encode_answer(429, "slow down", **{"Retry-After": "37"}))
                await reader.read()
            case Fault.GONE:
                await _write(writer, _encode_answer(410, "no such hook"))
                await reader.read()
            case Fault.PAGE:
                page = "<html><head><title>502 Bad Gateway</title></head><body>proxy</body></html>"
                await _write(writer, _encode_answer(502, page))
                await reader.read()
            case Fault.NOT_HTTP:
                await _write(writer, b"SSH-2.0-OpenSSH_9.2\r\n")
                await reader.read()


def accept_all(_request: ReceivedRequest) -> Reply:
    """A webhook that accepts whatever arrives."""
    return 204, ""


@dataclass(slots=True)
class DingtalkService:
    """The custom robot of DingTalk, with a signature or a keyword, as its owner set it."""

    token: str
    secret: str = ""
    keyword: str = ""

    def __call__(self, request: ReceivedRequest) -> Reply:
        if request.path != "/robot/send":
            return 404, ""
        if request.query.get("access_token") != self.token:
            return _errcode(300005, "token is not exist")
        if self.secret and not self._is_signed(request.query):
            return _errcode(310000, "sign not match, more: [https://ding-doc.dingtalk.com]")
        if len(request.body) > 20_000:
            return _errcode(460101, "message too long, exceed 20000 bytes")
        markdown = request.parse_json()["markdown"]
        if self.keyword and self.keyword not in markdown["title"] + markdown["text"]:
            return _errcode(310000, f"description:keywords not in content, token: {self.token}")
        return _errcode(0, "ok")

    def _is_signed(self, query: Mapping[str, str]) -> bool:
        timestamp = query.get("timestamp", "")
        if not timestamp.isdigit() or abs(int(timestamp) / 1000 - time.time()) > 3_600:
            return False
        message = f"{timestamp}\n{self.secret}".encode()
        return query.get("sign") == _hmac_text(self.secret.encode(), message)


@dataclass(slots=True)
class FeishuService:
    """The custom bot of Feishu and Lark."""

    token: str
    secret: str = ""
    keyword: str = ""

    def __call__(self, request: ReceivedRequest) -> Reply:
        if request.path != f"/open-apis/bot/v2/hook/{self.token}":
            return _code(19001, "param invalid: incoming webhook access token invalid")
        if len(request.body) > 20_000:
            return _code(9499, "Bad Request")
        body = request.parse_json()
        if self.secret and not self._is_signed(body):
            return _code(19021, "sign match fail or timestamp is not within one hour from current time")
        card = body["card"]
        shown = card["header"]["title"]["content"] + "".join(part["content"] for part in card["elements"])
        if self.keyword and self.keyword not in shown:
            return _code(19024, "Key Words Not Found")
        return 200, json.dumps({"StatusCode": 0, "StatusMessage": "success", "code": 0, "data": {}, "msg": "success"})

    def _is_signed(self, body: Mapping[str, Any]) -> bool:
        timestamp = str(body.get("timestamp", ""))
        if not timestamp.isdigit() or abs(int(timestamp) - time.time()) > 3_600:
            return False
        return body.get("sign") == _hmac_text(f"{timestamp}\n{self.secret}".encode(), b"")


@dataclass(slots=True)
class WecomService:
    """The robot of a WeCom group, which takes a number of messages and refuses the rest."""

    key: str
    left: int = 20

    def __call__(self, request: ReceivedRequest) -> Reply:
        if request.path != "/cgi-bin/webhook/send" or request.query.get("key") != self.key:
            return _errcode(93000, "invalid webhook url, hint: [1700000000]")
        if self.left == 0:
            return _errcode(45009, "api freq out of limit")
        content = request.parse_json()["markdown"]["content"]
        if len(content.encode()) > 2_048:
            return _errcode(40058, "markdown.content exceed max length 2048")
        self.left -= 1
        return _errcode(0, "ok")


@dataclass(slots=True)
class SlackService:
    """An incoming webhook of Slack."""

    path: str
    word: str = "ok"
    status: int = 200

    def __call__(self, request: ReceivedRequest) -> Reply:
        if request.path != self.path:
            return 404, "no_service"
        if not request.parse_json().get("text"):
            return 400, "no_text"
        return self.status, self.word


def _errcode(code: int, words: str) -> Reply:
    return 200, json.dumps({"errcode": code, "errmsg": words})


def _code(code: int, words: str) -> Reply:
    return 200, json.dumps({"code": code, "data": {}, "msg": words})


def _hmac_text(key: bytes, message: bytes) -> str:
    return base64.b64encode(hmac.new(key, message, hashlib.sha256).digest()).decode()


async def _read_request(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return ReceivedRequest(method, parts.path, dict(parse_qsl(parts.query)), headers, body)


def _encode_answer(status: int, body: str, **headers: str) -> bytes:
    encoded = body.encode()
    lines = [f"HTTP/1.1 {status} Answer", f"Content-Length: {len(encoded)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + encoded


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
