"""The SQLite engine: one writer thread owns the only connection that writes; a reader thread and the loop have their
own.

The connection on the loop is for reads of few rows by key. Reads for people have threads apart (see
`browse_reader.py`): the loops of the leader never wait for them.

Group commit: while one commit is on its way to disk, the writes that arrive are collected and go into the next one
together, each in a savepoint of its own, so that one that fails does not affect the others. An idle writer commits at
once.

`InlineEngine` does the same on the caller's loop, without threads, for the simulation: a random seed replays exactly.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from sqlalchemy import Select
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect

from crawlfleet.errors import CrawlfleetError, InvariantBroken, NotLeader, StoreUnavailable
from crawlfleet.model.instants import Instant
from crawlfleet.store.engine.sqlalchemy_query import BROWSE_S, PAGE_BYTES, RowPage, Sift, compile_query
from crawlfleet.store.engine.sqlite.browse_reader import Browser
from crawlfleet.store.engine.sqlite.transaction import SqliteTx
from crawlfleet.store.engine.transaction import LEADER_CHECK, Row, Tx

T = TypeVar("T")
Work = Callable[[Tx], Awaitable[Any]]

_GROUP_MOST = 256
_BROWSER_CACHE_KIB = 16_384
_DIALECT = sqlite_dialect()


class _Request(NamedTuple):
    work: Work
    term: int | None
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class SqliteEngine:
    def __init__(self, path: Path, *, synchronous: str = "FULL", browse_s: float = BROWSE_S) -> None:
        self._path = path
        self._writer = open_connection(path, synchronous=synchronous)
        self._reader = open_connection(path, synchronous=synchronous)
        self._key_reader = open_connection(path, synchronous=synchronous)
        self._writes: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._is_closed = False
        self._browser = Browser(
            lambda: open_connection(path, synchronous=synchronous, cache_kib=_BROWSER_CACHE_KIB),
            read_once,
            deadline_s=browse_s,
        )
        self._threads = [
            threading.Thread(target=self._write_loop, name="sqlite-writer", daemon=True),
            threading.Thread(target=self._read_loop, name="sqlite-reader", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    async def write(self, work: Callable[[Tx], Awaitable[T]], term: int | None = None) -> T:
        return cast("T", await self._enqueue_work(self._writes, work, term))

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return cast("T", await self._enqueue_work(self._reads, work, None))

    async def read_by_key(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
        with _translated:
            return drive_coroutine(work(SqliteTx(self._key_reader)))

    async def browse_rows(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
        return await self._browser.read_rows(work)

    async def run_query(self, query: Select[Any]) -> Sequence[Row]:
        sql, args = compile_query(query, _DIALECT)
        return await self.browse_rows(lambda tx: tx.fetch(sql, *args))

    async def read_page(
        self, query: Select[Any], limit: int, *, max_bytes: int = PAGE_BYTES, sift: Sift | None = None
    ) -> RowPage:
        return await self.browse_rows(lambda tx: _fill_page(tx, query, RowPage(limit, max_bytes, sift)))

    async def wall_clock(self) -> Instant | None:
        return None

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._writes.put(None)
        self._reads.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        await self._browser.close()
        self._key_reader.close()
        self._reader.close()
        self._writer.close()

    async def _enqueue_work(self, requests: queue.SimpleQueue[_Request | None], work: Work, term: int | None) -> Any:
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        requests.put(_Request(work, term, loop, future))
        # Shielded: a caller that gives up must not look as if nothing happened, since the work still runs to its end.
        return await asyncio.shield(future)

    def _write_loop(self) -> None:
        while (first := self._writes.get()) is not None:
            requests, is_last = _collect_group(first, self._writes)
            _deliver_outcomes(
                requests, commit_group(self._writer, [(request.work, request.term) for request in requests])
            )
            if is_last:
                return

    def _read_loop(self) -> None:
        while (request := self._reads.get()) is not None:
            outcome = _value_or_error(lambda request=request: read_once(self._reader, request.work))  # type: ignore[misc]
            _deliver_outcomes([request], [outcome])


class InlineEngine:
    """The engine for the simulation: it runs the same statements on the caller's own event loop."""

    def __init__(self, path: Path, *, synchronous: str = "OFF") -> None:
        self._connection = open_connection(path, synchronous=synchronous)

    async def write(self, work: Callable[[Tx], Awaitable[T]], term: int | None = None) -> T:
        (outcome,) = commit_group(self._connection, [(work, term)])
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        # No write can happen meanwhile: there is only one connection, and this code never suspends.
        with _translated:
            return drive_coroutine(work(SqliteTx(self._connection)))

    read_by_key = read

    browse_rows = read

    async def run_query(self, query: Select[Any]) -> Sequence[Row]:
        sql, args = compile_query(query, _DIALECT)
        return await self.browse_rows(lambda tx: tx.fetch(sql, *args))

    async def read_page(
        self, query: Select[Any], limit: int, *, max_bytes: int = PAGE_BYTES, sift: Sift | None = None
    ) -> RowPage:
        return await self.browse_rows(lambda tx: _fill_page(tx, query, RowPage(limit, max_bytes, sift)))

    async def wall_clock(self) -> Instant | None:
        return None

    async def close(self) -> None:
        self._connection.close()


async def _fill_page(tx: Tx, query: Select[Any], page: RowPage) -> RowPage:
    assert isinstance(tx, SqliteTx)
    sql, args = compile_query(query, _DIALECT)
    with contextlib.closing(tx.iterate_rows(sql, args)) as rows:
        for row in rows:
            if not page.add_row(row):
                break
    return page


def open_connection(path: Path, *, synchronous: str, cache_kib: int = 65_536) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512)
    for pragma in (
        "journal_mode = WAL",
        f"synchronous = {synchronous}",
        "busy_timeout = 5000",
        f"cache_size = -{cache_kib}",
        "temp_store = MEMORY",
        "wal_autocheckpoint = 4000",
        "journal_size_limit = 67108864",
    ):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def drive_coroutine(coroutine: Awaitable[T]) -> T:
    """Run a coroutine that never suspends, and return its value."""
    stepped: Coroutine[Any, Any, T] = coroutine  # type: ignore[assignment]
    try:
        stepped.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    stepped.close()
    raise InvariantBroken("a SQLite transaction awaited something outside it")


def read_once(connection: sqlite3.Connection, work: Callable[[Tx], Awaitable[T]]) -> T:
    with _translated:
        connection.execute("BEGIN")
        try:
            return drive_coroutine(work(SqliteTx(connection)))
        finally:
            connection.execute("ROLLBACK")


def commit_group(connection: sqlite3.Connection, works: Sequence[tuple[Work, int | None]]) -> list[Any]:
    """Run all works in one transaction; return the value or the exception of each. None is answered before the
    commit."""
    try:
        with _translated:
            connection.execute("BEGIN IMMEDIATE")
            try:
                outcomes = [_run_work(connection, work, term, is_alone=len(works) == 1) for work, term in works]
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
    except Exception as exc:
        return [exc] * len(works)
    return outcomes


def _run_work(connection: sqlite3.Connection, work: Work, term: int | None, *, is_alone: bool) -> Any:
    tx = SqliteTx(connection)
    if is_alone:
        return drive_coroutine(_run_under_term(tx, work, term))
    connection.execute("SAVEPOINT piece")
    try:
        outcome = drive_coroutine(_run_under_term(tx, work, term))
    except Exception as exc:
        # A full disk may already have rolled everything back: then the whole group failed, and each of its callers
        # gets the error.
        if not connection.in_transaction:
            raise
        connection.execute("ROLLBACK TO piece")
        outcome = _translate_error(exc)
    connection.execute("RELEASE piece")
    return outcome


async def _run_under_term(tx: Tx, work: Work, term: int | None) -> Any:
    if term is not None and not await tx.fetch(LEADER_CHECK, term):
        raise NotLeader(term)
    return await work(tx)


def _collect_group(first: _Request, requests: queue.SimpleQueue[_Request | None]) -> tuple[list[_Request], bool]:
    group = [first]
    while len(group) < _GROUP_MOST:
        try:
            request = requests.get_nowait()
        except queue.Empty:
            break
        if request is None:
            return group, True
        group.append(request)
    return group, False


def _value_or_error(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception as exc:
        return exc


def _deliver_outcomes(requests: Sequence[_Request], outcomes: Sequence[Any]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for request, outcome in zip(requests, outcomes, strict=True):
        by_loop.setdefault(request.loop, []).append((request.future, outcome))
    for loop, pairs in by_loop.items():
        # If the loop closed meanwhile, no caller is left to be answered.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle_futures, pairs)


def _settle_futures(pairs: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in pairs:
        if future.cancelled():
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


class _Translating:
    """Context that translates the errors of every statement: one made of a generator would cost as much as its
    content."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, exc: BaseException | None, _trace: object) -> None:
        if isinstance(exc, sqlite3.Error):
            raise _translate_error(exc) from exc


_translated = _Translating()


def _translate_error(exc: Exception) -> Exception:
    if isinstance(exc, CrawlfleetError):
        return exc
    if isinstance(exc, sqlite3.OperationalError):
        translated: Exception = _unavailable_error(exc)
    elif isinstance(exc, sqlite3.Error):
        translated = InvariantBroken(f"SQLite: {exc}")
    else:
        return exc
    translated.__cause__ = exc
    return translated


def _unavailable_error(exc: sqlite3.OperationalError) -> StoreUnavailable:
    if getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"SQLite: {exc}", told="the disk of the store is full")
    return StoreUnavailable(f"SQLite: {exc}")
