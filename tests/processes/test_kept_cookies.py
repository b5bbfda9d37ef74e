"""Crawls that keep their cookies, over a real installation: the next one goes on with the session of the last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crawlfleet.client.errors import ApiError
from testkit.site import site_process
from tests.processes.fleet import Fleet, fleet

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PROJECT = "spring"


async def crawl_page(running: Fleet, url: str, **parameters: object) -> dict[str, Any]:
    """What the selectors find on one page, as the crawl was shown it."""
    selectors = {"title": "h1", "cookies": "p.cookies"}
    asked = {"url": url, "depth": 0, "selectors": selectors, "respect_robots": False, **parameters}
    (task,) = await running.submit([{"task_type": "web_crawl", "parameters": asked, "project_id": PROJECT}])
    await running.until_status([task], "completed")
    items: list[dict[str, Any]] = [item async for item in running.client.results(task)]
    (item,) = items
    return item


async def test_a_session_is_kept_over_tasks_and_nodes(tmp_path: Path) -> None:
    async with site_process("--products", "10") as site, fleet(tmp_path) as running:
        await running.start("--allow-host", site.host, workers=2, slots=2)
        shown = await crawl_page(running, f"{site.url}/nasty/session/cookie/set", keep_cookies="login")
        assert shown["title"] == ["Welcome back"]
        (jar,) = await running.client.cookie_jars()
        assert (jar.project_id, jar.name, jar.cookies) == (PROJECT, "login", 1)
        echo = f"{site.url}/nasty/session/echo"
        assert (await crawl_page(running, echo, keep_cookies="login"))["cookies"] == ["visitor"]
        assert (await crawl_page(running, echo, keep_cookies="other")).get("cookies", [""]) == [""]
        assert (await crawl_page(running, echo)).get("cookies", [""]) == [""]
        await running.client.remove_cookie_jar("login", PROJECT)
        assert await running.client.cookie_jars() == []
        with pytest.raises(ApiError, match="no cookie jar login"):
            await running.client.remove_cookie_jar("login", PROJECT)
        with pytest.raises(ApiError, match="keep_cookies"):
            await crawl_page(running, echo, keep_cookies="../login")
