"""Run-time configuration: what can be set, what holds, and what is refused by name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.cluster_settings import MAX_HOSTS, SETTINGS, ClusterSettings
from crawlfleet.control.leader.evidence_cache import EvidenceCache
from crawlfleet.errors import Conflict, InvalidInput, NotFound
from crawlfleet.model.node import Cluster
from crawlfleet.model.principal import Principal, Role
from crawlfleet.scheduling.placement.regions import Location
from testkit.clock import FakeClock
from testkit.factories import Kit
from tests.unit.store.store_kit import sqlite_kit


class Desk:
    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.clock = FakeClock()
        self.configure = self.another()

    def another(self, **defaults: Any) -> Configure:
        return Configure(store=self.kit.store, clock=self.clock, defaults=defaults)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with sqlite_kit(tmp_path) as kit:
        await kit.store.put_cluster(Cluster("eu"), kit.now)
        yield Desk(kit)


async def test_a_cluster_begins_with_the_defaults(desk: Desk) -> None:
    assert (await desk.configure.load_own_config("eu")).values == {}
    config = await desk.configure.load_effective_config("eu")
    assert config.version == 0
    assert config.settings == ClusterSettings()
    assert (await desk.another(slots=4).load_effective_config("eu")).settings.slots == 4


async def test_what_is_set_stands_over_the_defaults(desk: Desk) -> None:
    put = await desk.configure.put_config(
        "eu", {"strategy": "round_robin", "slots": 3}, by=Principal(Role.ADMIN, "ann")
    )
    assert (put.version, put.changed_by, put.changed_at) == (1, "ann", desk.clock.now())
    assert await desk.configure.load_own_config("eu") == put
    config = await desk.configure.load_effective_config("eu")
    assert (config.version, config.settings.strategy, config.settings.slots) == (1, "round_robin", 3)
    assert config.settings.max_retries == ClusterSettings().max_retries
    assert (await desk.configure.load_effective_config("default")).version == 0


async def test_what_is_left_out_has_its_default_again(desk: Desk) -> None:
    await desk.configure.put_config("eu", {"slots": 3}, by="ann")
    await desk.configure.put_config("eu", {}, by="bob")
    assert (await desk.configure.load_effective_config("eu")).settings.slots is None
    assert [(config.version, config.changed_by) for config in await desk.configure.list_versions("eu")] == [
        (2, "bob"),
        (1, "ann"),
    ]


async def test_a_change_reaches_other_masters_within_a_second(desk: Desk) -> None:
    other = desk.another()
    await other.load_effective_config("eu")
    await desk.configure.put_config("eu", {"slots": 3}, by="ann")
    assert (await desk.configure.load_effective_config("eu")).settings.slots == 3
    assert (await other.load_effective_config("eu")).settings.slots is None
    desk.clock.advance(1)
    assert (await other.load_effective_config("eu")).settings.slots == 3


async def test_a_version_that_is_not_the_newest_is_a_conflict(desk: Desk) -> None:
    await desk.configure.put_config("eu", {"slots": 3}, by="ann", expected_version=0)
    with pytest.raises(Conflict, match="at version 1"):
        await desk.configure.put_config("eu", {"slots": 4}, by="bob", expected_version=0)
    assert (await desk.configure.load_own_config("eu")).values == {"slots": 3}


async def test_hosts_are_kept_in_one_spelling(desk: Desk) -> None:
    hosts = [
        "Shop.Example.COM.",
        "127.0.0.1",
        "::0001",
        "localhost",
        "shop.example.com",
        "my_host-1",
        "Shop:080",
        "[0::1]:81",
        "10.1.2.3/8",
    ]
    put = await desk.configure.put_config("eu", {"allow_hosts": hosts}, by="ann")
    assert put.values["allow_hosts"] == [
        "10.0.0.0/8",
        "127.0.0.1",
        "::1",
        "[::1]:81",
        "localhost",
        "my_host-1",
        "shop.example.com",
        "shop:80",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("colour", "red"),
        ("", 1),
        ("x" * 10_000, 1),
        ("strategy", "best"),
        ("strategy", 1),
        ("strategy", None),
        ("slots", -1),
        ("slots", 10_001),
        ("slots", True),
        ("slots", 2.5),
        ("slots", "3"),
        ("slots", None),
        ("sync_interval_s", 0),
        ("sync_interval_s", 3.1),
        ("sync_interval_s", float("nan")),
        ("sync_interval_s", False),
        ("task_timeout_s", 0),
        ("max_retries", 101),
        ("allow_hosts", "shop"),
        ("allow_hosts", [1]),
        ("allow_hosts", ["http://shop"]),
        ("allow_hosts", ["shop:99999"]),
        ("allow_hosts", ["10.0.0.0/99"]),
        ("allow_hosts", [""]),
        ("allow_hosts", ["a b"]),
        ("allow_hosts", ["a..b"]),
        ("allow_hosts", ["h" * 64]),
        ("allow_hosts", [".".join(["a"] * 200)]),
        ("allow_hosts", ["a"] * (MAX_HOSTS + 1)),
        ("allow_hosts", ["a\x00"]),
        ("max_waiting", 5),
        ("overcommit", 2),
        ("regions", {}),
    ],
)
async def test_what_cannot_be_set_is_refused_by_name(desk: Desk, name: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        await desk.configure.put_config("eu", {"max_retries": 1, name: value}, by="ann")
    assert raised.value.field == (name if len(name) < 200 else raised.value.field)
    assert len(str(raised.value)) < 1_000
    assert (await desk.configure.load_own_config("eu")).version == 0


async def test_what_is_of_the_whole_installation_is_set_at_the_default_cluster(desk: Desk) -> None:
    await desk.configure.put_config("default", {"max_waiting": 5}, by="ann")
    assert (await desk.configure.load_effective_config("default")).settings.max_waiting == 5


PLACE = {"country": "AT", "latitude": 48, "longitude": 16.4}


async def test_an_installation_has_its_own_regions_and_factor(desk: Desk) -> None:
    await desk.configure.put_config("default", {"regions": {"Cellar 1": PLACE}, "overcommit": 1.5}, by="ann")
    settings = (await desk.configure.load_effective_config("default")).settings
    assert settings.regions == {"Cellar 1": {"country": "at", "latitude": 48, "longitude": 16.4}}
    assert settings.overcommit == 1.5
    knowing = EvidenceCache(store=desk.kit.store, configure=desk.configure)
    assert knowing.current_regions().find_location("cellar-1") == Location("at", 48, 16.4)
    assert knowing.current_regions() is knowing.current_regions()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("overcommit", 0),
        ("overcommit", 101),
        ("overcommit", float("nan")),
        ("overcommit", "2"),
        ("overcommit", True),
        ("regions", []),
        ("regions", "eu"),
        ("regions", {"": PLACE}),
        ("regions", {"a\x00": PLACE}),
        ("regions", {"x" * 101: PLACE}),
        ("regions", {"a": {}}),
        ("regions", {"a": [48, 16]}),
        ("regions", {"a": PLACE | {"more": 1}}),
        ("regions", {"a": PLACE | {"latitude": 91}}),
        ("regions", {"a": PLACE | {"longitude": float("nan")}}),
        ("regions", {"a": PLACE | {"latitude": "48"}}),
        ("regions", {"a": PLACE | {"country": "Austria"}}),
        ("regions", {"a": PLACE | {"country": None}}),
        ("regions", {str(number): PLACE for number in range(1_001)}),
    ],
)
async def test_what_is_no_region_or_factor_is_refused_by_name(desk: Desk, name: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        await desk.configure.put_config("default", {name: value}, by="ann")
    assert raised.value.field == name
    assert (await desk.configure.load_own_config("default")).version == 0


async def test_a_strategy_of_a_users_own_can_be_set_where_it_is_known(desk: Desk) -> None:
    own = Configure(store=desk.kit.store, clock=desk.clock, strategies=["least_loaded", "mine"])
    await own.put_config("eu", {"strategy": "mine"}, by="ann")
    with pytest.raises(InvalidInput, match="one of least_loaded, mine"):
        await own.put_config("eu", {"strategy": "largest"}, by="ann")


@pytest.mark.parametrize("cluster", ["nowhere", "", "a\x00b", "\ud800"])
async def test_a_cluster_that_is_not_there_is_said_so(desk: Desk, cluster: str) -> None:
    for call in (
        desk.configure.load_own_config(cluster),
        desk.configure.put_config(cluster, {}, "ann"),
        desk.configure.list_versions(cluster),
    ):
        with pytest.raises(NotFound):
            await call
    assert (await desk.configure.load_effective_config(cluster)).version == 0


async def test_history_has_bounds(desk: Desk) -> None:
    for limit in (0, 1_001):
        with pytest.raises(InvalidInput) as raised:
            await desk.configure.list_versions("eu", limit)
        assert raised.value.field == "limit"


async def test_a_setting_of_a_newer_version_is_passed_over(desk: Desk) -> None:
    await desk.kit.store.put_config("eu", {"from_the_future": 1, "slots": 2}, "ann", desk.kit.now)
    values = (await desk.configure.load_effective_config("eu")).settings.as_values()
    assert values.keys() == SETTINGS.keys()
    assert values["slots"] == 2


def test_wrong_defaults_are_found_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        Configure(store=None, clock=FakeClock(), defaults={"slots": -1})  # type: ignore[arg-type]
