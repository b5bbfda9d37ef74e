"""Engine that measures how long its transactions take, as their callers see it: with the wait for a connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, TypeVar

from sqlalchemy import Select

from crawlfleet.model.instants import Instant
from crawlfleet.observe.metrics import HistogramSet
from crawlfleet.observe.recent_times import RecentTimes
from crawlfleet.store.engine.sqlalchemy_query import PAGE_BYTES, QueryEngine, RowPage, Sift
from crawlfleet.store.engine.transaction import Row, Tx

T = TypeVar("T")

WRITE, READ, KEY_READ, BROWSE = "write", "read", "key_read", "browse"


class TimedEngine:
    def __init__(self, engine: QueryEngine) -> None:
        self._engine = engine
        self.times = HistogramSet()
        """Times by kind of transaction; of those that failed too."""
        self.recent_writes = RecentTimes()
        """Times of the transactions that wrote, in milliseconds."""

    async def write(self, work: Callable[[Tx], Awaitable[T]], term: int | None = None) -> T:
        began = perf_counter()
        try:
            return await self._engine.write(work, term)
        finally:
            took_s = perf_counter() - began
            self.times.observe(WRITE, took_s)
            self.recent_writes.add_time(took_s * 1000)

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        began = perf_counter()
        try:
            return await self._engine.read(work)
        finally:
            self.times.observe(READ, perf_counter() - began)

    async def read_by_key(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        began = perf_counter()
        try:
            return await self._engine.read_by_key(work)
        finally:
            self.times.observe(KEY_READ, perf_counter() - began)

    async def browse_rows(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        began = perf_counter()
        try:
            return await self._engine.browse_rows(work)
        finally:
            self.times.observe(BROWSE, perf_counter() - began)

    async def run_query(self, query: Select[Any]) -> Sequence[Row]:
        began = perf_counter()
        try:
            return await self._engine.run_query(query)
        finally:
            self.times.observe(BROWSE, perf_counter() - began)

    async def read_page(
        self, query: Select[Any], limit: int, *, max_bytes: int = PAGE_BYTES, sift: Sift | None = None
    ) -> RowPage:
        began = perf_counter()
        try:
            return await self._engine.read_page(query, limit, max_bytes=max_bytes, sift=sift)
        finally:
            self.times.observe(BROWSE, perf_counter() - began)

    async def wall_clock(self) -> Instant | None:
        return await self._engine.wall_clock()

    async def close(self) -> None:
        await self._engine.close()
