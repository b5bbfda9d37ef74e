"""How groups are shown."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from crawlfleet.api.views.tasks import NULL, StatusWord, Time, instant_text
from crawlfleet.control.composites.crawl_summary import CrawlSummary
from crawlfleet.control.composites.groups import Progress
from crawlfleet.model.crawl import CrawlCounts, CrawlState
from crawlfleet.model.group import GroupCounts
from crawlfleet.model.ids import GroupId, execution_text, group_text, task_text
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.ports.composite_store import Member
from crawlfleet.scheduling.explain.task import Explanation
from crawlfleet.wire.groups import ShardSpec

KindWord = Literal["group", "shards", "flow", "crawl"]


class GroupProgress(msgspec.Struct, frozen=True):
    """Members by what became of them: exact, at any moment."""

    total: int
    open: int
    """Have not ended."""
    completed: int
    failed: int
    timeout: int
    cancelled: int
    percent: float
    """Of its members, how many have ended."""
    rate_per_s: float | None
    """Ends per second since it was made; null before the first, and of a group that was finished before."""
    left_s: float | None
    """How long the others take at this rate."""


class GroupFailure(msgspec.Struct, frozen=True):
    task_id: str
    status: StatusWord
    message: str | None


class CrawlChanges(msgspec.Struct, frozen=True):
    """Pages against those of the earlier crawl that it names (`since`)."""

    new: int
    changed: int
    unchanged: int
    gone: int
    """Known when all others were visited."""


class CrawlView(msgspec.Struct, frozen=True):
    """One crawl over many nodes: what its members have reported, together."""

    members: int
    depth: int
    max_pages: int
    pages: int
    """Read."""
    failed: int
    skipped: int
    moved: int
    """Redirected to other pages, which are visited as themselves."""
    found: int
    """Pages it knows."""
    queued: int
    """Of those, not visited yet."""
    leased: int
    """Of those, with a member at this moment."""
    items: int
    data_bytes: int
    percent: float
    """Visited, of what is known or may be visited at most; it may fall while more is found."""
    rate_per_s: float | None
    """Pages per second since it began."""
    lately_per_s: float | None
    """Pages per second of the last ten seconds or so."""
    left_s: float | None
    """How long the pages known so far take at this rate."""
    started_at: Time | None
    finished_at: Time | None
    """When nothing was left to visit, or a limit was reached."""
    stopped_by: str | None
    """The limit that ended it: max_pages, max_seconds or max_bytes."""
    changes: CrawlChanges | None
    """null: it names no earlier one, or has no page yet."""


class GroupView(msgspec.Struct, frozen=True):
    """Tasks as one."""

    id: str
    name: str | None
    project_id: str | None
    kind: KindWord
    created_at: Time
    is_closed: bool
    """No other tasks may join it."""
    is_finished: bool
    """Every member has ended."""
    is_complete: bool
    """Every member has completed."""
    finished_at: Time | None
    """When it was noticed, about a second later at most; null again when a member is retried."""
    progress: GroupProgress
    shard: ShardSpec | None
    """How its task was split."""
    failures: list[GroupFailure]
    """The first of them; only where one group is shown."""
    crawl: CrawlView | None = None
    """Of one crawl over many nodes, how far the whole is."""


class GroupPageView(msgspec.Struct, frozen=True):
    groups: list[GroupView]
    next_cursor: str | None


class GroupWhyView(msgspec.Struct, frozen=True):
    """Why a group stands still. What the cause is about follows, by cause."""

    id: str
    sentence: str
    cause: str
    """As of a task; of hosts that running members wait for, `host_backoff` or `host_budget`."""
    open: int
    """Members that have not ended."""


class RemovedView(msgspec.Struct, frozen=True):
    """What was removed of a group."""

    id: str
    is_gone: bool
    """False: more than one call does; ask again."""
    left: int
    """Members that are still there."""


class GroupResultPage(msgspec.Struct, frozen=True):
    """Items of members that completed, in the order of the members."""

    items: list[msgspec.Raw]
    next_cursor: str | None
    is_complete: bool
    """False: there are members whose items are missing."""
    progress: GroupProgress


class CrawlMetrics(msgspec.Struct, frozen=True):
    pages_crawled: int
    processing_time: float
    """Seconds from its first page to its end."""
    data_size: int
    pages_failed: int
    pages_skipped: int
    pages_moved: int
    items: int
    max_pages: int
    stopped_by: str | None
    changes: CrawlChanges | None
    errors: dict[str, int]
    """Failed pages by class, as those of its members counted them that have completed; so the next three."""
    failures: dict[str, int]
    """By what happened."""
    links_left_out: dict[str, int]
    fields: dict[str, dict[str, float]]
    """By the path of a field: how often it matched, and in how many records it is filled."""


class CrawlResult(msgspec.Struct, frozen=True):
    """What a crawl over many nodes found, in the shape of a single crawl's result."""

    success: bool
    """At least one page was read."""
    data: dict[str, list[msgspec.Raw]]
    """The first `items`; all of them are in the results of the group."""
    items: int
    data_truncated: bool
    metrics: CrawlMetrics
    timestamp: Time
    notes: list[str]
    """What a person should know of it: traps, sitemaps that are broken, fields that never matched."""


class GroupOutcome(msgspec.Struct, frozen=True):
    """What became of a member."""

    task_id: str
    status: StatusWord
    execution_id: str | None
    """The one that completed it."""
    result: msgspec.Raw
    """What its executor gave; null where it did not complete."""
    reason: str | None


class GroupOutcomePage(msgspec.Struct, frozen=True):
    outcomes: list[GroupOutcome]
    next_cursor: str | None


def group_why_view(group: GroupId, why: Explanation) -> dict[str, Any]:
    return {"id": group_text(group), "sentence": why.sentence, **why.data}


def group_view(progress: Progress) -> GroupView:
    group = progress.group
    kind: KindWord = group.kind.word  # type: ignore[assignment]
    finished_at = group.finished_at
    return GroupView(
        group_text(group.id),
        group.name,
        group.project or None,
        kind,
        to_text(group.created_at),
        group.is_closed,
        progress.is_finished,
        progress.is_complete,
        None if finished_at is None else to_text(finished_at),
        progress_view(progress),
        progress.shards,
        [GroupFailure(task_text(failure.task), failure.status.word, failure.message) for failure in progress.failures],  # type: ignore[arg-type]
        None if progress.crawl is None else crawl_view(progress.crawl, progress.read_at),
    )


def progress_view(progress: Progress) -> GroupProgress:
    counts = progress.counts
    percent = 100.0 * counts.ended / counts.total if counts.total else 100.0 * progress.is_finished
    return GroupProgress(
        counts.total, *counts, round(percent, 1), _round_figure(progress.rate_per_s), _round_figure(progress.left_s)
    )


def crawl_view(crawl: CrawlState, now: Instant) -> CrawlView:
    limits, counts = crawl.limits, crawl.counts
    whole = min(crawl.found, limits.max_pages + counts.visited - counts.pages)
    percent = 100.0 if crawl.finished_at is not None else 100.0 * counts.visited / max(1, whole)
    return CrawlView(
        limits.members,
        limits.depth,
        limits.max_pages,
        counts.pages,
        counts.failed,
        counts.skipped,
        counts.moved,
        crawl.found,
        crawl.queued,
        crawl.leased,
        counts.items,
        counts.bytes,
        round(percent, 1),
        _round_figure(crawl.rate_per_s(now)),
        _round_figure(crawl.recent_per_s(now)),
        _round_figure(crawl.left_s(now)),
        instant_text(crawl.started_at),
        instant_text(crawl.finished_at),
        crawl.stopped_by,
        _changes_view(counts),
    )


def crawl_result(crawl: CrawlState, now: Instant, items: list[msgspec.Raw], summary: CrawlSummary) -> CrawlResult:
    counts, until = crawl.counts, crawl.finished_at or now
    spent_s = 0.0 if crawl.started_at is None else (until - crawl.started_at) / 1_000
    metrics = CrawlMetrics(
        counts.pages,
        spent_s,
        counts.bytes,
        counts.failed,
        counts.skipped,
        counts.moved,
        counts.items,
        crawl.limits.max_pages,
        crawl.stopped_by,
        _changes_view(counts),
        dict(summary.errors),
        dict(summary.failures),
        dict(summary.links_left_out),
        {path: dict(counts_by_name) for path, counts_by_name in summary.fields.items()},
    )
    is_cut = len(items) < counts.items
    return CrawlResult(counts.pages > 0, {"items": items}, counts.items, is_cut, metrics, to_text(until), summary.notes)


def _changes_view(counts: CrawlCounts) -> CrawlChanges | None:
    page_counts = (counts.pages_new, counts.pages_changed, counts.pages_unchanged, counts.pages_gone)
    return CrawlChanges(*page_counts) if any(page_counts) else None


def counts_text(counts: GroupCounts) -> str:
    """For a header: `total=8 open=0 completed=7 failed=1 timeout=0 cancelled=0`."""
    return " ".join(f"{name}={n}" for name, n in {"total": counts.total, **counts._asdict()}.items())


def outcome_view(member: Member) -> GroupOutcome:
    return GroupOutcome(
        task_text(member.task),
        member.status.word,  # type: ignore[arg-type]
        None if member.execution is None else execution_text(member.execution),
        NULL if member.result is None else msgspec.Raw(member.result),
        member.reason,
    )


def _round_figure(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 3)
