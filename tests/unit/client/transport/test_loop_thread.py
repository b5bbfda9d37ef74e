"""Streams read on an event loop of another thread: closing one never waits for what comes next."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from crawlfleet.client.transport.loop_thread import Background

DEADLINE_S = 60.0


class Silence:
    """A stream that sends nothing more once it was begun."""

    def __init__(self) -> None:
        self.is_read = threading.Event()
        self.is_closed = threading.Event()

    async def lines(self) -> AsyncIterator[int]:
        try:
            yield 1
            self.is_read.set()
            await asyncio.Event().wait()
        finally:
            self.is_closed.set()


class InterruptedClient(Background):
    """A Ctrl-C comes when the second call has begun on the loop, and before it is waited for."""

    def __init__(self, silence: Silence) -> None:
        super().__init__("http://127.0.0.1:1", "token")
        self._silence = silence
        self._calls = 0

    def _run_call(self, call: Any) -> Any:
        self._calls += 1
        if self._calls == 2:
            asyncio.run_coroutine_threadsafe(call, self._loop)
            assert self._silence.is_read.wait(DEADLINE_S)
            raise KeyboardInterrupt
        return super()._run_call(call)


def test_ctrl_c_as_a_call_begins_closes_the_stream() -> None:
    silence = Silence()
    with InterruptedClient(silence) as client:
        stream = client._iterate_stream(silence.lines())
        assert next(stream) == 1
        with pytest.raises(KeyboardInterrupt):
            next(stream)
        assert silence.is_closed.is_set()


def test_a_stream_that_is_abandoned_is_closed() -> None:
    silence = Silence()
    with Background("http://127.0.0.1:1", "token") as client:
        stream = client._iterate_stream(silence.lines())
        assert next(stream) == 1
        stream.close()  # type: ignore[attr-defined]
        assert silence.is_closed.wait(DEADLINE_S)
