"""A crawl over several real nodes that names an earlier one, and one on a single node that names the group."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from testkit.patience import PATIENCE_S
from testkit.site import site_process
from tests.processes.fleet import Fleet, fleet
from tests.processes.test_recrawl import is_alias

pytestmark = [pytest.mark.integration, pytest.mark.slow]


async def told(running: Fleet, group: str, url: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    lines = b"".join([part async for part in running.client.export_group(group, kind="pages")])
    for item in map(json.loads, lines.splitlines()):
        found[item.get("change", "")].add(item["_page"].removeprefix(url))
    return found


async def test_a_later_crawl_over_nodes_says_what_has_changed(tmp_path: Path) -> None:
    async with site_process("--products", "60") as site, fleet(tmp_path) as running:
        await running.start("--allow-host", site.host, workers=2, slots=2)
        await running.client.put_host(site.host, rate=500, concurrency=16)
        asked: dict[str, Any] = {
            "depth": 20,
            "max_pages": 5_000,
            "follow": {"obey_nofollow": True, "deny": ["/feeds/"]},
        }
        first = await running.client.crawl(
            [f"{site.url}/"], {**asked, "keep_pages": True, "archive": "warc"}, members=3
        )
        ended = await running.client.wait_group(first.id, PATIENCE_S)
        assert ended.crawl is not None and ended.crawl.changes is None
        assert len((await told(running, first.id, site.url))[""]) == ended.crawl.pages
        archive = b"".join([part async for part in running.client.export_group(first.id, format="warc")])
        archived = [
            one.rec_headers.get_header("WARC-Target-URI")
            for one in ArchiveIterator(io.BytesIO(archive))
            if one.rec_type in {"response", "revisit"}
        ]
        assert len(archived) == len(set(archived)) == ended.crawl.pages
        quality = await running.client.group_quality(first.id)
        assert quality.items == ended.crawl.items
        whole = await running.client.crawl_result(first.id)
        assert whole.data["items"] and not any("_page" in item for item in whole.data["items"])
        await site.set(version=2)
        code, said = await running.run(
            "crawl",
            "crawl",
            f"{site.url}/",
            "--members",
            "3",
            "--params",
            json.dumps({**asked, "since": first.id}),
            "--progress",
            "--json",
            env={"CRAWLFLEET_URL": running.client.url, "CRAWLFLEET_TOKEN": running.admin},
        )
        assert code == 0, said
        last = json.loads(next(line for line in reversed(said.splitlines()) if line.startswith("{")))
        changes, found = last["crawl"]["changes"], await told(running, last["id"], site.url)
        for kind, paths in (await site.changes(1, 2)).items():
            # The site's list has each page under the URL that it calls its own.
            assert {path for path in found[kind] if path in paths or not is_alias(path)} == set(paths), kind
        assert changes == {kind: len(found[kind]) for kind in ("new", "changed", "unchanged", "gone")}
        assert (await running.client.crawl_result(last["id"])).metrics.changes is not None
        alone = {**asked, "url": f"{site.url}/", "since": last["id"]}
        (later,) = await running.submit([{"task_type": "web_crawl", "parameters": alone}])
        await running.until_status([later], "completed")
        result = (await running.client.get(later)).result
        assert result is not None
        counted = {kind: result.metrics["changes"][kind] for kind in ("new", "changed", "gone")}
        assert counted == {"new": 0, "changed": 0, "gone": 0}
        watched = (await running.client.event_page(kinds=["crawl.progress"], limit=1_000)).events
        assert {event.data["group"] for event in watched} == {first.id, last["id"]}
