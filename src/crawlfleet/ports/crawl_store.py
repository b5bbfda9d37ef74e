"""Crawls over many nodes: URLs leased in chunks and reported with a fence. The rules are those of `ports.store`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from crawlfleet.model.crawl import CrawlCounts, CrawlLimits, CrawlPart, CrawlState, CrawlUrl
from crawlfleet.model.ids import ExecutionId, GroupId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.ports.chunk_store import ChunkKind


class NewCrawl(NamedTuple):
    limits: CrawlLimits
    seeds: Sequence[CrawlUrl]


class ChunkReport(NamedTuple):
    """What became of a leased chunk: all of it counts together, or none."""

    number: int
    counts: CrawlCounts = CrawlCounts()
    found: Sequence[CrawlUrl] = ()
    """URLs it led to; those the crawl knows are passed over."""
    again: Sequence[CrawlUrl] = ()
    """URLs of the chunk that were not visited."""
    first_item: int = 0
    last_item: int = 0
    """Its items are these chunks of the execution's items; the last one not included."""
    first_record: int = 0
    last_record: int = 0
    """And its archive these chunks of the execution's records."""


class Asking(NamedTuple):
    """A member of a crawl that reports a chunk, wants another, or both."""

    node: NodeId
    task: TaskId
    execution: ExecutionId
    report: ChunkReport | None = None
    held: Sequence[int] = ()
    """Chunks it works on, besides the one it reports. What was leased to it and is not among them, it is given again:
    so an answer that was lost costs nothing."""


class Exchanged(NamedTuple):
    crawl: GroupId
    state: Literal["stale", "no_crawl", "chunk", "wait", "done"]
    """`stale`: not a live execution, or not its chunk; `no_crawl`: its task takes part in none. Nothing has changed."""
    number: int = 0
    urls: Sequence[CrawlUrl] = ()
    is_news: bool = False
    """Those who wait would get something now, or hear that it is done."""
    has_more: bool = True
    """Whether this one, which works now, could have another chunk in advance."""


class CrawlStore(Protocol):
    async def exchange(self, asking: Asking, now: Instant) -> Exchanged:
        """Take a report and lease the next chunk, in one transaction.

        The same report again changes nothing. Chunks of executions that are no longer live are leased anew. Never are
        more pages done and leased than the crawl may have. With a depth that matters, pages nearer to the start are
        all visited before the next ones begin, so that every page is known by its nearest way.
        """
        ...

    async def crawls(self, ids: Sequence[GroupId]) -> dict[GroupId, CrawlState]: ...

    async def crawl_parts(self, crawl: GroupId, after: int, limit: int, kind: ChunkKind = "items") -> list[CrawlPart]:
        """Of reported chunks that have items, or records of an archive, in order of number."""
        ...
