"""The reporter: each master writes its row, reads those of the others, and leaves in good order."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from crawlfleet.bootstrap.master import Master, MasterOptions
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.model.installation.master import MasterFigures
from crawlfleet.store.engine.sqlite.engine import InlineEngine
from crawlfleet.store.store import SqlStore
from crawlfleet.version import __version__
from testkit.clock import FakeClock
from tests.api.kit import migrated


class Masters:
    """Two masters over one store, each with its own broker and one clock."""

    def __init__(self, store: SqlStore, clock: FakeClock) -> None:
        self.store, self.clock = store, clock

    async def start(self, name: str, address: str = "") -> Master:
        options = MasterOptions(address=address, probe=lambda: MasterFigures(memory_bytes=5, url=f"http://{name}"))
        return await Master.start(name, self.store, MemoryBroker(), {}, self.clock, Random(1), options=options)


async def report(master: Master) -> None:
    assert master.reporter is not None
    await master.reporter.run_once(master.clock.now())


@pytest.fixture
async def masters(tmp_path: Path) -> Masters:
    (tmp_path / "db").write_bytes(migrated())
    return Masters(SqlStore(InlineEngine(tmp_path / "db")), FakeClock())


async def test_a_master_reports_itself_with_its_figures(masters: Masters) -> None:
    master = await masters.start("a", "http://10.0.0.1")
    await master.leader.run_once(masters.clock.now())
    await report(master)
    (record,) = await masters.store.list_masters(masters.clock.now())
    assert (record.identity.holder, record.identity.version) == (master.name, __version__)
    assert record.identity.address == "http://10.0.0.1"
    figures = record.figures
    assert (figures.memory_bytes, figures.url, figures.clock_offset_ms) == (5, "http://a", None)
    assert {"leader", "dispatcher", "master_reporter"} <= figures.loops.keys(), "it leads, and its loops run"


async def test_loops_that_rest_are_not_reported(masters: Masters) -> None:
    first, second = await masters.start("a"), await masters.start("b")
    await first.leader.run_once(masters.clock.now())
    await report(second)
    records = {record.identity.name: record for record in await masters.store.list_masters(masters.clock.now())}
    assert set(records["b"].figures.loops) == {
        "leader",
        "id_keeper",
        "master_reporter",
        "log_level_keeper",
        "leader_watcher",
        "notifier",
    }


async def test_each_master_knows_the_addresses_of_those_that_are_alive(masters: Masters) -> None:
    first, second = await masters.start("a", "http://a"), await masters.start("b", "http://b")
    await report(first)
    assert first.roster.addresses_unless(0) == ["http://a"], "the other has not said its address yet"
    await report(second)
    await report(first)
    assert first.roster.addresses_unless(0) == second.roster.addresses_unless(0) == ["http://a", "http://b"]
    masters.clock.advance(16.0)
    await report(first)
    assert first.roster.addresses_unless(0) == ["http://a"]


async def test_a_master_that_stops_in_good_order_is_gone_at_once(masters: Masters) -> None:
    first, second = await masters.start("a", "http://a"), await masters.start("b", "http://b")
    await report(first)
    await report(second)
    assert second.reporter is not None
    await second.reporter.record_stop()
    await report(first)
    assert first.roster.addresses_unless(0) == ["http://a"]


async def test_a_broker_whose_content_began_anew_is_counted(masters: Masters, monkeypatch: pytest.MonkeyPatch) -> None:
    master = await masters.start("a")
    generations = iter(["one", "one", "two", "three"])

    async def next_generation() -> str:
        return next(generations)

    monkeypatch.setattr(master.broker, "load_generation", next_generation)
    counts = []
    for _ in range(4):
        await report(master)
        (record,) = await masters.store.list_masters(masters.clock.now())
        counts.append(record.figures.broker_resets)
    assert counts == [0, 0, 1, 2]


async def test_changes_of_the_leader_are_counted_for_an_hour(masters: Masters) -> None:
    master, store, clock = await masters.start("a"), masters.store, masters.clock
    await master.leader.run_once(clock.now())
    assert master.leader.recent_changes == 0, "the first leader that it sees is no change"
    for holder in ("x", "y"):
        await store.campaign(holder, await store.read_leader(), clock.now())
        await master.leader.run_once(clock.now())
        await master.leader.run_once(clock.now())
    assert master.leader.recent_changes == 2
    clock.advance(3_601.0)
    assert master.leader.recent_changes == 0
