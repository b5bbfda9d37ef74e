"""Which masters people see, and which of them leads."""

from pathlib import Path

from crawlfleet.control.admin.masters import MasterReader
from crawlfleet.model.installation.master import MasterFigures, MasterIdentity
from crawlfleet.store.engine.sqlite.engine import InlineEngine
from crawlfleet.store.store import SqlStore
from testkit.clock import FakeClock
from tests.api.kit import migrated


async def test_the_leader_is_marked_and_a_silent_start_is_shown_until_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(migrated())
    store, clock = SqlStore(InlineEngine(tmp_path / "db")), FakeClock()
    reader = MasterReader(store=store, clock=clock)
    starts = [
        MasterIdentity(await store.register_master(name, clock.now()), name, clock.now(), "1") for name in ("a", "b")
    ]
    await store.campaign(starts[1].holder, await store.read_leader(), clock.now())
    clock.advance(20.0)
    await store.record_master_beat(starts[1], MasterFigures(), clock.now())
    reports = await reader.list_masters()
    assert [(each.record.identity.name, each.record.is_alive, each.is_leader) for each in reports] == [
        ("b", True, True),
        ("a", False, False),
    ]
    await store.register_master("a", clock.now())
    assert [(each.record.identity.name, each.record.is_alive) for each in await reader.list_masters()] == [
        ("a", True),
        ("b", True),
    ]
