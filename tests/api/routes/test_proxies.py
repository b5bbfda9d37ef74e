"""Proxies over HTTP: reported by their node, shown to people."""

import msgspec

from crawlfleet.wire.proxies import ProxiesUp, ProxyHealthBody
from tests.api.kit import Site
from tests.api.remote_node import RemoteNode

PROXIES = "/api/v1/proxies"
DOWN = ProxyHealthBody("fast", "b.test:80", 3, 2, 60_000, 0, "no connection")
UP = ProxyHealthBody("fast", "a.test:80", 9, 0, 0, 120)


async def test_a_node_reports_its_own_proxies(site: Site) -> None:
    node, other = await RemoteNode.online(site, name="one"), await RemoteNode.online(site, name="other")
    path = f"/api/v1/nodes/{node.text}/proxies"
    body = msgspec.json.encode(ProxiesUp([DOWN, UP]))
    assert (await site.send("PUT", path, data=body, token=node.secret)).status == 204
    assert (await site.send("PUT", path, data=body, token=other.secret)).status == 403
    assert (await site.send("PUT", path, data=body)).status == 403
    for wrong in (b"", b"[]", b'[[["", "a:1"]]]', b'[[["p", "a:1", -1]]]', b'[[["p", "a\\u0000"]]]'):
        assert (await site.send("PUT", path, data=wrong, token=node.secret)).status == 422, wrong
    shown = (await site.get(PROXIES, role="viewer")).json["proxies"]
    assert [(one["node_name"], one["proxy"], one["is_up"], one["failures"]) for one in shown] == [
        ("one", "a.test:80", True, 0),
        ("one", "b.test:80", False, 2),
    ]
    assert (shown[0]["down_until"], shown[0]["last_failure"], shown[0]["latency_ms"]) == (None, None, 120)
    assert shown[1]["down_until"] > shown[1]["reported_at"]
    assert len((await site.get(f"{PROXIES}?is_up=false")).json["proxies"]) == 1
    assert (await site.get(f"{PROXIES}?pool=slow")).json == {"proxies": []}
    assert (await site.get(f"{PROXIES}?is_up=perhaps")).status == 422
