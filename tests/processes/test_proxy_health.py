"""How a node's proxies do is seen by people, over a real installation with a real proxy and one that is not there."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from crawlfleet.client._generated.models import ProxyView
from testkit.servers.server import free_port
from testkit.site import site_process
from tests.processes.fleet import fleet
from tests.unit.execution.crawl.fetch.proxy_kit import proxy

pytestmark = [pytest.mark.integration, pytest.mark.slow]


async def test_the_health_of_a_pool_is_shown(tmp_path: Path) -> None:
    async with site_process("--products", "10") as site, proxy() as good, fleet(tmp_path) as running:
        gone = free_port()
        pools = tmp_path / "proxies.txt"
        pools.write_text(f"fast http://127.0.0.1:{good.port}\nfast http://ann:secret@127.0.0.1:{gone}\n")
        await running.start("--allow-host", "127.0.0.1", "--proxies-file", str(pools), workers=1, slots=2)
        asked = {"url": f"{site.url}/", "depth": 1, "max_pages": 10, "proxies": {"pool": "fast"}}
        (task,) = await running.submit([{"task_type": "web_crawl", "parameters": asked}])
        await running.until_status([task], "completed")
        found: dict[str, ProxyView] = {}

        async def are_reported() -> bool:
            found.update({one.proxy: one for one in await running.client.proxies()})
            return len(found) == 2

        await running.until(are_reported, "no report of the proxies")
        up, down = found[f"127.0.0.1:{good.port}"], found[f"127.0.0.1:{gone}"]
        assert (up.pool, up.is_up, up.node_name) == ("fast", True, "worker-0")
        assert up.uses > 0
        assert (down.is_up, down.failures, down.last_failure) == (False, 1, "no connection")
        assert down.down_until is not None
        assert [one.proxy for one in await running.client.proxies(pool="fast", is_up=False)] == [down.proxy]
        assert await running.client.proxies(pool="slow") == []
        token = (running.data_dir / "admin.token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(running.client.url, headers=headers) as session:
            async with session.get("/api/v1/proxies") as answer:
                assert "secret" not in await answer.text()
            # A person's token is no node's.
            async with session.put(f"/api/v1/nodes/{up.node_id}/proxies", json=[[]]) as answer:
                assert answer.status == 403
