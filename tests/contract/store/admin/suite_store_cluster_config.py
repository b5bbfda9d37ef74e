"""Task types, run-time configuration of clusters, and what names the installation."""

import asyncio
import re

import pytest

from crawlfleet.errors import Conflict, NotFound
from crawlfleet.model.node import Cluster
from crawlfleet.ports.admin_store import MASTERS, OWNER_AWAY_MS, ClusterConfig, TypeIgnored
from crawlfleet.ports.store import Store
from testkit.factories import Kit

ROUNDS = 10
STRICT = {"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}}


# -- task types


async def types_are_kept_with_their_schemas(store: Store, kit: Kit) -> None:
    node = await kit.join()
    assert await store.put_task_types({"sleep": {}, "crawl": STRICT}, node, kit.now) == {}
    assert await kit.second.task_types() == [("crawl", 1, STRICT, kit.now, node, 0), ("sleep", 1, {}, kit.now, node, 0)]


async def the_same_schema_again_changes_nothing(store: Store, kit: Kit) -> None:
    node, other = await kit.join(), await kit.join()
    await store.put_task_types({"crawl": STRICT}, node, kit.now)
    await store.put_built_in_types({"echo": STRICT}, 5, kit.now)
    async with kit.unchanged():
        again = {"crawl": dict(reversed(STRICT.items()))}
        assert await store.put_task_types(again, node, kit.later()) == {}
        assert await store.put_task_types(again, other, kit.later()) == {}, "it agrees, and does not own it"
        assert await store.put_task_types({}, node, kit.now) == {}
        await store.put_built_in_types({"echo": STRICT}, 5, kit.now)
        await store.put_built_in_types({}, 5, kit.now)


async def another_schema_of_its_owner_is_the_next_version(store: Store, kit: Kit) -> None:
    node = await kit.join()
    await store.put_task_types({"crawl": STRICT, "echo": {}}, node, kit.now)
    at = kit.now
    await store.put_task_types({"crawl": {"type": "object"}, "echo": {}}, node, kit.later())
    assert await kit.second.task_types() == [
        ("crawl", 2, {"type": "object"}, kit.now, node, 0),
        ("echo", 1, {}, at, node, 0),
    ]


async def another_nodes_type_is_left_as_it_is(store: Store, kit: Kit) -> None:
    owner, other = await kit.node(), await kit.node()
    await store.put_task_types({"crawl": STRICT}, owner.id, kit.now)
    async with kit.unchanged():
        for schema in ({}, {"version": 7}):
            ignored = await store.put_task_types({"crawl": schema}, other.id, kit.later())
            assert ignored == {"crawl": TypeIgnored.OTHER_NODE}


async def a_type_goes_only_forward(store: Store, kit: Kit) -> None:
    node = await kit.join()
    for version in (2, 3):
        assert await store.put_task_types({"crawl": {"version": version}}, node, kit.now) == {}
    async with kit.unchanged():
        for old in ({"version": 2}, {}, {"version": True}, {"version": "9"}, {"version": -1}):
            assert await store.put_task_types({"crawl": old}, node, kit.now) == {"crawl": TypeIgnored.OLDER}
    same = {"version": 3, "title": "mended"}
    assert await store.put_task_types({"crawl": same}, node, kit.now) == {}
    (record,) = await kit.second.task_types()
    assert (record.version, record.schema, record.revision) == (3, same, 3)


async def the_type_of_a_removed_node_is_free(store: Store, kit: Kit) -> None:
    owner, other, third = await kit.join(), await kit.join(), await kit.join()
    await store.put_task_types({"crawl": {"version": 2}, "same": STRICT}, owner, kit.now)
    await store.unregister_node(owner, kit.now)
    assert await store.put_task_types({"crawl": {}}, other, kit.now) == {"crawl": TypeIgnored.OTHER_NODE}
    assert await store.put_task_types({"crawl": {"version": 2, "title": "b"}, "same": STRICT}, other, kit.now) == {}
    assert {record.owner for record in await kit.second.task_types()} == {other}
    ignored = await store.put_task_types({"crawl": {"version": 3}, "same": {}}, third, kit.now)
    assert ignored == {"crawl": TypeIgnored.OTHER_NODE, "same": TypeIgnored.OTHER_NODE}


async def the_type_of_a_node_that_is_long_away_is_taken_over_by_a_newer_schema_only(store: Store, kit: Kit) -> None:
    owner, other = await kit.join(), await kit.join()
    await store.put_task_types({"crawl": {"version": 1}}, owner, kit.now)
    newer = {"crawl": {"version": 2}}
    away = kit.now + OWNER_AWAY_MS
    assert await store.put_task_types(newer, other, away - 1) == {"crawl": TypeIgnored.OTHER_NODE}
    old = {"crawl": {"version": 1, "title": "old"}}
    assert await store.put_task_types(old, other, away + 1) == {"crawl": TypeIgnored.OTHER_NODE}
    assert await store.put_task_types(newer, other, away + 1) == {}
    ready = await kit.online(other)
    assert ready.id == other
    latest = {"crawl": {"version": 9}}
    ignored = await store.put_task_types(latest, owner, kit.now + 10 * OWNER_AWAY_MS)
    assert ignored == {"crawl": TypeIgnored.OTHER_NODE}, "its owner has an open session"


async def built_in_types_come_from_masters_only_and_go_only_forward(store: Store, kit: Kit) -> None:
    node = await kit.join()
    await store.put_task_types({"echo": {"title": "a node's"}, "same": {}}, node, kit.now)
    await store.put_built_in_types({"echo": STRICT, "same": {}}, 5, kit.now)
    assert [record[1:3] + record[4:] for record in await kit.second.task_types()] == [
        (2, STRICT, MASTERS, 5),
        (1, {}, MASTERS, 5),
    ]
    async with kit.unchanged():
        ignored = await store.put_task_types({"echo": {"version": 99}, "same": {}}, node, kit.later())
        assert ignored == {"echo": TypeIgnored.BUILT_IN}
        await store.put_built_in_types({"echo": {}}, 4, kit.later())
    await store.put_built_in_types({"echo": {}}, 6, kit.later())
    assert [(record.schema, record.revision) for record in await kit.second.task_types()] == [({}, 6), ({}, 5)]


async def a_type_that_is_only_named_does_not_replace_its_schema(store: Store, kit: Kit) -> None:
    node = await kit.join()
    await store.put_task_types({"crawl": STRICT}, node, kit.now)
    await store.put_type_names(["crawl", "echo"], kit.now)
    assert [(name, version) for name, version, *_ in await kit.second.task_types()] == [("crawl", 1), ("echo", 1)]
    assert await store.put_task_types({"echo": STRICT}, node, kit.now) == {}, "nobody's so far"


async def types_put_by_many_at_once_have_one_owner(store: Store, kit: Kit) -> None:
    nodes = [await kit.join() for _ in range(4)]
    for n in range(ROUNDS):
        names = [f"type {n} {m}" for m in range(5)]
        calls = [
            (store, kit.second)[m % 2].put_task_types({name: {"title": str(m)} for name in names}, node, kit.now)
            for m, node in enumerate(nodes)
        ]
        ignored = await asyncio.gather(*calls)
        found = {record.name: record for record in await kit.second.task_types() if record.name in names}
        assert {found[name].version for name in names} == {1}
        assert len({str(found[name].schema) for name in names}) == 1
        assert sorted(map(len, ignored)) == [0, 5, 5, 5]


# -- configuration


async def a_cluster_begins_with_no_configuration_of_its_own(store: Store, kit: Kit) -> None:
    assert await kit.second.cluster_config("default") == ClusterConfig("default", 0, {})
    assert await kit.second.config_history("default", 10) == []
    assert await kit.second.cluster_configs() == []


async def every_version_is_kept_with_who_and_when(store: Store, kit: Kit) -> None:
    first = await store.put_config("default", {"slots": 3}, "ann", kit.now)
    assert first == ClusterConfig("default", 1, {"slots": 3}, "ann", kit.now)
    second = await store.put_config("default", {"allow_hosts": ["a"]}, "bob", kit.later())
    assert (second.version, second.values, second.changed_by, second.changed_at) == (
        2,
        {"allow_hosts": ["a"]},
        "bob",
        kit.now,
    )
    assert await kit.second.cluster_config("default") == second
    assert await kit.second.config_history("default", 10) == [second, first]
    assert await kit.second.config_history("default", 1) == [second]


async def clusters_have_versions_of_their_own(store: Store, kit: Kit) -> None:
    await store.put_cluster(Cluster("eu"), kit.now)
    await store.put_cluster(Cluster("us"), kit.now)
    await store.put_config("default", {"slots": 1}, "ann", kit.now)
    await store.put_config("default", {"slots": 2}, "ann", kit.now)
    await store.put_config("eu", {"slots": 3}, "ann", kit.now)
    newest = [(config.cluster, config.version, config.values) for config in await kit.second.cluster_configs()]
    assert newest == [("default", 2, {"slots": 2}), ("eu", 1, {"slots": 3})]


async def a_configuration_that_was_changed_meanwhile_is_not_overwritten(store: Store, kit: Kit) -> None:
    await store.put_config("default", {"slots": 1}, "ann", kit.now, expected_version=0)
    async with kit.unchanged():
        for version in (0, 2):
            with pytest.raises(Conflict):
                await store.put_config("default", {"slots": 2}, "bob", kit.now, expected_version=version)
    await store.put_config("default", {"slots": 2}, "bob", kit.now, expected_version=1)


async def of_many_that_change_one_version_at_once_one_does(store: Store, kit: Kit) -> None:
    for version in range(ROUNDS):
        calls = [
            (store, kit.second)[m % 2].put_config("default", {"slots": m}, f"{m}", kit.now, expected_version=version)
            for m in range(4)
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert sorted(type(answer).__name__ for answer in answers) == ["ClusterConfig", *["Conflict"] * 3]


async def versions_without_an_expectation_follow_each_other(store: Store, kit: Kit) -> None:
    calls = [(store, kit.second)[m % 2].put_config("default", {"slots": m}, "ann", kit.now) for m in range(8)]
    assert sorted(config.version for config in await asyncio.gather(*calls)) == list(range(1, 9))


async def a_cluster_that_is_not_there_has_no_configuration(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        with pytest.raises(NotFound):
            await store.put_config("nowhere", {}, "ann", kit.now)
    with pytest.raises(NotFound):
        await kit.second.cluster_config("nowhere")
    with pytest.raises(NotFound):
        await kit.second.config_history("nowhere", 1)


# -- the installation


async def an_installation_has_one_id_for_ever(store: Store, kit: Kit) -> None:
    ids = await asyncio.gather(*((store, kit.second)[m % 2].installation_id() for m in range(6)))
    assert len(set(ids)) == 1
    assert re.fullmatch(r"[0-9a-f]{32}", ids[0])
    async with kit.unchanged():
        assert await kit.second.installation_id() == ids[0]


async def the_first_to_keep_a_fact_is_believed(store: Store, kit: Kit) -> None:
    assert await store.find_fact("results") is None
    kept = await asyncio.gather(*((store, kit.second)[m % 2].keep_fact("results", f"place {m}") for m in range(6)))
    assert len(set(kept)) == 1
    async with kit.unchanged():
        assert await kit.second.keep_fact("results", "another") == kept[0]
    assert await kit.second.find_fact("results") == await store.find_fact("results") == kept[0]
    assert await store.find_fact("no such") is None
