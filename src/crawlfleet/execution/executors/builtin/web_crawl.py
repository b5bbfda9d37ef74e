"""Task type `web_crawl`: crawls pages from start URLs to a depth, and extracts records with selectors."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from crawlfleet.execution.crawl.schemas.extract import DEFS, EXTRACT, PAGE, SELECTORS
from crawlfleet.execution.crawl.schemas.fetch import fetch_properties
from crawlfleet.execution.crawl.schemas.follow import follow_properties
from crawlfleet.execution.sdk import Executor, MasterLink, TaskContext, TaskError

if TYPE_CHECKING:
    from crawlfleet.execution.crawl.engine.collected_items import CollectedItems
    from crawlfleet.execution.crawl.engine.crawl import Crawl
    from crawlfleet.execution.crawl.engine.plan import CrawlPlan
    from crawlfleet.execution.crawl.fetch.cookies import CookieSession
    from crawlfleet.execution.crawl.record.page_notes import EarlierNotes, PageNotes
    from crawlfleet.execution.crawl.shared.shared_frontier import SharedFrontier
    from crawlfleet.execution.process_state.proxy_pool import ProxyRotation

URL = {
    "type": "string",
    "maxLength": 4_096,
    "description": "an http or https URL with a host",
    # The pattern requires a scheme and a host; the rest of the URL is checked when it is parsed.
    "pattern": r"^\s*[hH][tT][tT][pP][sS]?://([^/?#\s@]*@)?[^/?#\s@:]",
}
URLS_MAX = 10_000
NO_LIMIT = 1 << 62
MAX_SHOWN_URLS = 20
_ITEMS = msgspec.json.Decoder(dict[str, Any])


class WebCrawl(Executor):
    task_type = "web_crawl"
    schema = {  # noqa: RUF012 - declared as a constant of the class by its base
        "type": "object",
        "properties": {
            "url": URL,
            "urls": {"type": "array", "items": URL, "minItems": 1, "maxItems": URLS_MAX},
            "depth": {"type": "integer", "minimum": 0, "maximum": 1_000},
            "max_pages": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
            "max_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 30 * 86_400},
            "max_bytes": {"type": "integer", "minimum": 1},
            "same_host": {"type": "boolean"},
            **follow_properties(URL),
            "selectors": SELECTORS,
            "extract": EXTRACT,
            "page": PAGE,
            "respect_robots": {"type": "boolean"},
            "obey_noindex": {"type": "boolean"},
            "user_agent": {
                "type": "string",
                "description": "1 to 300 printable ASCII characters",
                "pattern": r"^[\x21-\x7e][\x20-\x7e]{0,299}$",
            },
            **fetch_properties(),
            "keep_pages": {"type": "boolean"},
            "keep_unchanged": {"type": "boolean"},
            "since": {
                "type": "string",
                "pattern": "^(task|group)-[0-9a-f]{16}$",
                "description": "the id of an earlier task, or of the group of a crawl over many nodes",
            },
            "delay_s": {"type": "number", "minimum": 0, "maximum": 3_600},
            "concurrency": {"type": "integer", "minimum": 1, "maximum": 64},
            "archive": {"enum": ["warc"]},
            "spread": {
                "type": "boolean",
                "description": "set for the members of one crawl over many nodes",
                "x-internal": True,
            },
        },
        "anyOf": [{"required": ["url"]}, {"required": ["urls"]}],
        "additionalProperties": False,
        "$defs": DEFS,
    }

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        from crawlfleet.execution.crawl.fetch import header_profiles
        from crawlfleet.execution.crawl.frontier import follow_config
        from crawlfleet.execution.crawl.parse.extract import extraction_plan

        problems = [(problem.path, problem.detail) for problem in extraction_plan.find_plan_problems(parameters)]
        return problems + follow_config.find_follow_problems(parameters) + header_profiles.header_problems(parameters)

    async def run(self, context: TaskContext) -> Any:
        # Every process lists the built-in types; only one that crawls needs the engine.
        from crawlfleet.execution.crawl.engine.collected_items import CollectedItems
        from crawlfleet.execution.crawl.engine.crawl import Crawl
        from crawlfleet.execution.crawl.fetch.fetcher import Fetcher
        from crawlfleet.execution.crawl.parse.page_parser import NO_MARKS
        from crawlfleet.execution.crawl.parse.parser_dispatch import PageParser
        from crawlfleet.execution.crawl.record.warc_writer import Archive
        from crawlfleet.execution.crawl.shared.shared_crawl_member import AHEAD, CrawlMember
        from crawlfleet.execution.crawl.shared.shared_crawl_seeds import MEMBER
        from crawlfleet.execution.crawl.shared.shared_frontier import BatchItems, SharedFrontier
        from crawlfleet.execution.crawl.shared.shared_page_notes import SharedPageNotes
        from crawlfleet.network.address_guard import AddressGuard

        began = time.monotonic()
        plan = _build_plan(context)
        try:
            guard = AddressGuard(context.allow_hosts)
        except ValueError as exc:
            raise TaskError(f"allowed hosts: {exc}", error="policy", permanent=True) from exc
        proxies = select_proxies(context)
        archive = Archive(context.record) if "archive" in context.parameters else None
        pagination = plan.follow_config.pagination
        frontier = None
        collected = CollectedItems(context.item, plan.extraction)
        if context.parameters.get(MEMBER, False):
            frontier = SharedFrontier()
            collected = BatchItems(frontier, plan.extraction)
        book = await _open_page_notes(context, frontier)
        reader = PageParser(plan.extraction, marks=pagination.marks if pagination is not None else NO_MARKS)
        try:
            async with (
                open_kept_cookies(context) as cookies,
                Fetcher(
                    guard,
                    user_agent=plan.user_agent,
                    credentials=plan.credentials,
                    gate=context.gate,
                    meter=context.meter,
                    headers=plan.headers,
                    proxies=proxies,
                    record_page=None if archive is None else archive.write_exchange,
                    cookies=cookies,
                ) as fetcher,
            ):
                crawl = Crawl(
                    plan,
                    fetcher=fetcher,
                    reader=reader,
                    collected_items=collected,
                    report=context,
                    gate=context.gate,
                    frontier=frontier,
                    robots=context.robots if plan.is_plain else None,
                    is_own_address=proxies is None,
                    page_notes=book,
                )
                if frontier is None:
                    await crawl.run()
                else:
                    batch_notes = book if isinstance(book, SharedPageNotes) else None
                    # WARC records are sent as they come: those between two reports belong to one URL batch only if the
                    # member holds one at a time.
                    ahead = AHEAD if archive is None else 1
                    await CrawlMember(
                        crawl, frontier, _require_master(context), context.item, batch_notes, ahead=ahead
                    ).run()
        finally:
            await reader.close()
        await collected.finish()
        if frontier is None and not crawl.starts_reached:
            raise start_failure(plan, crawl)
        if book is not None and frontier is None:
            await book.finish(is_whole=crawl.stopped_by is None)
        result = _build_result(plan, crawl, collected, time.monotonic() - began)
        result["metrics"] |= _change_metrics(context, book)
        if archive is not None:
            result["metrics"]["archive"] = archive.summary()
        return result


def _build_plan(context: TaskContext) -> CrawlPlan:
    from crawlfleet.execution.crawl.engine.plan import make_crawl_plan
    from crawlfleet.execution.crawl.frontier.patterns import BadRule
    from crawlfleet.execution.crawl.parse.extract.extraction_plan import BadPlan

    try:
        plan = make_crawl_plan(context.parameters)
    except (BadPlan, BadRule) as exc:
        raise TaskError(str(exc), error="input", permanent=True) from exc
    for bad in plan.bad_urls[:MAX_SHOWN_URLS]:
        context.log(f"input: {bad}", "warning")
    if not plan.urls:
        raise TaskError(plan.bad_urls[0], error="input", permanent=True)
    if context.parameters.get("spread", False):
        # The master keeps limits and start URLs for the whole crawl.
        return replace(plan, urls=(), max_pages=NO_LIMIT, is_default_limit=False, max_seconds=None, max_bytes=None)
    if plan.is_default_limit:
        context.log(f"no max_pages was given: {plan.max_pages} apply")
    return plan


def _require_master(context: TaskContext) -> MasterLink:
    if context.master is None:
        raise TaskError("a member of a crawl needs a master", error="internal", permanent=True)
    return context.master


async def _open_page_notes(context: TaskContext, frontier: SharedFrontier | None) -> PageNotes | None:
    """Return the page notes, if the parameters ask for them, with those of an earlier crawl if one is named."""
    from crawlfleet.execution.crawl.record.page_notes import PageNotes
    from crawlfleet.execution.crawl.shared.shared_page_notes import SharedPageNotes

    if "since" not in context.parameters and not context.parameters.get("keep_pages"):
        return None
    earlier = await _load_earlier_pages(context)
    keeps_unchanged = bool(context.parameters.get("keep_unchanged"))
    if frontier is None:
        return PageNotes(context.item, earlier, keeps_unchanged=keeps_unchanged)
    return SharedPageNotes(frontier, context.earlier, earlier, keeps_unchanged=keeps_unchanged)


async def _load_earlier_pages(context: TaskContext) -> EarlierNotes | None:
    from crawlfleet.execution.crawl.record.page_notes import PAGES, EarlierNotes

    since = context.parameters.get("since")
    if since is None:
        return None
    if context.earlier is None:
        raise TaskError("since: there is no master to ask for it", error="input", permanent=True)
    earlier = EarlierNotes()
    async for lines in context.earlier(since):
        earlier.add_notes(_ITEMS.decode_lines(lines))
    if not earlier.pages:
        message = f"since: {since} noted no pages: was it a web_crawl with keep_pages, or since another?"
        raise TaskError(message, error="input", permanent=True)
    if earlier.is_cut:
        context.log(f"of {since}, {PAGES:,} pages are remembered; the others count as new", "warning")
    return earlier


def _change_metrics(context: TaskContext, book: PageNotes | None) -> dict[str, Any]:
    if book is None or "since" not in context.parameters or context.parameters.get("spread"):
        return {}
    counts = {name: book.changes[name] for name in ("new", "changed", "unchanged", "gone")}
    return {"changes": counts | {"not_visited": book.unseen_count, "urls": book.shown_urls}}


def select_proxies(context: TaskContext) -> ProxyRotation | None:
    """Return the proxies that the parameters name: a list of the task's own, or one of the node's pools."""
    from crawlfleet.execution.process_state.proxy_pool import ProxyPool, ProxyRotation

    settings = context.parameters.get("proxies")
    if settings is None:
        return None
    settings = {"urls": settings} if isinstance(settings, list) else settings
    if "pool" in settings:
        pool = context.proxy_pools.get(settings["pool"])
        if pool is None:
            pool_names = ", ".join(sorted(context.proxy_pools)) or "none"
            message = f"proxies.pool: this node has no pool {settings['pool']!r} (it has: {pool_names})"
            raise TaskError(message, error="input", permanent=True)
    else:
        try:
            pool = ProxyPool("the task's proxies", settings["urls"])
        except ValueError as exc:
            raise TaskError(f"proxies: {exc}", error="input", permanent=True) from exc
    return ProxyRotation(pool, settings.get("rotation", "request"), context.log)


@asynccontextmanager
async def open_kept_cookies(context: TaskContext) -> AsyncIterator[CookieSession | None]:
    """Yield the cookie session that a master keeps for the crawl, if the parameters ask for it; else None."""
    from crawlfleet.execution.crawl.fetch.cookies import CookieSession, KeptCookies

    jar = context.parameters.get("keep_cookies", False)
    if jar is False:
        yield None
        return
    if context.master is None:
        raise TaskError("keep_cookies: there is no master to keep them", error="input", permanent=True)
    session = CookieSession(is_kept=True)
    async with KeptCookies(session, context.master, "" if jar is True else jar):
        yield session


def start_failure(plan: CrawlPlan, crawl: Crawl) -> TaskError:
    """Return the error of a crawl that reached no start URL: a temporary one if there is any, to retry the task."""
    failures = sorted(crawl.start_failures, key=lambda failure: failure.permanent)
    if not failures:
        why = f"no start URL was reached within {plan.max_seconds:g} s"
        start_wait = crawl.pending_start_failure
        return (
            TaskError(why, error="timeout")
            if start_wait is None
            else TaskError(f"{why}: {start_wait}", error=start_wait.error)
        )
    others = f" (and {len(failures) - 1} more start URLs failed)" if len(failures) > 1 else ""
    return TaskError(f"{failures[0]}{others}", error=failures[0].error, permanent=failures[0].permanent)


def _build_result(plan: CrawlPlan, crawl: Crawl, collected: CollectedItems, took_s: float) -> dict[str, Any]:
    from crawlfleet.execution.crawl.parse.extract.field_counts import never_matched, never_matched_note
    from crawlfleet.execution.crawl.parse.extract.field_counts import report_counts as fields

    errors = dict(crawl.errors)
    if plan.bad_urls:
        errors["input"] = errors.get("input", 0) + len(plan.bad_urls)
    notes = []
    if plan.is_default_limit:
        notes.append(f"no max_pages was given: the default of {plan.max_pages} applied")
    if crawl.dropped_count:
        notes.append(f"{crawl.dropped_count} links were left out: too many URLs for one crawl")
    notes += plan.bad_urls[:MAX_SHOWN_URLS]
    notes += crawl.collect_notes()
    if collected.is_truncated:
        notes.append(f"data holds the first records only: all {collected.item_count} items are in the task's results")
    if never := never_matched(collected.field_counts):
        notes.append(never_matched_note(never, crawl.pages))
    result = {
        "success": True,
        "data": collected.data,
        "items": collected.item_count,
        "data_truncated": collected.is_truncated,
        "metrics": {
            "pages_crawled": crawl.pages,
            "processing_time": round(took_s, 3),
            "data_size": crawl.data_bytes,
            "pages_failed": sum(errors.values()),
            "pages_skipped": crawl.skipped,
            "pages_moved": crawl.moved,
            "pages_not_kept": crawl.noindex_pages,
            "items": collected.item_count,
            "errors": errors,
            "failures": dict(crawl.failures),
            "links_left_out": dict(crawl.left_out),
            "max_pages": None if plan.max_pages == NO_LIMIT else plan.max_pages,
            "stopped_by": crawl.stopped_by,
            **({"fields": fields(collected.field_counts)} if collected.field_counts else {}),
        },
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
    }
    return result | ({"notes": notes} if notes else {})
