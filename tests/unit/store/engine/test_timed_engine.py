"""Transactions are timed by their kind, whether they succeed or not."""

from pathlib import Path
from typing import Any

import pytest

from crawlfleet.errors import NotLeader
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.sqlite.engine import InlineEngine
from crawlfleet.store.engine.timed_engine import TimedEngine
from crawlfleet.store.engine.transaction import Tx


async def read_one(tx: Tx) -> Any:
    return (await tx.fetch("SELECT 1"))[0][0]


async def test_each_kind_has_its_times(tmp_path: Path) -> None:
    migrate_sqlite(tmp_path / "store.sqlite3")
    engine = TimedEngine(InlineEngine(tmp_path / "store.sqlite3"))
    try:
        assert await engine.read(read_one) == 1
        assert await engine.read_by_key(read_one) == 1
        assert await engine.browse_rows(read_one) == 1
        assert await engine.write(read_one) == 1
        with pytest.raises(NotLeader):
            await engine.write(read_one, term=77)
    finally:
        await engine.close()
    assert {kind: times.count for kind, times in engine.times.items()} == {
        "read": 1,
        "key_read": 1,
        "browse": 1,
        "write": 2,
    }
