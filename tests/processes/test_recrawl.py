"""A crawl that names an earlier one, over a real installation."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from testkit.site import site_process
from tests.processes.fleet import fleet

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def is_alias(path: str) -> bool:
    return path.startswith("/p/") or "?" in path


async def test_a_later_crawl_says_what_has_changed(tmp_path: Path) -> None:
    async with site_process("--products", "60") as site, fleet(tmp_path) as running:
        await running.start("--allow-host", site.host, workers=1, slots=2)
        await running.client.put_host(site.host, rate=500, concurrency=16)
        asked = {
            "url": f"{site.url}/",
            "depth": 20,
            "max_pages": 5_000,
            "follow": {"obey_nofollow": True, "deny": ["/feeds/"]},
        }
        (first,) = await running.submit([{"task_type": "web_crawl", "parameters": {**asked, "keep_pages": True}}])
        await running.until_status([first], "completed")
        await site.set(version=2)
        (later,) = await running.submit([{"task_type": "web_crawl", "parameters": {**asked, "since": first}}])
        await running.until_status([later], "completed")
        result = (await running.client.get(later)).result
        told: dict[str, set[str]] = defaultdict(set)
        async for item in running.client.results(later):
            if "_page" in item:
                told[item["change"]].add(item["_page"].removeprefix(site.url))
        for kind, paths in (await site.changes(1, 2)).items():
            # The site's list has each page under the URL that it calls its own.
            assert {path for path in told[kind] if path in paths or not is_alias(path)} == set(paths), kind
        assert result is not None
        assert result.metrics["changes"]["unchanged"] == len(told["unchanged"]) > 0
        unknown = "task-00000000000000ff"
        (lost,) = await running.submit([{"task_type": "web_crawl", "parameters": {**asked, "since": unknown}}])
        await running.until_status([lost], "failed")
        (ended,) = await running.client.executions(lost)
        assert ended.error is not None
        assert f"since: no task {unknown}" in ended.error.message
