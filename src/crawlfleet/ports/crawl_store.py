"""Crawls over many nodes: URLs leased in batches and reported with a fence. The rules are those of `ports.store`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from crawlfleet.model.crawl import CrawlCounts, CrawlLimits, CrawlPart, CrawlState, CrawlUrl
from crawlfleet.model.ids import ExecutionId, GroupId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.ports.chunk_store import ChunkKind


class NewCrawl(NamedTuple):
    """A crawl over many nodes that is to be started."""

    limits: CrawlLimits
    seeds: Sequence[CrawlUrl]


class ChunkReport(NamedTuple):
    """The result of a leased URL batch: all of it counts together, or none."""

    number: int
    """Number of the URL batch within the crawl."""
    counts: CrawlCounts = CrawlCounts()
    found: Sequence[CrawlUrl] = ()
    """URLs that the pages of the batch link to; those the crawl knows already are ignored."""
    again: Sequence[CrawlUrl] = ()
    """URLs of the batch that were not visited."""
    first_item: int = 0
    """Number of the first chunk of the execution's items that belongs to the batch."""
    last_item: int = 0
    """End of the batch's chunks of items; the chunk with this number is not included."""
    first_record: int = 0
    """Number of the first chunk of the execution's archive records that belongs to the batch."""
    last_record: int = 0
    """End of the batch's chunks of archive records; the chunk with this number is not included."""


class Asking(NamedTuple):
    """The request of a member of a crawl that reports a URL batch, wants another, or both."""

    node: NodeId
    task: TaskId
    execution: ExecutionId
    report: ChunkReport | None = None
    held: Sequence[int] = ()
    """Numbers of the batches that the member works on, besides the one it reports. A batch that was leased to it and is
    not among them is given to it again: so a lost answer costs nothing."""


class Exchanged(NamedTuple):
    """The answer to a member's request."""

    crawl: GroupId
    state: Literal["stale", "no_crawl", "chunk", "wait", "done"]
    """Result of the request; `stale`: the execution is not live, or the batch is not its own; `no_crawl`: its task
    takes part in no crawl. In both cases nothing has changed."""
    number: int = 0
    """Number of the leased URL batch."""
    urls: Sequence[CrawlUrl] = ()
    is_news: bool = False
    """Whether waiting members would now receive URLs, or learn that the crawl is done."""
    has_more: bool = True
    """Whether this member, which has work now, could lease another batch in advance."""


class CrawlStore(Protocol):
    """Access to the frontiers and the state of crawls over many nodes."""

    async def exchange(self, asking: Asking, now: Instant) -> Exchanged:
        """Apply a report and lease the next URL batch, in one transaction.

        The same report again changes nothing. Batches of executions that are no longer live are leased anew. The pages
        done and leased together never exceed the limit of the crawl. With a depth that matters, pages nearer to the
        start are all visited before the next ones begin, so that every page is known by its shortest path.
        """
        ...

    async def crawls(self, ids: Sequence[GroupId]) -> dict[GroupId, CrawlState]: ...

    async def crawl_parts(self, crawl: GroupId, after: int, limit: int, kind: ChunkKind = "items") -> list[CrawlPart]:
        """Return the parts of reported batches that have items, or archive records, in order of number."""
        ...
