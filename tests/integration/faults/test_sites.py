"""Sites that do to a crawler what the web does: bounded in time, bytes and memory, each with its class of error."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from crawlfleet.execution.crawl.fetch.fetcher import MAX_HOPS, Fetcher, FetchLimits
from crawlfleet.execution.page_failures import PageFailed, PageSkipped
from crawlfleet.execution.sdk import TaskError
from crawlfleet.network.address_guard import AddressGuard
from testkit.patience import promised
from testkit.site import SiteProcess, site_process
from testkit.site.nasty.behaviour_table import BEHAVIOURS, FAMILIES
from tests.unit.execution.crawl.crawl_kit import Heard, crawl

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

PAGE_BYTES = 1_000_000
STALL_S = 1.0
"""For sites that never end; the others have time enough for a busy machine."""
READ_S = 60.0
NEVER_END = {"/nasty/body/length-long", "/nasty/robots/stall"}

# What is not simply read. A word is a kind of failure; `skipped` is none.
EXPECTED = {
    "refuse": {
        "flaky": "status",
        "429": "rate_limited",
        "503": "status",
        "503-silent": "status",
        "500": "status",
        "for-ever": "rate_limited",
        "broken-wait": "rate_limited",
        "negative-wait": "rate_limited",
        "403": "blocked",
        "401": "status",
        "451": "status",
        "captcha": "blocked",
        "challenge": "blocked",
    },
    "stall": {
        "slow": "timeout",
        "before": "timeout",
        "in-head": "timeout",
        "in-body": "timeout",
        "drip": "timeout",
        "drip-chunked": "timeout",
        "drip-head": "timeout",
        "no-end": "timeout",
    },
    "body": {
        "cut-length": "cut",
        "cut-chunked": "cut",
        "cut-chunk": "cut",
        "reset": "cut",
        "nothing": "closed",
        "in-head": "closed",
        "garbage": "protocol",
        "length-long": "timeout",
        "length-negative": "protocol",
        "length-words": "protocol",
        "length-twice": "protocol",
        "length-and-chunks": "protocol",
        "bad-chunk": "protocol",
        "huge": "too_large",
        "endless": "too_large",
        "endless-chunked": "too_large",
        "endless-trailers": "protocol",
        "endless-headers": "protocol",
        "endless-header": "protocol",
        "endless-hints": "protocol",
    },
    "encoding": {
        "very-nested": "decode",
        "cut": "cut",
        "corrupt": "decode",
        "checksum": "decode",
        "not": "decode",
        "unsaid": "skipped",
        "unknown": "decode",
        "gzip-bomb": "too_large",
        "br-bomb": "too_large",
        "zstd-bomb": "too_large",
        "nested-bomb": "too_large",
    },
    "type": {"octets": "skipped", "pdf": "skipped", "jpeg": "skipped"},
    "markup": {
        "deep": "too_large",
        "attributes": "too_large",
        "links": "too_large",
        "title": "too_large",
        "one-line": "too_large",
    },
    "redirect": {
        **dict.fromkeys(
            (
                "loop",
                "chain",
                "endless",
                "growing",
                "self",
                "query",
                "file",
                "javascript",
                "data",
                "ftp",
                "gopher",
                "broken",
                "port",
                "empty",
                "none",
                "bytes",
            ),
            "redirects",
        ),
        **dict.fromkeys(
            (
                "secure",
                "loopback",
                "loopback-name",
                "loopback-6",
                "mapped",
                "decimal",
                "octal",
                "any",
                "metadata",
                "private",
            ),
            "policy",
        ),
        "other-host": "dns",
        "huge": "protocol",
        "300": "status",
        "304": "status",
    },
    "session": {"many": "protocol"},
    "answer": {
        "404": "status",
        "410": "status",
        "999": "status",
        "1000": "protocol",
        "bad-header": "protocol",
        "upgrade": "status",
        "switch": "status",
        "http-0.9": "protocol",
    },
}
FETCHED = [family for family in FAMILIES if family.name not in {"sitemap", "robots", "trap"}]
"""Those are about more than one page."""
CLASSES = {
    "status": "http",
    "redirects": "http",
    "rate_limited": "blocked",
    "too_large": "parse",
    "decode": "parse",
    "cut": "network",
    "closed": "network",
    "protocol": "network",
    "dns": "network",
}


class Met(NamedTuple):
    outcome: str
    took_s: float
    bytes_in: int
    failure: PageFailed | None = None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nasty() -> AsyncIterator[SiteProcess]:
    async with site_process() as site:
        yield site


async def meet(nasty: SiteProcess, path: str) -> Met:
    is_stalling = path.startswith("/nasty/stall/") or path in NEVER_END
    limits = FetchLimits(total_s=STALL_S if is_stalling else READ_S, page_bytes=PAGE_BYTES)
    began = time.monotonic()
    outcome, failure = "page", None
    async with Fetcher(AddressGuard([nasty.host]), user_agent="crawlfleet/test", limits=limits) as fetcher:
        try:
            await fetcher.fetch(f"{nasty.url}{path}")
        except PageSkipped:
            outcome = "skipped"
        except PageFailed as exc:
            outcome, failure = exc.kind, exc
        return Met(outcome, time.monotonic() - began, fetcher.bytes_in, failure)


@pytest.mark.parametrize("family", FETCHED, ids=[family.name for family in FETCHED])
async def test_each_behaviour_ends_as_it_should_and_within_bounds(nasty: SiteProcess, family: Any) -> None:
    paths = [it.path for it in family.behaviours]
    many = asyncio.Semaphore(8)

    async def one(path: str) -> Met:
        async with many:
            return await meet(nasty, path)

    tracemalloc.start()
    try:
        met = dict(zip(paths, await asyncio.gather(*(one(path) for path in paths)), strict=True))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    expected = EXPECTED.get(family.name, {})
    outcomes = {path: found.outcome for path, found in met.items()}
    assert outcomes == {path: expected.get(path.rpartition("/")[2], "page") for path in paths}
    for path, found in met.items():
        # What stands in the buffers when the limit is reached has come in already.
        assert found.bytes_in <= PAGE_BYTES + (1 << 20), path
        if found.outcome == "timeout":
            assert found.took_s < STALL_S + promised(10), path
        if found.failure is not None:
            assert found.failure.error == CLASSES.get(found.outcome, found.outcome)
            assert len(str(found.failure)) < 700 and "\n" not in str(found.failure)
    assert peak < 64 << 20


async def test_the_table_names_only_what_exists() -> None:
    known = {it.path for it in BEHAVIOURS}
    assert {f"/nasty/{family}/{name}" for family, names in EXPECTED.items() for name in names} <= known


async def asked(nasty: SiteProcess, under: str) -> Counter[str]:
    log = await nasty.log(under=under)
    return Counter(request["path"] for request in log["asked"])


async def test_redirects_stop_after_a_few_hops(nasty: SiteProcess) -> None:
    await nasty.clear()
    assert (await meet(nasty, "/nasty/redirect/endless")).outcome == "redirects"
    assert (await asked(nasty, "/nasty/redirect/endless")).total() == MAX_HOPS + 1


async def test_walls_that_set_a_cookie_are_gone_through(nasty: SiteProcess) -> None:
    for path in ("/nasty/session/cookie", "/nasty/redirect/cookie"):
        heard = Heard()
        await crawl({"url": f"{nasty.url}{path}", "respect_robots": False}, heard, allow=frozenset({nasty.host}))
        assert [item["_url"] for item in heard.items] == [f"{nasty.url}{path}"]


async def test_a_wall_that_comes_up_half_way_ends_the_crawl(nasty: SiteProcess) -> None:
    await nasty.clear()
    heard = Heard()
    result = await crawl(
        {"url": f"{nasty.url}/nasty/refuse/ban", "depth": 100, "respect_robots": False, "user_agent": "ban-test"},
        heard,
        allow=frozenset({nasty.host}),
    )
    assert len(heard.items) == result["metrics"]["pages_crawled"] == 10
    assert result["metrics"]["errors"] == {"blocked": 1}
    assert any("blocked" in note for note in result["notes"])


@pytest.mark.parametrize(
    ("path", "error", "permanent"),
    [
        ("/nasty/refuse/captcha", "blocked", False),
        ("/nasty/refuse/403", "blocked", False),
        ("/nasty/answer/404", "http", True),
        ("/nasty/body/huge", "parse", True),
        ("/nasty/body/reset", "network", False),
        ("/nasty/redirect/metadata", "policy", True),
        ("/nasty/encoding/gzip-bomb", "parse", True),
    ],
)
async def test_a_task_fails_with_the_class_of_what_happened(
    nasty: SiteProcess, path: str, error: str, permanent: bool
) -> None:
    with pytest.raises(TaskError) as told:
        await crawl({"url": f"{nasty.url}{path}", "respect_robots": False}, allow=frozenset({nasty.host}))
    assert (told.value.error, told.value.permanent) == (error, permanent)
    assert path.rpartition("/")[2] in str(told.value) or error == "policy"


async def test_a_page_that_works_the_second_time_is_there_once(nasty: SiteProcess) -> None:
    heard = Heard()
    url = f"{nasty.url}/nasty/refuse/flaky/once"
    result = await crawl({"url": url, "respect_robots": False}, heard, allow=frozenset({nasty.host}))
    assert [item["_url"] for item in heard.items] == [url]
    assert result["metrics"]["pages_failed"] == 0


async def test_no_page_is_lost_when_connections_are_closed(nasty: SiteProcess) -> None:
    heard = Heard()
    urls = [
        f"{nasty.url}/nasty/answer/{name}/{number}"
        for name in ("closes-after", "closes-next", "closes-always")
        for number in range(15)
    ]
    result = await crawl(
        {"urls": urls, "max_pages": 100, "respect_robots": False, "concurrency": 4},
        heard,
        allow=frozenset({nasty.host}),
    )
    assert sorted(item["_url"] for item in heard.items) == sorted(urls)
    assert result["metrics"]["pages_failed"] == 0
