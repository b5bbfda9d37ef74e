"""Joining: what a node says of itself is checked field by field, and what it runs is known from then on."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.tokens import hash_secret
from crawlfleet.control.nodes.heartbeat import LEASE_UNSET_MS, SimpleClients
from crawlfleet.control.nodes.open_session import OpenSession
from crawlfleet.control.nodes.register import Register, RegistrationResult
from crawlfleet.control.support.master_roster import MasterRoster
from crawlfleet.control.support.session_counter import SessionCounter
from crawlfleet.control.tasks.finish import Finish
from crawlfleet.control.tasks.task_types import TYPES_MOST, KnownTypes, TaskTypes
from crawlfleet.errors import Conflict, InvalidInput, NotAllowed, NotFound
from crawlfleet.model import limits
from crawlfleet.model.node import NodeDescription
from crawlfleet.model.status import NodeStatus
from crawlfleet.ports.admin_store import TypeIgnored
from crawlfleet.wire.sync import OpenUp
from testkit.clock import FakeClock
from testkit.factories import Kit
from tests.unit.control.tasks.test_schema_cost import unfolding
from tests.unit.store.store_kit import sqlite_kit

STRICT = {"type": "object", "required": ["url"]}


class Desk:
    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.store = kit.second
        self.clock = FakeClock(kit.now)
        self.known = KnownTypes(TaskTypes({"echo": {}}), store=self.store, clock=self.clock)
        self.configure = Configure(store=self.store, clock=self.clock)
        numbers = itertools.count(1)
        self.service = Register(
            store=self.store,
            id_factory=kit.ids,
            clock=self.clock,
            make_secret=lambda: f"{next(numbers):064x}",
            known_types=self.known,
            simple=SimpleClients(interval_s=20, timeout_s=100),
        )
        broker, rng = MemoryBroker(), Random(1)
        self.sessions = OpenSession(
            store=self.store,
            broker=broker,
            clock=self.clock,
            rng=rng,
            known_types=self.known,
            finish=Finish(store=self.store, broker=broker, clock=self.clock, rng=rng),
            configure=self.configure,
            roster=MasterRoster(),
            sessions=SessionCounter(self.clock),
        )

    async def register(self, join_key: str = "key", types: Any = None, **fields: Any) -> RegistrationResult:
        description = NodeDescription(**{"name": "worker", **fields})
        return await self.service.register_node(description, join_key, types)

    def opening(self, joined: RegistrationResult, **fields: Any) -> OpenUp:
        return OpenUp(**{"node": joined.node, "secret": joined.secret, "slots": 1, "task_types": ["echo"], **fields})


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with sqlite_kit(tmp_path) as kit:
        yield Desk(kit)


async def test_a_node_gets_an_id_and_a_secret_of_its_own(desk: Desk) -> None:
    one, two = await desk.register("one"), await desk.register("two")
    assert one.node != two.node
    assert one.secret != two.secret
    assert (one.status, one.registered_at) == (NodeStatus.PENDING, desk.clock.now())
    assert await desk.store.secret_hash(one.node) == hash_secret(one.secret)


@pytest.mark.parametrize(
    ("fields", "lease_ms"),
    [
        ({"is_pull_only": True, "lease_ms": LEASE_UNSET_MS}, 100_000),
        ({"is_pull_only": True, "lease_ms": 15_000}, 15_000),
        ({}, 9_000),
    ],
)
async def test_a_client_that_does_not_say_its_interval_has_the_installation_s(
    desk: Desk, fields: dict[str, Any], lease_ms: int
) -> None:
    joined = await desk.register(**fields)
    (node,) = await desk.store.load_nodes([joined.node])
    assert joined.lease_ms == node.description.lease_ms == lease_ms


def test_silence_costs_no_node_before_three_heartbeats_were_missed() -> None:
    assert SimpleClients(interval_s=30, timeout_s=300).lease_ms == 300_000
    assert SimpleClients(interval_s=30, timeout_s=31).lease_ms == 90_000


async def test_a_node_may_say_everything_there_is_to_say(desk: Desk) -> None:
    description = NodeDescription(
        "n" * limits.NAME_CHARS,
        "d" * limits.MESSAGE_CHARS,
        "eu",
        "2001:db8::1",
        65_535,
        "gpu",
        "eu-west",
        0.5,
        10_000,
        ("echo",),
        (("javascript_rendering", 1.0), ("content_types", ("html", "pdf"))),
        (("cpu", 8.0), ("gpu", 0.0)),
        "worker-001",
        True,
        3_600_000,
    )
    joined = await desk.service.register_node(description, "k" * limits.NAME_CHARS)
    (record,) = await desk.store.load_nodes([joined.node])
    assert record.description == description


MANY = tuple((f"name {n}", 1.0) for n in range(limits.LABELS + 1))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"join_key": ""}, "join_key"),
        ({"join_key": "k\x00"}, "join_key"),
        ({"join_key": "k" * 201}, "join_key"),
        ({"join_key": "\ud800"}, "join_key"),
        ({"name": ""}, "name"),
        ({"name": "n" * 201}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"description": "d" * 2_001}, "description"),
        ({"description": "\x00"}, "description"),
        ({"cluster": ""}, "cluster"),
        ({"cluster": "c\x00"}, "cluster"),
        ({"node_type": ""}, "node_type"),
        ({"ip_address": "somewhere"}, "ip_address"),
        ({"ip_address": "10.0.0.256"}, "ip_address"),
        ({"ip_address": "10.0.0.1\x00"}, "ip_address"),
        ({"port": -1}, "port"),
        ({"port": 65_536}, "port"),
        ({"region": "r" * 101}, "region"),
        ({"region": "\x00"}, "region"),
        ({"device_id": ""}, "device_id"),
        ({"device_id": "d" * 201}, "device_id"),
        ({"device_id": "\x00"}, "device_id"),
        ({"weight": 0}, "weight"),
        ({"weight": float("nan")}, "weight"),
        ({"weight": float("inf")}, "weight"),
        ({"slots": 0}, "slots"),
        ({"slots": 10_001}, "slots"),
        ({"lease_ms": 999}, "lease_ms"),
        ({"lease_ms": 3_600_001}, "lease_ms"),
        ({"resources": (("cpu", -1.0),)}, "resources.cpu"),
        ({"resources": (("cpu", float("inf")),)}, "resources.cpu"),
        ({"resources": (("", 1.0),)}, "resources"),
        ({"resources": MANY}, "resources"),
        ({"capabilities": (("js", float("nan")),)}, "capabilities.js"),
        ({"capabilities": MANY}, "capabilities"),
        ({"capabilities": (("js", ("a", "b\x00")),)}, "capabilities.js"),
        ({"capabilities": (("js", ("x" * 101,)),)}, "capabilities.js"),
        ({"capabilities": (("\x00", 1.0),)}, "capabilities"),
        ({"task_types": ("",)}, "task_types"),
        ({"task_types": ("a\x00",)}, "task_types"),
        ({"types": {"bad": {"type": "wrong"}}}, "task_types.bad"),
        ({"types": {f"t{n}": {} for n in range(TYPES_MOST + 1)}}, "task_types"),
    ],
)
async def test_what_a_node_cannot_be_is_refused_by_field(desk: Desk, fields: dict[str, Any], field: str) -> None:
    async with desk.kit.unchanged():
        with pytest.raises(InvalidInput) as raised:
            await desk.register(**fields)
    assert raised.value.field == field


async def test_the_handle_of_another_node_is_a_conflict(desk: Desk) -> None:
    joined = await desk.register("one", device_id="worker-001")
    with pytest.raises(Conflict, match="worker-001"):
        await desk.register("two", device_id="worker-001")
    assert await desk.store.node_by_device("worker-001") == joined.node


# -- types


async def test_types_that_a_node_brings_are_known_at_once_and_everywhere(desk: Desk) -> None:
    joined = await desk.register(types={"crawl": STRICT, "mine": {}}, task_types=("echo",))
    (record,) = await desk.store.load_nodes([joined.node])
    assert record.description.task_types == ("crawl", "echo", "mine")
    assert desk.known.types.find_refusal("crawl", b"{}") is not None
    assert [(each.name, each.version) for each in await desk.store.task_types()] == [("crawl", 1), ("mine", 1)]


async def test_a_node_changes_its_own_schema_and_no_other(desk: Desk) -> None:
    newer = {"type": "object", "required": ["site"]}
    one = await desk.register("one", types={"crawl": STRICT})
    two = await desk.register("two", types={"crawl": newer, "echo": newer, "mine": {}})
    assert two.ignored_types == {"crawl": TypeIgnored.OTHER_NODE, "echo": TypeIgnored.BUILT_IN}
    assert desk.known.types.find_refusal("crawl", b'{"url": 1}') is None
    assert desk.known.types.find_refusal("echo", b"{}") is None
    again = await desk.service.announce_node(one.node, NodeDescription(name="worker"), task_types={"crawl": newer})
    assert again.ignored_types == {}
    assert [(each.name, each.version) for each in await desk.store.task_types()] == [("crawl", 2), ("mine", 1)]
    assert desk.known.types.find_refusal("crawl", b'{"site": 1}') is None


async def test_a_new_version_is_rolled_out_node_by_node_and_an_old_worker_does_not_undo_it(desk: Desk) -> None:
    old, new = {"version": 1, "required": ["url"]}, {"version": 2, "required": ["site"]}
    first = await desk.register("first", types={"crawl": old})
    second = await desk.register("second", types={"crawl": old})
    assert second.ignored_types == {}
    said = await desk.service.announce_node(second.node, NodeDescription(name="worker"), task_types={"crawl": new})
    assert said.ignored_types == {"crawl": TypeIgnored.OTHER_NODE}, "its owner has not been upgraded yet"
    said = await desk.service.announce_node(first.node, NodeDescription(name="worker"), task_types={"crawl": new})
    assert said.ignored_types == {}
    late = await desk.register("late", types={"crawl": old})
    assert late.ignored_types == {"crawl": TypeIgnored.OTHER_NODE}
    said = await desk.service.announce_node(first.node, NodeDescription(name="worker"), task_types={"crawl": old})
    assert said.ignored_types == {"crawl": TypeIgnored.OLDER}
    assert desk.known.types.find_refusal("crawl", b'{"site": 1}') is None


async def test_a_schema_that_unfolds_without_bound_spends_no_enrolment(desk: Desk) -> None:
    async with desk.kit.unchanged():
        with pytest.raises(InvalidInput) as raised:
            await desk.register(types={"bad": unfolding(30)})
    assert raised.value.field == "task_types.bad"


async def test_what_an_old_worker_says_of_a_built_in_type_is_not_even_looked_at(desk: Desk) -> None:
    joined = await desk.register(types={"echo": unfolding(30)})
    assert joined.ignored_types == {"echo": TypeIgnored.BUILT_IN}
    (record,) = await desk.store.load_nodes([joined.node])
    assert record.description.task_types == ("echo",)


# -- sessions


async def test_a_session_tells_how_often_to_speak(desk: Desk) -> None:
    await desk.configure.put_config("default", {"sync_interval_s": 1.5}, by="ann")
    usual, short = await desk.register("one"), await desk.register("two", lease_ms=3_000)
    down = await desk.sessions.open_session(desk.opening(usual))
    assert (down.is_open, down.lease_ms, down.sync_ms) == (True, 9_000, 1_500)
    down = await desk.sessions.open_session(desk.opening(short))
    assert (down.lease_ms, down.sync_ms) == (3_000, 1_000)


async def test_a_session_needs_the_secret_of_its_own_node(desk: Desk) -> None:
    one, two = await desk.register("one"), await desk.register("two")
    async with desk.kit.unchanged():
        with pytest.raises(NotAllowed):
            await desk.sessions.open_session(desk.opening(one, secret=two.secret))
        with pytest.raises(NotFound):
            await desk.sessions.open_session(desk.opening(one, node=12_345))


async def test_types_named_at_the_opening_can_be_submitted(desk: Desk) -> None:
    joined = await desk.register()
    await desk.sessions.open_session(desk.opening(joined, task_types=["echo", "later"]))
    assert desk.known.types.find_refusal("later", b"{}") is None
    assert [each.name for each in await desk.store.task_types()] == ["later"]


@pytest.mark.parametrize("types", [[""], ["a\x00"], ["t"] * (TYPES_MOST + 1)])
async def test_types_named_at_the_opening_are_checked(desk: Desk, types: list[str]) -> None:
    joined = await desk.register()
    with pytest.raises(InvalidInput) as raised:
        await desk.sessions.open_session(desk.opening(joined, task_types=types))
    assert raised.value.field == "task_types"
