"""The log of the nasty site, and the site as a process, in a thread, and under names of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import urllib.request

import aiohttp
import pytest

from testkit.patience import PATIENCE_S
from testkit.site import SiteOptions, running_site, site_in_thread, site_process
from tests.integration.testkit.site.nasty_kit import ask
from tests.paths import ROOT

pytestmark = pytest.mark.integration


async def test_the_log_tells_who_asked_for_what_and_when() -> None:
    async with running_site(SiteOptions(products=20)) as site:
        before, wall = time.monotonic(), time.time()
        await ask(site, "/products/1?a=b", headers=("Cookie: a=1", "X-Other: x"))
        await asyncio.gather(*(ask(site, "/products/2", host=f"{name}.test") for name in "aab"))
        await ask(site, "/-/log")
        first = site.requests[0]
        assert (first.method, first.path, first.agent, first.address) == ("GET", "/products/1?a=b", "kit", "127.0.0.1")
        assert first.headers == {"cookie": "a=1"}
        assert before <= first.at <= time.monotonic()
        assert abs(first.at_ms - wall * 1_000) < 5_000
        log = site.log
        assert (log.total, len(log.paths(under="/products/2")), len(log.paths(host="a.test"))) == (4, 3, 2)
        assert log.paths(since=time.monotonic()) == []
        assert log.duplicates() == {"a.test/products/2": 2}
        assert log.visitors() == {("127.0.0.1", "kit"): 4}
        assert len(log.connections()) == 4
        assert log.most_in(PATIENCE_S) == 4
        log.clear()
        assert (log.total, log.paths()) == (0, [])


async def test_a_process_tells_the_same() -> None:
    async with (
        site_process("--products", "40", "--most-per-second", "1000") as site,
        running_site(SiteOptions(products=40)) as same,
    ):
        assert await site.pages() == same.site.reachable()
        assert len(await site.pages(robots=False, canonical=False)) > len(await site.pages())
        assert await site.items() == same.site.items()
        assert await site.changes(1, 3) == same.site.changes(1, 3)._asdict()
        assert (await site.log())["total"] == 0
        with pytest.raises(ValueError, match="robots"):
            await site.set(robots="nope", version=2)
        for bad, told in (
            ({"version": 0}, "version"),
            ({"version": "x"}, "'x'"),
            ({"most_per_second": "many"}, "'many'"),
        ):
            with pytest.raises(ValueError, match=told):
                await site.set(**bad)
        with pytest.raises(ValueError, match="no such rule"):
            await site.pages(nonsense=True)
        now = await site.set(version=2, most_per_second=0, robots="404")
        assert now == {"version": 2, "robots": "404", "most_per_second": None}
        await asyncio.to_thread(urllib.request.urlopen, f"{site.url}/products/3")
        log = await site.log(under="/products")
        assert [asked["path"] for asked in log["asked"]] == ["/products/3"]
        assert (log["most_in_a_second"], log["duplicates"], log["connections"]) == (1, {}, 1)
        await site.clear()
        assert (await site.log())["asked"] == []


async def test_a_process_keeps_pages_back_until_they_are_released() -> None:
    async with site_process("--products", "10") as site:
        await site.hold("^/products/", after=1)

        async def asked(path: str) -> int:
            async with aiohttp.request("GET", f"{site.url}{path}") as response:
                return response.status

        assert [await asked(path) for path in ("/products/1", "/about", "/robots.txt")] == [200, 200, 200]
        held = [asyncio.create_task(asked(f"/products/{number}")) for number in (2, 3, 4)]
        await site.wait_held(3)
        assert (await site.held("^/products/"), await site.held("^/other/")) == (3, 0)
        assert not any(one.done() for one in held)
        assert await site.release() == 3
        assert await asyncio.gather(*held) == [200, 200, 200]
        assert await asked("/products/5") == 200


def test_a_thread_for_tests_that_block() -> None:
    with site_in_thread(SiteOptions(products=10)) as site:
        with urllib.request.urlopen(f"{site.url}/products/3", timeout=5) as response:
            assert b"No. 3" in response.read()
        assert site.asked_paths() == ["/products/3"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--products", "-1"),
        ("--page-bytes", "-1"),
        ("--most-per-second", "0"),
        ("--robots", "x"),
        ("--port", "99999999"),
        ("--delay", "-1"),
    ],
)
def test_bad_options_are_refused_by_name(arguments: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "testkit.site", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert arguments[0] in done.stderr
    assert "Traceback" not in done.stderr


def test_the_page_about_it_has_its_table() -> None:
    command = [sys.executable, "-m", "testkit.site", "--table"]
    table = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    assert table in (ROOT / "docs" / "nasty-site.md").read_text(encoding="utf-8")
