"""Crawls over many nodes: URLs are leased in URL batches, reported with a fence, and each URL is known once.

An exchange holds the crawl's row until the commit, so that exchanges of one crawl follow one another, and after it the
row of its own task: a member that is being lost is lost before its report or after it, never during it. Only
executions that are not live any more lose their URL batches, and those never come to life again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import zstandard

from crawlfleet.errors import InvalidInput
from crawlfleet.model.crawl import (
    FOUND_MAX,
    CrawlCounts,
    CrawlLimits,
    CrawlPart,
    CrawlState,
    CrawlUrl,
    UrlBatchState,
    UrlFlag,
)
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import GroupId
from crawlfleet.model.instants import Instant
from crawlfleet.ports.chunk_store import ChunkKind
from crawlfleet.ports.composite_store import Asking, ChunkReport, Exchanged
from crawlfleet.ports.task_store import NewCrawl
from crawlfleet.scheduling.crawls.url_batches import (
    CLOSING,
    OpenUrlBatch,
    UrlLease,
    WorkForecast,
    forecast_work,
    limit_reached,
    next_lease,
    pack_batches,
    url_level,
)
from crawlfleet.store import row_codec, schema
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.tasks.transaction_log import write_events

MARK_MS = 10_000
"""Span between the two instants from which the recent rate is counted."""
PROGRESS_EVENT_MS = 5_000
"""Shortest span between two progress events of a crawl."""
MAX_SHED_ROWS = 20_000
MAX_EXTRA_BATCHES = 50
"""Number of waiting URL batches, beyond two for each member, that are read for a lease: small ones are leased
together."""
_COLUMNS = tuple(column.name for column in schema.crawl.columns)
_NEW_BATCH: dict[str, Any] = dict.fromkeys((column.name for column in schema.crawl_chunk.columns), 0)
"""Values of a new row of `crawl_chunk`, a URL batch that no member has."""
MEMBER_OF = "SELECT group_id FROM live WHERE id = $1 AND execution = $2 AND node = $3"
HOLD_MEMBER = f"{MEMBER_OF} SHARE_ROWS(live)"
HOLD_CRAWL = f"SELECT {', '.join(_COLUMNS)} FROM crawl WHERE id = $1 LOCK_ROWS(crawl)"
CRAWLS = f"SELECT {', '.join(_COLUMNS)} FROM crawl WHERE id AMONG($1)"
LEASED_URLS = (
    "SELECT crawl, SUM(count) FROM crawl_chunk "
    f"WHERE crawl AMONG($1) AND state = {UrlBatchState.LEASED:d} GROUP BY crawl"
)
TAKE_BACK = (
    f"UPDATE crawl_chunk SET state = {UrlBatchState.WAITING:d}, task = 0, execution = 0 "
    f"WHERE crawl = $1 AND state = {UrlBatchState.LEASED:d} AND NOT EXISTS ("
    "SELECT 1 FROM live l WHERE l.id = crawl_chunk.task AND l.execution = crawl_chunk.execution)"
)
CHUNK = "SELECT state, execution, count FROM crawl_chunk WHERE crawl = $1 AND number = $2"
END_CHUNK = (
    f"UPDATE crawl_chunk SET state = {UrlBatchState.DONE:d}, urls = NULL, first_item = $3, last_item = $4, "
    "first_record = $5, last_record = $6 WHERE crawl = $1 AND number = $2"
)
_OPEN = row_codec.sql_values(OpenUrlBatch._fields, {"urls": "count"})
LEASED = (
    f"SELECT {_OPEN}, execution, urls FROM crawl_chunk "
    f"WHERE crawl = $1 AND state = {UrlBatchState.LEASED:d} ORDER BY depth, number"
)
WAITING = (
    f"SELECT {_OPEN} FROM crawl_chunk "
    f"WHERE crawl = $1 AND state = {UrlBatchState.WAITING:d} ORDER BY depth, number LIMIT $2"
)
URLS = "SELECT urls FROM crawl_chunk WHERE crawl = $1 AND number AMONG($2) ORDER BY number"
LEASE = (
    f"UPDATE crawl_chunk SET state = {UrlBatchState.LEASED:d}, task = $3, execution = $4, count = $5, urls = $6 "
    "WHERE crawl = $1 AND number = $2"
)
JOINED = "DELETE FROM crawl_chunk WHERE crawl = $1 AND number AMONG($2)"
_CHANGING_COLUMNS = tuple(name for name in _COLUMNS if name not in ("id", *CrawlLimits._fields))
"""Columns of `crawl` that change while a crawl goes on."""
UPDATE_CRAWL = (
    f"UPDATE crawl SET {', '.join(f'{name} = ${n}' for n, name in enumerate(_CHANGING_COLUMNS, 2))} WHERE id = $1"
)
_PART = row_codec.sql_values(CrawlPart._fields, {"first": "first_item", "last": "last_item"})
PARTS = (
    f"SELECT {_PART} FROM crawl_chunk WHERE crawl = $1 AND number > $2 "
    f"AND state = {UrlBatchState.DONE:d} AND last_item > first_item ORDER BY number LIMIT $3"
)
RECORD_PARTS = PARTS.replace("_item", "_record")
SHED_SOME = (
    "DELETE FROM crawl_seen WHERE crawl = $1 AND hash IN (SELECT hash FROM crawl_seen WHERE crawl = $1 LIMIT $2)"
)
SHED_CHUNKS = (
    "DELETE FROM crawl_chunk WHERE crawl = $1 AND number IN (SELECT number FROM crawl_chunk WHERE crawl = $1 LIMIT $2)"
)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[CrawlUrl]).decode


class CrawlTables:
    _engine: QueryEngine

    async def exchange_batches(self, asking: Asking, now: Instant) -> Exchanged:
        return await self._engine.write(lambda tx: _exchange_urls(tx, asking, now))

    async def crawl_states(self, ids: Sequence[GroupId]) -> dict[GroupId, CrawlState]:
        async def read_crawls(tx: Tx) -> tuple[Sequence[Row], dict[GroupId, int]]:
            rows = await tx.fetch(CRAWLS, list(ids))
            leased = await tx.fetch(LEASED_URLS, [row[0] for row in rows]) if rows else ()
            return rows, {crawl: int(count) for crawl, count in leased}

        rows, leased = await self._engine.read_by_key(read_crawls)
        return {row[0]: _crawl_state(dict(zip(_COLUMNS, row, strict=True)), leased.get(row[0], 0)) for row in rows}

    async def crawl_parts(self, crawl: GroupId, after: int, limit: int, kind: ChunkKind = "items") -> list[CrawlPart]:
        sql = RECORD_PARTS if kind == "warc" else PARTS
        rows = await self._engine.browse_rows(lambda tx: tx.fetch(sql, crawl, after, limit))
        return [CrawlPart._make(row) for row in rows]


async def add_crawl(tx: Tx, crawl: GroupId, new: NewCrawl, now: Instant) -> None:
    """Add a crawl with its seeds, in the transaction that creates its group."""
    row: dict[str, Any] = dict.fromkeys(_COLUMNS, 0) | new.limits._asdict()
    row |= {"id": crawl, "started_at": None, "finished_at": None, "stopped_by": None, "older_at": now, "newer_at": now}
    update = _CrawlUpdate(tx, row, now)
    await update.add_urls(new.seeds)
    await tx.insert(schema.crawl, _COLUMNS, [tuple(update.row[name] for name in _COLUMNS)])


async def shed_urls(tx: Tx, groups: Sequence[GroupId], limit: int = MAX_SHED_ROWS) -> set[GroupId]:
    """Delete at most `limit` rows of URLs that crawls among these groups knew; return the crawls that still have some.

    A large crawl is not deleted in one transaction: all other writers would have to wait for it.
    """
    crawls = await tx.fetch("SELECT id FROM crawl WHERE id AMONG($1) ORDER BY id", list(groups)) if groups else ()
    unfinished = {crawl for (crawl,) in crawls}
    for (crawl,) in crawls:
        for sql in (SHED_SOME, SHED_CHUNKS):
            limit -= await tx.execute(sql, crawl, limit)
            if limit <= 0:
                return unfinished
        unfinished.remove(crawl)
    return unfinished


async def forget_crawls(tx: Tx, ids: Sequence[GroupId]) -> None:
    crawls = [row[0] for row in await tx.fetch("SELECT id FROM crawl WHERE id AMONG($1)", list(ids))]
    if crawls:
        for sql in ("crawl_seen WHERE crawl", "crawl_chunk WHERE crawl", "crawl WHERE id"):
            await tx.execute(f"DELETE FROM {sql} AMONG($1)", crawls)


async def _exchange_urls(tx: Tx, asking: Asking, now: Instant) -> Exchanged:
    member = (asking.task, asking.execution, asking.node)
    member_rows = await tx.fetch(MEMBER_OF, *member)
    if not member_rows:
        return Exchanged(0, "stale")
    crawl = member_rows[0][0]
    rows = await tx.fetch(HOLD_CRAWL, crawl) if crawl is not None else ()
    if not rows:
        return Exchanged(0, "no_crawl")
    # Read again once the crawl is locked: the member may have ended while other exchanges of the crawl had their turn.
    if not await tx.fetch(HOLD_MEMBER, *member):
        return Exchanged(crawl, "stale")
    update = _CrawlUpdate(tx, dict(zip(_COLUMNS, rows[0], strict=True)), now)
    if asking.report is not None and not await update.apply_report(asking.report, asking):
        return Exchanged(update.id, "stale")
    update.is_changed |= bool(await tx.execute(TAKE_BACK, update.id))
    answer = await update.lease_urls(asking)
    await update.write_row()
    return answer


class _CrawlUpdate:
    """The work on one crawl in one transaction; its row is locked, and written back at the end."""

    def __init__(self, tx: Tx, row: dict[str, Any], now: Instant) -> None:
        self._tx = tx
        self._now = now
        self._before = dict(row)
        self.row = row
        self.id: GroupId = row["id"]
        self.limits = CrawlLimits(*(row[name] for name in CrawlLimits._fields))
        self.is_changed = False

    async def apply_report(self, report: ChunkReport, asking: Asking) -> bool:
        """Apply the report of a URL batch; return False for a batch that is not leased to this execution."""
        rows = await self._tx.fetch(CHUNK, self.id, report.number)
        state, execution, count = rows[0] if rows else (UrlBatchState.WAITING, 0, 0)
        if execution != asking.execution or state == UrlBatchState.WAITING:
            return False
        if state == UrlBatchState.DONE:
            return True  # reported before; the answer was lost
        if report.counts.pages + len(report.again) > count:
            raise InvalidInput(f"a chunk of {count} URLs", field="report.counts")
        left = (report.first_item, report.last_item, report.first_record, report.last_record)
        await self._tx.execute(END_CHUNK, self.id, report.number, *left)
        for name, n in report.counts._asdict().items():
            self.row[name] += n
        await self._add_batches(report.again)
        await self.add_urls(report.found)
        self.is_changed = True
        return True

    async def add_urls(self, urls: Iterable[CrawlUrl]) -> None:
        """Add the URLs that are new to the crawl."""
        by_key: dict[bytes, CrawlUrl] = {}
        for url in urls:
            earlier = by_key.setdefault(url.key, url)
            if url.depth < earlier.depth:
                by_key[url.key] = url
        if not by_key or self.row["found"] >= FOUND_MAX:
            return
        new = await self._tx.add_seen(self.id, list(by_key))
        fresh = [url for key, url in by_key.items() if key in new]
        self.row["found"] += sum(1 for url in fresh if not url.flags & (UrlFlag.SITEMAP | UrlFlag.CLOSING))
        await self._add_batches(fresh)

    async def lease_urls(self, asking: Asking) -> Exchanged:
        rows = await self._tx.fetch(LEASED, self.id)
        for number, *_, execution, urls in rows:
            if execution == asking.execution and number not in asking.held:
                return Exchanged(self.id, "chunk", number, unpack_urls(urls), self.is_changed)
        leased = [OpenUrlBatch._make(batch) for *batch, _, _ in rows]
        max_batches = 2 * self.limits.members + MAX_EXTRA_BATCHES
        waiting = [OpenUrlBatch._make(row) for row in await self._tx.fetch(WAITING, self.id, max_batches)]
        # When every page was visited, no limit kept any of them away.
        stopped_by = None if waiting and waiting[0].depth == CLOSING else self._reached_limit()
        if not leased and (stopped_by is not None or not waiting):
            is_new = self._mark_finished(stopped_by if waiting else None)
            return Exchanged(self.id, "done", is_news=is_new)
        url_lease = None
        if stopped_by is None:
            url_lease = next_lease(self.limits, self.row["pages"], waiting, leased, is_busy=bool(asking.held))
        if url_lease is None:
            is_news = self.is_changed and stopped_by is None and self._remaining_work(waiting, leased).for_waiting
            return Exchanged(self.id, "wait", is_news=is_news)
        first, given, rest = await self._lease_batches(url_lease, asking)
        depth = waiting[0].depth
        left = [batch for batch in waiting if batch.number not in url_lease.numbers]
        left[:0] = [OpenUrlBatch(0, depth, len(rest))] if rest else []
        # A list that was cut at its limit may go on: only its first URL batches were read.
        remaining = self._remaining_work(
            left, [*leased, OpenUrlBatch(first, depth, len(given))], is_cut=len(waiting) == max_batches
        )
        return Exchanged(self.id, "chunk", first, given, self.is_changed and remaining.for_waiting, remaining.for_busy)

    def _remaining_work(
        self, waiting: Sequence[OpenUrlBatch], leased: Sequence[OpenUrlBatch], *, is_cut: bool = False
    ) -> WorkForecast:
        return WorkForecast(True, True) if is_cut else forecast_work(self.limits, self.row["pages"], waiting, leased)

    async def _lease_batches(self, url_lease: UrlLease, asking: Asking) -> tuple[int, list[CrawlUrl], list[CrawlUrl]]:
        """Lease URL batches as one; return its number, its URLs, and the URLs that are left of the batches it was made
        of."""
        (first, *others), max_urls = url_lease
        blobs = await self._tx.fetch(URLS, self.id, list(url_lease.numbers))
        urls = [url for (blob,) in blobs for url in unpack_urls(blob)]
        if others:
            await self._tx.execute(JOINED, self.id, others)
        given, rest = urls[:max_urls], urls[max_urls:]
        await self._tx.execute(LEASE, self.id, first, asking.task, asking.execution, len(given), _pack_urls(given))
        await self._add_batches(rest)
        if self.row["started_at"] is None:
            self.row |= {"started_at": self._now, "older_at": self._now, "newer_at": self._now}
        # A member works again on a crawl that was taken for finished.
        self.row |= {"finished_at": None, "stopped_by": None}
        return first, given, rest

    async def write_row(self) -> None:
        if self._now - self.row["newer_at"] >= MARK_MS:
            self.row |= {"older_at": self.row["newer_at"], "older_pages": self.row["newer_pages"]}
            self.row |= {"newer_at": self._now, "newer_pages": self.row["pages"]}
        if self._is_event_due():
            self.row["told_at"] = self._now
            await write_events(self._tx, [_progress_event(_crawl_state(self.row, 0), self._now)], self._now)
        if self.row != self._before:
            await self._tx.execute(UPDATE_CRAWL, self.id, *(self.row[name] for name in _CHANGING_COLUMNS))

    def _is_event_due(self) -> bool:
        """Return whether a progress event is due: at intervals while the crawl goes on, and when it is finished."""
        if self.row["finished_at"] != self._before["finished_at"]:
            return self.row["finished_at"] is not None
        is_moving = any(self.row[name] != self._before[name] for name in CrawlCounts._fields)
        return is_moving and self._now - self.row["told_at"] >= PROGRESS_EVENT_MS

    async def _add_batches(self, urls: Sequence[CrawlUrl]) -> None:
        if not urls:
            return
        waiting = len(await self._tx.fetch(WAITING, self.id, 2 * self.limits.members))
        rows = []
        for batch in pack_batches(urls, waiting=waiting, members=self.limits.members):
            self.row["chunks"] += 1
            number = self.row["chunks"]
            row = _NEW_BATCH | {
                "crawl": self.id,
                "number": number,
                "state": int(UrlBatchState.WAITING),
                "depth": url_level(batch[0]),
                "count": len(batch),
                "urls": _pack_urls(batch),
            }
            rows.append(tuple(row.values()))
        await self._tx.insert(schema.crawl_chunk, tuple(_NEW_BATCH), rows)

    def _reached_limit(self) -> str | None:
        started_at = self.row["started_at"]
        spent_ms = 0 if started_at is None else self._now - started_at
        return limit_reached(self.limits, self.row["pages"], self.row["bytes"], spent_ms)

    def _mark_finished(self, stopped_by: str | None) -> bool:
        """Mark the crawl as finished; return False if it was already."""
        if self.row["finished_at"] is not None:
            return False
        self.row |= {"finished_at": self._now, "stopped_by": stopped_by}
        return True


def _progress_event(crawl: CrawlState, now: Instant) -> EventBatch:
    rate = crawl.rate_per_s(now) if crawl.finished_at is not None else crawl.recent_per_s(now) or crawl.rate_per_s(now)
    left_s = crawl.left_s(now)
    return EventBatch(
        Kind.CRAWL_PROGRESS,
        shared={
            "group": crawl.id,
            **crawl.counts._asdict(),
            "found": crawl.found,
            "queued": crawl.queued,
            "rate_per_s": None if rate is None else round(rate, 3),
            "left_s": None if left_s is None else round(left_s, 3),
            "is_finished": crawl.finished_at is not None,
            "stopped_by": crawl.stopped_by,
        },
    )


def _pack_urls(urls: Sequence[CrawlUrl]) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(_encode(urls))


def unpack_urls(blob: bytes) -> list[CrawlUrl]:
    return _decode(zstandard.ZstdDecompressor().decompress(bytes(blob)))


def _crawl_state(row: dict[str, Any], leased: int) -> CrawlState:
    return CrawlState(
        row["id"],
        CrawlLimits(*(row[name] for name in CrawlLimits._fields)),
        CrawlCounts(*(row[name] for name in CrawlCounts._fields)),
        row["found"],
        leased,
        row["started_at"],
        row["finished_at"],
        row["stopped_by"],
        (row["older_at"], row["older_pages"]),
        row["chunks"],
    )
