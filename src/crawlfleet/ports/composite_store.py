"""What consists of several tasks: groups, flows, crawls over many nodes; and the products and cookies of their pages.

The rules are those of `ports.store`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from crawlfleet.model.cookie import CookieJarSummary, CookieRecord
from crawlfleet.model.crawl import CrawlCounts, CrawlPart, CrawlState, CrawlUrl
from crawlfleet.model.flow import PlaceInFlow, StepKey, StepSpec, Unrun
from crawlfleet.model.group import Group, GroupCounts, GroupKind
from crawlfleet.model.ids import ExecutionId, GroupId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.product import ChangeKind, Product, ProductChange, ProductKey, ProductRecord, SyncCounts
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.chunk_store import ChunkKind
from crawlfleet.ports.record_page import RecordPage
from crawlfleet.ports.task_store import Applied, Claim, NewTask


class Member(NamedTuple):
    """A task of a group, with the result of the execution that completed it."""

    task: TaskId
    status: TaskStatus
    execution: ExecutionId | None
    """Id of the execution that completed the task; None where none did."""
    result: bytes | None
    metrics: bytes | None
    reason: str | None


class MemberFailure(NamedTuple):
    """A member of a group that failed, with its error message."""

    task: TaskId
    status: TaskStatus
    message: str | None


class GroupStore(Protocol):
    """Access to groups of tasks and their members; members are added by `TaskStore.add_tasks`."""

    async def load_groups(self, ids: Sequence[GroupId]) -> dict[GroupId, Group]: ...

    async def list_groups(
        self, limit: int, before: GroupId | None = None, project: str | None = None, kind: GroupKind | None = None
    ) -> list[Group]:
        """List groups, newest first."""
        ...

    async def group_counts(self, ids: Sequence[GroupId]) -> dict[GroupId, GroupCounts]:
        """Return the counts of groups from counters: exact at any time, at a cost independent of the group's size."""
        ...

    async def count_members(self, group: GroupId) -> GroupCounts:
        """Return the same counts by counting rows: slow, for checks."""
        ...

    async def list_members(
        self, group: GroupId, after: TaskId, limit: int, *, with_results: bool = True
    ) -> list[Member]:
        """Return members in order of id, which is the order of shards."""
        ...

    async def walk_members(self, group: GroupId, after: TaskId, limit: int) -> list[tuple[TaskId, bool]]:
        """Return the next members in order of id, each with whether it is open."""
        ...

    async def ended_members(
        self, group: GroupId, statuses: Sequence[TaskStatus], after: TaskId, limit: int
    ) -> list[TaskId]:
        """Return members that ended with these statuses, in order of id.

        The status completed is not supported: there is no index of completed members.
        """
        ...

    async def member_failures(self, group: GroupId, limit: int) -> list[MemberFailure]:
        """Return the first members that failed or timed out."""
        ...

    async def close_group(self, group: GroupId) -> bool:
        """Close a group for new members; a concurrent submission has either joined or is refused.

        Returns False when there is no such group.
        """
        ...

    async def remove_group(self, group: GroupId) -> bool:
        """Remove a group without members; False while it has some, and while a large crawl is not entirely removed."""
        ...


class NewStep(NamedTuple):
    """A step of a flow that is to be added."""

    key: StepKey
    task: NewTask
    spec: StepSpec


class NewFlow(NamedTuple):
    """A flow that is to be added."""

    id: GroupId
    project: str
    name: str | None
    created_at: Instant
    steps: Sequence[NewStep]
    """Steps in an order in which parents come first."""
    limited: Collection[str] = ()
    """The flow's project, if it has quotas on waiting tasks: if one is exceeded, nothing of the flow is accepted."""


class AddedFlow(NamedTuple):
    """The answer to a flow that was added."""

    id: GroupId
    applied: Applied
    """Effects on tasks, for the broker's hints."""
    is_replay: bool = False
    """Whether an earlier request under the same idempotency key added the flow."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step of a flow, as people see it."""

    key: StepKey
    task: TaskId
    task_type: str
    status: TaskStatus
    round: int
    waits: int
    """Number of parents that the step still waits for."""
    reason: str | None
    """Reason of the step's status, for people."""
    unrun: Unrun
    """Why a step that ended cancelled was never run by its flow."""
    spec: StepSpec
    created_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    items: Mapping[TaskStatus, int] | None
    """Number of the tasks that the step fanned out into, by status; None before, and for a step without fan-out."""


class StepTally(NamedTuple):
    """The number of steps of a flow that have one status."""

    status: TaskStatus
    unrun: Unrun
    steps: int


class FlowStore(Protocol):
    """Access to flows and their steps: a graph of tasks that is added as one, read, and resumed."""

    async def add_flow(self, flow: NewFlow, claim: Claim | None, now: Instant) -> AddedFlow:
        """Add every step as a task that waits for its parents; steps without parents are decided upon at once.

        A known claim returns the flow that it first returned, or raises IdempotencyMismatch.
        """
        ...

    async def resume_flow(self, flow: GroupId, now: Instant) -> Applied:
        """Begin the next round of the steps that ended badly, and of those after them that did not complete.

        Completed steps stay as they are; a step waits for those of its parents that run again. Nothing is changed where
        nothing is to do.
        """
        ...

    async def flow_steps(self, flow: GroupId) -> list[StepRecord]:
        """Return the steps of a flow, parents first."""
        ...

    async def flow_tallies(self, flows: Sequence[GroupId]) -> dict[GroupId, list[StepTally]]: ...

    async def place_in_flow(self, task: TaskId) -> PlaceInFlow | None:
        """Return the position of a task in its flow; None for a task that is in no flow."""
        ...

    async def unrun_result(self, task: TaskId) -> bytes | None:
        """Return the result that a step collected from its items, without an execution of its own."""
        ...


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


class CookieChanges(NamedTuple):
    """The changes that a live execution makes to a jar of its project."""

    node: NodeId
    task: TaskId
    execution: ExecutionId
    jar: str
    """Name of the jar; the empty name is the jar of its task, or of the crawl that the task takes part in."""
    changes: Sequence[CookieRecord]


class CrawlStore(Protocol):
    """Access to the frontiers and the state of crawls over many nodes, and to the cookie jars of projects.

    URLs are leased in batches and reported with a fence. There is one cookie jar per project and name.
    """

    async def exchange_batches(self, asking: Asking, now: Instant) -> Exchanged:
        """Apply a report and lease the next URL batch, in one transaction.

        The same report again changes nothing. Batches of executions that are no longer live are leased anew. The pages
        done and leased together never exceed the limit of the crawl. With a depth that matters, pages nearer to the
        start are all visited before the next ones begin, so that every page is known by its shortest path.
        """
        ...

    async def crawl_states(self, ids: Sequence[GroupId]) -> dict[GroupId, CrawlState]: ...

    async def crawl_parts(self, crawl: GroupId, after: int, limit: int, kind: ChunkKind = "items") -> list[CrawlPart]:
        """Return the parts of reported batches that have items, or archive records, in order of number."""
        ...

    async def merge_cookie_jar(self, wanted: CookieChanges, now: Instant) -> list[CookieRecord] | None:
        """Write the changes into the jar and return the whole jar.

        Returns None, and writes nothing, when the execution is no longer live. Without changes nothing is written
        either.
        """
        ...

    async def cookie_jars(self, project: str | None, limit: int) -> list[CookieJarSummary]:
        """List the jars by project and name."""
        ...

    async def remove_cookie_jar(self, project: str, name: str) -> bool:
        """Remove a jar; returns whether there was one."""
        ...


class ProductBatch(NamedTuple):
    """Products that a live execution has seen."""

    node: NodeId
    task: TaskId
    execution: ExecutionId
    products: Sequence[Product]


class ProductFilter(NamedTuple):
    """The conditions of a list of products."""

    project: str | None = None
    shop: str | None = None
    product_id: str | None = None
    """The shop's own id of the product, exactly."""
    changed_since: Instant | None = None
    """Instant since which the product is new, changed, gone or back."""
    is_gone: bool | None = None


class ProductStore(Protocol):
    """Access to products of shops: a set per project and shop, upserted by id.

    `TaskStore.complete_executions` writes an outcome's products in the transaction that accepts it.
    """

    async def put_products(self, batch: ProductBatch, now: Instant) -> bool:
        """Write products. Returns False, and writes nothing, when the execution is no longer live.

        The same batch again changes nothing but when its products were seen.
        """
        ...

    async def list_products(
        self, where: ProductFilter, limit: int, after: ProductKey | None = None
    ) -> RecordPage[ProductRecord]:
        """Return a page of products in order of their keys."""
        ...

    async def find_product(self, key: ProductKey) -> ProductRecord | None: ...

    async def product_changes(self, key: ProductKey) -> list[ProductChange]:
        """Return the changes of a product, the newest first; only the last `CHANGES_KEPT` are kept."""
        ...

    async def unseen_products(
        self, project: str, shop: str, since: Instant, after: ProductKey, limit: int
    ) -> list[ProductRecord]:
        """Return products that were not seen since then and are not known to be gone, in order of their keys."""
        ...

    async def sync_counts(self, project: str, shop: str, since: Instant) -> SyncCounts: ...

    async def synced_products(
        self, project: str, shop: str, since: Instant, kind: ChangeKind, after: ProductKey, limit: int
    ) -> list[ProductRecord]:
        """Return the products that are new, changed or gone since then, as `sync_counts` counts them."""
        ...
