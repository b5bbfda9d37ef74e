"""Crawls that cannot be, through the API of a running installation: each told what is wrong and where, or a stated
fallback; and a proxy or a bucket that is not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from testkit.patience import PATIENCE_S
from testkit.servers import S3Server
from testkit.servers.server import free_port
from testkit.site import start_shop
from tests.processes.crawl_proof import proving
from tests.processes.fleet import Fleet, fleet

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

TASKS, GROUPS = "/api/v1/tasks", "/api/v1/groups"
URL = "http://shop.test/"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    async with fleet(tmp_path_factory.mktemp("fleet")) as running:
        await running.start("--allow-host", "127.0.0.1", workers=1)
        await running.client.put_config({"host_rate": 1_000, "host_concurrency": 64})
        yield running
        assert await running.verdict() == []


def extract(field: Any) -> dict[str, Any]:
    return {"extract": {"products": {"container": "div.product", "fields": {"title": "h2", "price": field}}}}


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "a CSS selector that does not end": (
        {"selectors": {"product": "div.product", "title": "h2[class"}},
        "selectors.title",
        "h2[class",
    ),
    "an XPath that does not parse": (
        extract("//span[@class="),
        "extract.products.fields.price.selector",
        "//span[@class=",
    ),
    "a selector of a container": (
        {"extract": {"p": {"container": "div >", "fields": {"t": "h2"}}}},
        "extract.p.container",
        "div >",
    ),
    "an expression for JSON": (
        {"extract": {"p": {"json": "things[", "fields": {"t": "id"}}}},
        "extract.p.json",
        "position 7",
    ),
    "a pattern that looks ahead": ({"follow": {"deny": ["/login", "(?=x)"]}}, "follow.deny[1]", "(?"),
    "a pattern that refers back": (
        extract({"selector": "span", "regex": r"(a)\1"}),
        "extract.products.fields.price.regex",
        r"\1",
    ),
    "a pattern that does not parse": (
        {"follow": {"allow": [{"pattern": "a(b", "depth": 1}]}},
        "follow.allow[0].pattern",
        "a(b",
    ),
    "a negative depth": ({"depth": -1}, "depth", "-1"),
    "no pages": ({"max_pages": 0}, "max_pages", "0"),
    "negative seconds": ({"max_seconds": -5}, "max_seconds", "-5"),
    "negative bytes": ({"max_bytes": -5}, "max_bytes", "-5"),
    "a negative delay": ({"delay_s": -0.5}, "delay_s", "-0.5"),
    "no proxy at all": ({"proxies": []}, "proxies", "must not be empty"),
    "a profile that is none": ({"profile": "netscape"}, "profile", "is none of"),
    "a sitemap that is no URL": ({"sitemaps": ["x"]}, "sitemaps[0]", "'x' is not an http or https URL"),
    "a proxy that is no URL": ({"proxies": ["http://proxy.test:8080", "proxy.test"]}, "proxies[1]", "proxy.test"),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_cannot_be_is_refused_with_its_place(running: Fleet, name: str) -> None:
    parameters, field, said = BAD[name]
    before = await running.client.stats()
    task = {"task_type": "web_crawl", "parameters": {"url": URL, **parameters}}
    answer = await running.call("POST", TASKS, json=task)
    assert answer.problem == (422, "invalid_input", f"parameters.{field}"), answer.json
    assert said in answer.json["detail"]
    spread = await running.call("POST", GROUPS, json={"crawl": {"members": 2}, "task": task})
    assert spread.problem == (422, "invalid_input", f"task.parameters.{field}"), spread.json
    assert await running.client.stats() == before


async def test_bad_urls_are_told_one_by_one(running: Fleet) -> None:
    urls = [URL, "nonsense", "ftp://a.test/", URL, "http://"]
    answer = await running.call("POST", TASKS, json={"task_type": "web_crawl", "parameters": {"urls": urls}})
    assert answer.problem == (422, "invalid_input", "parameters.urls[1]")
    assert "urls[2]" in answer.json["detail"] and "urls[4]" in answer.json["detail"]
    # What only a reader of URLs can tell is left out by a task, and said; a crawl over nodes is not made with it.
    shop = await start_shop(products=20)
    urls = [f"{shop.url}/products/1", "http://a.test:99999/", f"{shop.url}/products/2"]
    (task,) = await running.submit([{"task_type": "web_crawl", "parameters": {"urls": urls}}])
    await running.until_status([task], "completed")
    result = (await running.call("GET", f"{TASKS}/{task}")).json["result"]
    assert (result["metrics"]["pages_crawled"], result["metrics"]["errors"]) == (2, {"input": 1})
    assert "urls[1]: 'http://a.test:99999/' is no URL of a page" in result["notes"]
    spread = {"crawl": {"members": 2}, "task": {"task_type": "web_crawl", "parameters": {"urls": urls}}}
    assert (await running.call("POST", GROUPS, json=spread)).problem[2] == "task.parameters.urls[1]"
    await shop.close()


async def test_a_depth_without_a_limit_of_pages_has_one_and_says_so(running: Fleet) -> None:
    shop = await start_shop(products=200)
    start = f"{shop.url}/products"
    (task,) = await running.submit([{"task_type": "web_crawl", "parameters": {"url": start, "depth": 20}}])
    group = await running.client.crawl([start], {"depth": 20}, members=1)
    assert group.crawl is not None and group.crawl.max_pages == 100
    await running.until_status([task], "completed")
    result = (await running.call("GET", f"{TASKS}/{task}")).json["result"]
    assert "no max_pages was given: the default of 100 applied" in result["notes"]
    assert (result["metrics"]["max_pages"], result["metrics"]["stopped_by"]) == (100, "max_pages")
    assert result["metrics"]["pages_crawled"] == 100
    ended = await running.client.wait_group(group.id, PATIENCE_S)
    assert ended.crawl is not None
    assert (ended.crawl.pages, ended.crawl.stopped_by) == (100, "max_pages")
    running.note([one.id async for one in running.client.list(group=group.id)])
    await shop.close()


async def test_a_proxy_that_is_down_is_named_and_so_is_a_pool_that_is_not_there(running: Fleet) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    asked = {"url": "http://shop.invalid/", "proxies": [gone]}
    crawl = {"task_type": "web_crawl", "parameters": asked, "retry": {"max_retries": 0}}
    (task,) = await running.submit([crawl])
    await running.until_status([task], "failed")
    view = await running.client.get(task)
    assert view.error is not None
    assert view.error.class_ == "network"
    assert "all 1 proxies of the task's proxies are down" in view.error.message
    (task,) = await running.submit([crawl | {"parameters": asked | {"proxies": {"pool": "fast"}}}])
    await running.until_status([task], "failed")
    view = await running.client.get(task)
    assert view.error is not None
    assert (view.error.class_, view.error.is_permanent) == ("input", True)
    assert "this node has no pool 'fast' (it has: none)" in view.error.message


async def test_a_member_of_no_crawl_is_told_so_at_once(running: Fleet) -> None:
    (task,) = await running.submit([{"task_type": "web_crawl", "parameters": {"url": URL, "spread": True}}])
    await running.until_status([task], "failed")
    view = await running.client.get(task)
    assert view.error is not None
    assert (view.error.class_, view.retry_count) == ("input", 0)
    assert "takes part in no crawl over many nodes" in view.error.message


async def test_a_bucket_that_refuses_for_a_while_costs_no_page(
    tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    async with proving(tmp_path, "--results", s3_server.create_bucket("refuses"), workers=2, products=60) as proof:
        running = proof.running
        # No page before the bucket refuses, so that there is something to write.
        await proof.site.hold()
        group = await proof.begin(members=2)
        s3_server.believe_keys(False)
        await proof.site.release()

        async def is_degraded() -> bool:
            ready = await running.call("GET", "/readyz")
            assert ready.status == 200, ready.body
            return bool(ready.json["status"] == "degraded")

        try:
            await running.until(lambda: running.has_said("chunk_waits"), "nobody hears of it")
            await running.until(is_degraded, "/readyz does not tell it")
        finally:
            s3_server.believe_keys(True)
        whole = await proof.finish("a bucket that refused", group)
        await proof.assert_whole(whole)
        assert Counter(whole.lines).most_common(1)[0][1] == 1
