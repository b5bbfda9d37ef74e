"""The parser process parses large pages and runs costly selectors, so that they cannot hold up other executions.

The child kills itself by an alarm when a page takes too long: no code of ours needs to run for that, and nothing is
left behind when the parent is gone. Messages both ways: four bytes of length, then MessagePack.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import struct
import sys
from asyncio.subprocess import PIPE, Process
from typing import BinaryIO

import msgspec

from crawlfleet.execution.crawl.parse.memory_limit import lift_memory_limit
from crawlfleet.execution.crawl.parse.page_parser import PageFacts, ParseRequest, parse_page
from crawlfleet.execution.page_failures import PageFailed

LIMIT_S = 10
MEMORY_BYTES = 2 << 30
_LENGTH = struct.Struct(">I")


class ParserProcess:
    """The parent's side of the parser process: one child, started when first needed, one page at a time."""

    def __init__(self, limit_s: int = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._child: Process | None = None
        self._lock = asyncio.Lock()

    async def parse_page(self, request: ParseRequest) -> PageFacts:
        request.is_isolated = True
        async with self._lock:
            try:
                return await self._call_child(request)
            except (asyncio.IncompleteReadError, ConnectionError) as exc:
                within = f"{self._limit_s} s and {MEMORY_BYTES >> 30} GiB"
                raise PageFailed("parse", f"{request.url}: could not be read within {within}", permanent=True) from exc
            finally:
                # The child is also ended when the call is cancelled half way: the next page must not get this one's
                # answer.
                if sys.exc_info()[0] is not None:
                    await self._end_child()

    async def close(self) -> None:
        async with self._lock:
            await self._end_child()

    async def _call_child(self, request: ParseRequest) -> PageFacts:
        child = self._child
        if child is None or child.returncode is not None:
            command = (sys.executable, "-P", "-m", __name__, str(self._limit_s))
            child = self._child = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        assert child.stdin is not None and child.stdout is not None
        message = msgspec.msgpack.encode(request)
        child.stdin.write(_LENGTH.pack(len(message)) + message)
        await child.stdin.drain()
        (length,) = _LENGTH.unpack(await child.stdout.readexactly(_LENGTH.size))
        return msgspec.msgpack.decode(await child.stdout.readexactly(length), type=PageFacts)

    async def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        if child.returncode is None:
            try:
                child.kill()
            except ProcessLookupError:
                pass
        await child.wait()


def _serve_parent(limit_s: int, source: BinaryIO, target: BinaryIO) -> None:
    lift_memory_limit()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    while len(head := source.read(_LENGTH.size)) == _LENGTH.size:
        request = msgspec.msgpack.decode(source.read(_LENGTH.unpack(head)[0]), type=ParseRequest)
        signal.alarm(limit_s)
        answer = msgspec.msgpack.encode(parse_page(request))
        signal.alarm(0)
        target.write(_LENGTH.pack(len(answer)) + answer)
        target.flush()


if __name__ == "__main__":
    _serve_parent(int(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
