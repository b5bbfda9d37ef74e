"""Nodes and clusters: registered, held, removed."""

import asyncio

import pytest

from crawlfleet.errors import Conflict, NotAllowed, NotFound
from crawlfleet.model.node import Cluster, NodeDescription
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import ClusterStatus, Health, NodeStatus, TaskStatus
from crawlfleet.ports.node_store import HealthChange, NewNode
from crawlfleet.ports.store import Store
from testkit.factories import Kit

ROUNDS = 20


async def a_registered_node_is_pending_and_keeps_what_it_said(store: Store, kit: Kit) -> None:
    description = NodeDescription(
        "worker 1",
        "the big one",
        "eu",
        "10.0.0.1",
        9000,
        "gpu",
        "eu-west",
        2.5,
        8,
        ("echo",),
        (("javascript_rendering", 1.0), ("content_types", ("html", "pdf"))),
        (("cpu", 8.0),),
        "worker-001",
        True,
        9_000,
    )
    node = await store.register_node(NewNode(kit.ids.new_id(), "key", "secret", description), kit.now)
    (record,) = await kit.second.load_nodes()
    assert (record.id, record.status, record.health) == (node, NodeStatus.PENDING, Health.UNKNOWN)
    assert record.description == description
    assert (record.is_session_open, record.created_at, record.removed_at) == (False, kit.now, None)
    assert await kit.second.secret_hash(node) == "secret"


async def the_same_join_key_again_is_the_same_node_with_the_new_secret(store: Store, kit: Kit) -> None:
    first = await store.register_node(_named(kit, "key", "first"), kit.now)
    again = await kit.second.register_node(_named(kit, "key", "second"), kit.now)
    assert again == first
    assert await kit.second.secret_hash(first) == "second"
    assert len(await kit.second.load_nodes()) == 1


async def one_join_key_said_many_times_at_once_is_one_node(store: Store, kit: Kit) -> None:
    for n in range(ROUNDS):
        new = [_named(kit, f"key {n}", f"secret {m}") for m in range(4)]
        nodes = await asyncio.gather(*((store, kit.second)[m % 2].register_node(new[m], kit.now) for m in range(4)))
        assert len(set(nodes)) == 1
    assert len(await kit.second.load_nodes()) == ROUNDS


async def the_handle_of_another_node_cannot_be_taken(store: Store, kit: Kit) -> None:
    await store.register_node(_named(kit, "mine", "secret", device_id="worker-001"), kit.now)
    async with kit.unchanged():
        with pytest.raises(Conflict):
            await store.register_node(_named(kit, "yours", "secret", device_id="worker-001"), kit.now)


async def joining_again_says_everything_anew(store: Store, kit: Kit) -> None:
    node = await store.register_node(_named(kit, "key", "first", device_id="worker-001", lease_ms=9_000), kit.now)
    await store.register_node(_named(kit, "key", "second", device_id="worker-002", lease_ms=30_000), kit.now)
    (record,) = await kit.second.load_nodes([node])
    assert (record.description.device_id, record.description.lease_ms) == ("worker-002", 30_000)
    assert await kit.second.node_by_device("worker-001") is None
    assert await kit.second.node_by_device("worker-002") == node
    await kit.open_session(node)
    assert [lease.lease_ms for lease in await kit.second.open_leases()] == [30_000]


async def a_lease_keeps_its_length_until_the_next_session(store: Store, kit: Kit) -> None:
    """The node counts on the length it was told; ended any sooner, its work would run in two places."""
    node = await store.register_node(_named(kit, "key", "first", lease_ms=30_000), kit.now)
    await kit.online(node)
    await store.register_node(_named(kit, "key", "second", lease_ms=3_000), kit.now)
    assert [lease.lease_ms for lease in await kit.second.open_leases()] == [30_000]
    await kit.open_session(node)
    assert [lease.lease_ms for lease in await kit.second.open_leases()] == [3_000]


async def a_node_that_joins_again_cannot_take_the_handle_of_another(store: Store, kit: Kit) -> None:
    await store.register_node(_named(kit, "mine", "secret", device_id="worker-001"), kit.now)
    await store.register_node(_named(kit, "yours", "secret"), kit.now)
    async with kit.unchanged():
        with pytest.raises(Conflict):
            await store.register_node(_named(kit, "yours", "other", device_id="worker-001"), kit.now)


async def of_many_that_ask_for_one_handle_at_once_one_gets_it(store: Store, kit: Kit) -> None:
    for n in range(ROUNDS):
        known = await store.register_node(_named(kit, f"known {n}", "secret"), kit.now)
        new = [_named(kit, key, "secret", device_id=f"worker {n}") for key in (f"known {n}", f"a {n}", f"b {n}")]
        calls = [(store, kit.second)[m % 2].register_node(each, kit.now) for m, each in enumerate(new)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        (holder,) = (answer for answer in answers if isinstance(answer, int))
        assert [type(answer) for answer in answers if answer != holder] == [Conflict, Conflict]
        assert await kit.second.node_by_device(f"worker {n}") == holder
        assert len(await kit.second.load_nodes([known])) == 1


async def joining_again_while_being_removed_ends_one_way_or_the_other(store: Store, kit: Kit) -> None:
    for n in range(ROUNDS):
        node = await store.register_node(_named(kit, f"key {n}", "first"), kit.now)
        calls = [
            kit.second.unregister_node(node, kit.now),
            store.register_node(_named(kit, f"key {n}", f"second {n}"), kit.now),
        ]
        _, again = await asyncio.gather(*calls)
        assert again == node or await kit.second.node_by_secret(f"second {n}") == again


async def a_node_is_found_by_its_secret_until_it_is_removed(store: Store, kit: Kit) -> None:
    node = await store.register_node(_named(kit, "key", "first"), kit.now)
    assert await kit.second.node_by_secret("first") == node
    await store.register_node(_named(kit, "key", "second"), kit.now)
    assert await kit.second.node_by_secret("first") is None
    assert await kit.second.node_by_secret("second") == node
    await store.unregister_node(node, kit.now)
    assert await kit.second.node_by_secret("second") is None


async def a_cluster_comes_into_being_with_its_first_node(store: Store, kit: Kit) -> None:
    await kit.join(cluster="eu")
    await store.put_cluster(Cluster("eu", ClusterStatus.INACTIVE), kit.now)
    await kit.join(cluster="eu")
    clusters = {cluster.name: cluster.status for cluster in await kit.second.list_clusters()}
    assert clusters == {"default": ClusterStatus.ACTIVE, "eu": ClusterStatus.INACTIVE}


async def an_unknown_node_has_no_secret(store: Store, kit: Kit) -> None:
    assert await kit.second.secret_hash(12_345) is None


async def a_held_node_is_in_maintenance_until_let_go(store: Store, kit: Kit) -> None:
    node = await kit.node()
    assert await store.set_maintenance(node.id, kit.now + 60_000, True, kit.now)
    renewed = await kit.renew(node)
    assert (renewed.status, renewed.drain_by) == (NodeStatus.MAINTENANCE, kit.now + 60_000)
    assert await store.set_maintenance(node.id, None, False, kit.now)
    renewed = await kit.renew(node)
    assert (renewed.status, renewed.drain_by) == (NodeStatus.ONLINE, None)


async def a_held_node_keeps_what_it_runs(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await store.set_maintenance(run.node.id, kit.now + 60_000, True, kit.now)
    assert (await kit.complete(run)).after == {run.task: TaskStatus.COMPLETED}


async def a_node_let_go_without_a_session_is_offline(store: Store, kit: Kit) -> None:
    node = await kit.join()
    await store.set_maintenance(node, None, True, kit.now)
    await store.set_maintenance(node, None, False, kit.now)
    assert (await kit.second.load_nodes([node]))[0].status is NodeStatus.OFFLINE


async def an_unknown_or_removed_node_is_not_held(store: Store, kit: Kit) -> None:
    removed = await kit.join()
    await store.unregister_node(removed, kit.now)
    async with kit.unchanged():
        assert not await store.set_maintenance(12_345, None, True, kit.now)
        assert not await store.set_maintenance(removed, None, True, kit.now)


async def holding_a_node_at_the_moment_it_comes_online_holds_it(store: Store, kit: Kit) -> None:
    for _ in range(ROUNDS):
        node = await kit.open_session(await kit.join())
        calls = [kit.renew(node), kit.second.set_maintenance(node.id, None, True, kit.now)]
        await asyncio.gather(*kit.rng.sample(calls, len(calls)))
        assert (await kit.second.load_nodes([node.id]))[0].status is NodeStatus.MAINTENANCE


async def slots_set_by_a_person_are_told_to_the_node(store: Store, kit: Kit) -> None:
    node = await kit.node()
    assert await store.set_slots(node.id, 3, kit.now)
    assert (await kit.renew(node)).slots_wanted == 3
    assert (await kit.second.load_nodes([node.id]))[0].slots == 3
    assert await store.set_slots(node.id, None, kit.now)
    assert (await kit.second.load_nodes([node.id]))[0].slots == 10


async def slots_of_an_unknown_or_removed_node_cannot_be_set(store: Store, kit: Kit) -> None:
    removed = await kit.join()
    await store.unregister_node(removed, kit.now)
    async with kit.unchanged():
        assert not await store.set_slots(12_345, 3, kit.now)
        assert not await store.set_slots(removed, 3, kit.now)


async def health_is_kept_with_details_and_time(store: Store, kit: Kit) -> None:
    node, other = await kit.join(), await kit.join()
    details = {"cpu": 0.97, "why": "cpu above 90 %"}
    changes = [
        HealthChange(node, Health.UNKNOWN, Health.UNHEALTHY, details),
        HealthChange(12_345, Health.UNKNOWN, Health.HEALTHY, {}),
    ]
    await store.set_health(changes, await kit.term(), kit.now)
    records = {record.id: record for record in await kit.second.load_nodes()}
    assert (records[node].health, records[node].health_details) == (Health.UNHEALTHY, details)
    assert records[node].health_at == kit.now
    assert records[other].health is Health.UNKNOWN


async def a_judgement_that_follows_another_one_than_the_stores_is_passed_over(store: Store, kit: Kit) -> None:
    node, term = await kit.join(), await kit.term()
    await store.set_health([HealthChange(node, Health.UNKNOWN, Health.DEGRADED, {"a": 1})], term, kit.now)
    async with kit.unchanged():
        await store.set_health([HealthChange(node, Health.UNKNOWN, Health.UNHEALTHY, {"b": 1})], term, kit.now)


async def new_details_of_the_same_health_change_neither_its_time_nor_tell_anything(store: Store, kit: Kit) -> None:
    node, term = await kit.join(), await kit.term()
    await store.set_health([HealthChange(node, Health.UNKNOWN, Health.DEGRADED, {"a": 1})], term, kit.now)
    began_at, events = kit.now, await kit.events()
    await store.set_health([HealthChange(node, Health.DEGRADED, Health.DEGRADED, {"b": 1})], term, kit.later())
    (record,) = await kit.second.load_nodes([node])
    assert (record.health, record.health_details, record.health_at) == (Health.DEGRADED, {"b": 1}, began_at)
    assert await kit.events() == events


async def a_node_that_a_person_lets_go_is_judged_anew(store: Store, kit: Kit) -> None:
    node, term = await kit.node(), await kit.term()
    ill = HealthChange(node.id, Health.UNKNOWN, Health.UNHEALTHY, {"reasons": [{"rule": "crash_rate"}]})
    # Held before, and never held at all.
    for is_held in (True, False):
        await store.set_health([ill], term, kit.now)
        if is_held:
            await store.set_maintenance(node.id, None, True, kit.now)
        assert await store.set_maintenance(node.id, None, False, kit.later())
        (record,) = await kit.second.load_nodes([node.id])
        assert (record.status, record.health, record.health_details) == (NodeStatus.ONLINE, Health.UNKNOWN, {})
        assert record.health_at == kit.now
        told = [event.data for event in await kit.events() if event.kind == "node.health_changed"]
        assert told[-1] == {"node": node.id, "old": "unhealthy", "new": "unknown", "details": {}}


async def nothing_is_known_of_the_health_of_a_node_without_a_session(store: Store, kit: Kit) -> None:
    term = await kit.term()
    for status in (NodeStatus.UNRESPONSIVE, NodeStatus.OFFLINE):
        node = await kit.node()
        await store.set_health([HealthChange(node.id, Health.UNKNOWN, Health.HEALTHY, {})], term, kit.now)
        await kit.end(node, status)
        (record,) = await kit.second.load_nodes([node.id])
        assert (record.status, record.health) == (status, Health.UNKNOWN)


async def a_node_that_comes_back_at_once_keeps_its_health_if_that_was_good(store: Store, kit: Kit) -> None:
    term = await kit.term()
    for health, after in ((Health.HEALTHY, Health.HEALTHY), (Health.UNHEALTHY, Health.UNKNOWN)):
        node = await kit.node()
        await store.set_health([HealthChange(node.id, Health.UNKNOWN, health, {})], term, kit.now)
        await kit.open_session(node.id)
        assert (await kit.second.load_nodes([node.id]))[0].health is after


async def setting_the_health_of_nobody_changes_nothing(store: Store, kit: Kit) -> None:
    term = await kit.term()
    async with kit.unchanged():
        await store.set_health([], term, kit.now)


async def heartbeats_are_sampled_for_history(store: Store, kit: Kit) -> None:
    node, term = await kit.join(), await kit.term()
    for _ in range(2):
        await store.add_heartbeats([(node, b'{"cpu":0.5}')], term, kit.now)
    await store.add_heartbeats([(node, b'{"cpu":0.7}')], term, kit.later())
    samples = (await kit.dump())["heartbeat"]
    assert [(row[0], bytes(row[2])) for row in samples] == [(node, b'{"cpu":0.5}'), (node, b'{"cpu":0.7}')]


async def the_history_of_heartbeats_is_read_by_node_and_time(store: Store, kit: Kit) -> None:
    node, other, term = await kit.join(), await kit.join(), await kit.term()
    began_at, times = kit.now, []
    for number in range(5):
        times.append(kit.now)
        body = f'{{"cpu":0.{number},"reachable":true}}'.encode()
        await store.add_heartbeats([(node, body), (other, b"{}")], term, kit.now)
        kit.later()
    history = await kit.second.heartbeat_history(node, began_at, kit.now, 10)
    assert [(sample.at, sample.measurement.cpu) for sample in history] == [
        (at, number / 10) for number, at in enumerate(times)
    ]
    newest = await kit.second.heartbeat_history(node, began_at, kit.now, 2)
    assert [sample.at for sample in newest] == times[-2:]
    part = await kit.second.heartbeat_history(node, times[1], times[3], 10)
    assert [sample.at for sample in part] == times[1:3]
    assert await kit.second.heartbeat_history(12_345, began_at, kit.now, 10) == []


async def a_removed_node_is_listed_no_more_but_its_record_stays(store: Store, kit: Kit) -> None:
    node, other = await kit.node(), await kit.node()
    await store.unregister_node(node.id, kit.later())
    assert [record.id for record in await kit.second.load_nodes()] == [other.id]
    (record,) = await kit.second.load_nodes([node.id])
    assert record.removed_at == kit.now
    assert await kit.second.secret_hash(node.id) is None


async def a_removed_node_keeps_its_history(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.complete(run)
    await store.unregister_node(run.node.id, kit.now)
    assert (await kit.record(run.task)).node == run.node.id
    (execution,) = await kit.second.task_executions(run.task)
    assert execution.node == run.node.id


async def a_removed_node_is_renewed_no_more_and_told_why(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await store.unregister_node(node.id, kit.now)
    async with kit.unchanged():
        renewed = await kit.renew(node)
    assert (renewed.is_open, renewed.is_newest, renewed.is_removed) == (False, False, True)


async def the_work_of_a_removed_node_is_free_when_its_lease_has_ended(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await store.unregister_node(run.node.id, kit.now)
    assert await kit.status(run.task) is TaskStatus.ASSIGNED
    (lease,) = await kit.second.open_leases()
    await store.end_session(
        lease.node, lease.session, NodeStatus.UNRESPONSIVE, kit.lose(), kit.now, renewals=lease.renewals
    )
    assert await kit.status(run.task) is TaskStatus.PENDING
    assert (await kit.second.load_nodes([run.node.id]))[0].removed_at is not None


async def a_node_is_removed_once(store: Store, kit: Kit) -> None:
    node = await kit.join()
    await store.unregister_node(node, kit.now)
    async with kit.unchanged():
        for unknown in (node, 12_345):
            with pytest.raises(NotFound):
                await store.unregister_node(unknown, kit.now)


async def a_removed_node_can_join_again_as_a_new_one(store: Store, kit: Kit) -> None:
    first = await store.register_node(_named(kit, "key", "first", device_id="worker-001"), kit.now)
    await store.unregister_node(first, kit.now)
    again = await store.register_node(_named(kit, "key", "second", device_id="worker-001"), kit.now)
    assert again != first
    assert [record.id for record in await kit.second.load_nodes()] == [again]
    assert await kit.second.secret_hash(first) is None


async def a_node_announces_what_is_new_and_keeps_its_secret(store: Store, kit: Kit) -> None:
    node = await store.register_node(_named(kit, "key", "secret", lease_ms=9_000), kit.now)
    news = NodeDescription("renamed", cluster="eu", device_id="worker-001", task_types=("echo",), lease_ms=30_000)
    await store.replace_description(node, news, kit.now, "key")
    (record,) = await kit.second.load_nodes([node])
    assert (record.description, record.status) == (news, NodeStatus.PENDING)
    assert await kit.second.secret_hash(node) == "secret"
    assert "eu" in {cluster.name for cluster in await kit.second.list_clusters()}
    await store.replace_description(node, NodeDescription("again"), kit.now, None)
    assert [record.description.name for record in await kit.second.load_nodes([node])] == ["again"]


async def a_node_announces_only_itself(store: Store, kit: Kit) -> None:
    node = await store.register_node(_named(kit, "mine", "secret"), kit.now)
    await store.register_node(_named(kit, "theirs", "other", device_id="worker-001"), kit.now)
    gone = await store.register_node(_named(kit, "gone", "gone"), kit.now)
    await store.unregister_node(gone, kit.now)
    async with kit.unchanged():
        for join_key in ("theirs", "nobody's"):
            with pytest.raises(NotAllowed):
                await store.replace_description(node, NodeDescription("n"), kit.now, join_key)
        with pytest.raises(Conflict):
            await store.replace_description(node, NodeDescription("n", device_id="worker-001"), kit.now, "mine")
        for unknown in (gone, kit.ids.new_id()):
            with pytest.raises(NotFound):
                await store.replace_description(unknown, NodeDescription("n"), kit.now, None)


async def everything_done_to_one_node_at_once_ends_in_order(store: Store, kit: Kit) -> None:
    """Renewals, holds, sessions and removal lock the same rows: nobody may wait for another crosswise."""
    for _ in range(ROUNDS // 2):
        node = await kit.open_session(await kit.join())
        calls = [
            kit.renew(node),
            kit.second.set_maintenance(node.id, None, True, kit.now),
            kit.end(node),
            store.set_slots(node.id, 3, kit.now),
            kit.second.unregister_node(node.id, kit.now),
            store.set_maintenance(node.id, None, False, kit.now),
        ]
        await asyncio.gather(*kit.rng.sample(calls, len(calls)))
        (record,) = await kit.second.load_nodes([node.id])
        assert record.removed_at == kit.now


async def there_is_a_default_cluster(store: Store, kit: Kit) -> None:
    assert await kit.second.list_clusters() == [Cluster("default")]


async def a_cluster_is_put_and_changed(store: Store, kit: Kit) -> None:
    await store.put_cluster(Cluster("eu", description="Europe"), kit.now)
    await store.put_cluster(Cluster("eu", ClusterStatus.INACTIVE, "Europe", "shop"), kit.now)
    clusters = {cluster.name: cluster for cluster in await kit.second.list_clusters()}
    assert clusters["eu"] == Cluster("eu", ClusterStatus.INACTIVE, "Europe", "shop")
    assert clusters["default"] == Cluster("default")


def _named(kit: Kit, join_key: str, secret: str, device_id: str | None = None, lease_ms: int = 9_000) -> NewNode:
    return NewNode(
        kit.ids.new_id(), join_key, secret, NodeDescription("worker", device_id=device_id, lease_ms=lease_ms)
    )


async def a_cluster_is_dropped_with_its_configuration_when_nothing_is_in_it(store: Store, kit: Kit) -> None:
    await store.put_cluster(Cluster("eu"), kit.now)
    await store.put_config("eu", {"slots": 3}, "ann", kit.now)
    lane = Lane.with_id("default", "", 5, Requirement("echo", cluster="eu"))
    await store.ensure_lanes([lane])
    task = await kit.submit_one(lane=lane)
    with pytest.raises(Conflict, match="open tasks name"):
        await kit.second.drop_cluster("eu", kit.now)
    await kit.cancel(task)
    await store.drop_cluster("eu", kit.now)
    assert "eu" not in {cluster.name for cluster in await kit.second.list_clusters()}
    with pytest.raises(NotFound):
        await store.drop_cluster("eu", kit.now)
    await store.put_cluster(Cluster("eu"), kit.now)
    assert (await kit.second.cluster_config("eu")).version == 0
