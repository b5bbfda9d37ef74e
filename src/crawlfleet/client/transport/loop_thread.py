"""An event loop in a thread of its own, for callers that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self, TypeVar

from crawlfleet.client.async_client import AsyncClient
from crawlfleet.client.transport.retry import RetryPolicy

T = TypeVar("T")
LOOK_S = 0.5
"""Interval in seconds at which a waiting thread wakes up: a Ctrl-C that comes just before it begins to wait does not
wake it."""


class Background:
    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        data_dir: Path | None = None,
        ca_file: Path | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._client = AsyncClient(url, token, data_dir=data_dir, ca_file=ca_file, retry=retry)
        self.url = self._client.url
        self._loop = asyncio.new_event_loop()
        self._ending: set[Future[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="crawlfleet client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the client and the event loop; a second call changes nothing."""
        if self._loop.is_closed():
            return
        for ending in tuple(self._ending):
            ending.exception()
        self._run_call(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run_call(self, call: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            while True:
                try:
                    return future.result(LOOK_S)
                except TimeoutError:
                    # The TimeoutError may also come from the call itself.
                    if future.done():
                        return future.result()
        except BaseException:
            # Ctrl-C reaches this thread only: the call on the other one has to be cancelled.
            future.cancel()
            raise

    def _iterate_stream(self, stream: AsyncIterator[T]) -> Iterator[T]:
        turn = asyncio.Lock()
        try:
            while True:
                try:
                    yield self._run_call(_read_next(stream, turn))
                except StopAsyncIteration:
                    return
        except GeneratorExit:
            self._abandon_stream(stream, turn)
            raise
        except BaseException:
            self._run_call(_close_stream(stream, turn))
            raise

    def _abandon_stream(self, stream: AsyncIterator[Any], turn: asyncio.Lock) -> None:
        """End a stream that is not read any further.

        The interpreter may call this where it throws every exception away, so it does not wait: a Ctrl-C while it
        waited would be lost.
        """
        if not self._loop.is_closed():
            ending = asyncio.run_coroutine_threadsafe(_close_stream(stream, turn), self._loop)
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)


async def _read_next(stream: AsyncIterator[T], turn: asyncio.Lock) -> T:
    async with turn:
        return await anext(stream)


async def _close_stream(stream: AsyncIterator[Any], turn: asyncio.Lock) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        # After Ctrl-C the call for the next one is cancelled, but may not be over yet.
        async with turn:
            await close()
