"""Rows of masters: a beat shows that a start is alive, and its silence is measured by one clock."""

from dataclasses import replace

from crawlfleet.model.installation.master import DiskFigures, LoopFigures, MasterFigures, MasterIdentity, MasterRecord
from crawlfleet.ports.leadership_store import MAX_MASTERS_LISTED
from crawlfleet.ports.store import Store
from testkit.factories import Kit

FIGURES = MasterFigures(
    url="http://127.0.0.1:8000",
    loop_lag_p99_ms=1.5,
    commit_p99_ms=12.25,
    loops={"dispatcher": LoopFigures(0.25, 0.0)},
    broker="redis",
    broker_trouble="Redis is away",
    broker_losses=2,
    broker_resets=3,
    broker_memory_ratio=0.5,
    broker_eviction="noeviction",
    leader_changes=1,
    memory_bytes=123_456_789,
    disks={"data": DiskFigures("/data", 10, 4)},
    clock_offset_ms=-40,
)


async def _started(store: Store, kit: Kit, name: str = "m", address: str = "http://10.0.0.1:8000") -> MasterIdentity:
    return MasterIdentity(await store.register_master(name, kit.now), name, kit.now, "1.2.3", address)


async def _listed(store: Store, kit: Kit) -> dict[int, MasterRecord]:
    """The masters by the number of their start, without that of the kit itself."""
    return {record.identity.boot: record for record in await store.list_masters(kit.now) if record.identity.version}


async def a_beat_shows_a_master_with_its_figures(store: Store, kit: Kit) -> None:
    master = await _started(store, kit)
    await store.record_master_beat(master, FIGURES, kit.now)
    record = (await _listed(kit.second, kit))[master.boot]
    assert (record.identity, record.figures) == (master, FIGURES)
    assert record.is_alive and 0 <= record.silent_ms < 5_000


async def a_master_that_has_not_beaten_yet_is_listed_without_figures(store: Store, kit: Kit) -> None:
    boot = await store.register_master("m", kit.now)
    (record,) = [each for each in await kit.second.list_masters(kit.now) if each.identity.boot == boot]
    assert record.is_alive
    assert record.identity == MasterIdentity(boot, "m", kit.now, "", "")
    assert record.figures == MasterFigures()


async def a_later_beat_replaces_the_figures(store: Store, kit: Kit) -> None:
    master = await _started(store, kit)
    await store.record_master_beat(master, FIGURES, kit.now)
    await store.record_master_beat(replace(master, address=""), MasterFigures(memory_bytes=7), kit.later())
    record = (await _listed(store, kit))[master.boot]
    assert (record.identity.address, record.figures) == ("", MasterFigures(memory_bytes=7))


async def a_master_that_stopped_is_not_listed(store: Store, kit: Kit) -> None:
    master, other = await _started(store, kit), await _started(store, kit, "n")
    for each in (master, other):
        await store.record_master_beat(each, FIGURES, kit.now)
    await store.record_master_stop(master.boot)
    assert list(await _listed(kit.second, kit)) == [other.boot]


async def a_beat_removes_the_rows_of_silent_masters_but_never_the_newest(store: Store, kit: Kit) -> None:
    silent, stopped, master = [await _started(store, kit, name) for name in ("silent", "stopped", "m")]
    await store.record_master_stop(stopped.boot)
    newest = await store.register_master("newest", kit.now)
    # Less than nothing is kept: whatever was written before is silent for longer.
    await store.record_master_beat(master, FIGURES, kit.now, keep_silent_ms=-60_000)
    kept = {record.identity.boot for record in await kit.second.list_masters(kit.now)}
    assert kept == {master.boot, newest}
    assert await store.register_master("next", kit.now) > newest, "a number of a start is never used again"
    assert silent.boot not in kept


async def a_master_whose_row_was_removed_comes_back_with_its_next_beat(store: Store, kit: Kit) -> None:
    frozen, master = await _started(store, kit, "frozen"), await _started(store, kit)
    await store.record_master_beat(master, FIGURES, kit.now, keep_silent_ms=-60_000)
    assert frozen.boot not in await _listed(store, kit)
    await store.record_master_beat(frozen, FIGURES, kit.now)
    assert (await _listed(kit.second, kit))[frozen.boot].identity == frozen


async def masters_that_crash_again_and_again_do_not_hide_one_that_runs(store: Store, kit: Kit) -> None:
    running = await _started(store, kit, "running")
    for _ in range(MAX_MASTERS_LISTED + 5):
        await store.register_master("crashing", kit.now)
    await store.record_master_beat(running, FIGURES, kit.later(1))
    listed = await kit.second.list_masters(kit.now)
    assert len(listed) == MAX_MASTERS_LISTED
    assert running in [record.identity for record in listed[:10]], "the one seen last comes first, or near it"
