"""The health of nodes' proxies: one report per node, the last one counts."""

from crawlfleet.model.proxy_health import NodeProxies, ProxyHealth
from crawlfleet.ports.store import Store
from testkit.factories import Kit

HEALTH = ProxyHealth("fast", "proxy.test:3128", 7, 2, 30_000, 120, "no connection")


async def the_last_report_of_each_node_counts(store: Store, kit: Kit) -> None:
    one, other = await kit.node(), await kit.node()
    assert await store.put_node_proxies(one.id, [HEALTH, HEALTH._replace(proxy="b:1")], kit.now)
    assert await store.put_node_proxies(one.id, [HEALTH], kit.later())
    assert await store.put_node_proxies(other.id, [], kit.now)
    assert await kit.second.node_proxies() == [
        NodeProxies(node, proxies, kit.now) for node, proxies in sorted([(one.id, (HEALTH,)), (other.id, ())])
    ]


async def a_node_that_was_removed_reports_nothing(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await store.put_node_proxies(node.id, [HEALTH], kit.now)
    await store.unregister_node(node.id, kit.later())
    assert await store.node_proxies() == []
    assert not await store.put_node_proxies(node.id, [HEALTH], kit.now)
    assert not await store.put_node_proxies(12_345, [HEALTH], kit.now)
