"""The audit log: an entry is written whatever is in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawlfleet.control.admin.audit import DETAILS_BYTES, PAGE_MOST, Audit
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.principal import Principal, Role
from testkit.clock import FakeClock
from tests.unit.store.store_kit import sqlite_kit

ANN = Principal(Role.OPERATOR, "ann", token=3)


@pytest.fixture
async def audit(tmp_path: Path) -> AsyncIterator[Audit]:
    async with sqlite_kit(tmp_path) as kit:
        yield Audit(store=kit.store, clock=FakeClock())


async def test_who_did_what_to_what_from_where(audit: Audit) -> None:
    await audit.write_entry(ANN, "10.0.0.9", "task.cancel", "task-1", {"reason": "too slow"})
    await audit.write_entry(None, "10.0.0.7", "token.refused", "")
    nobody, ann = await audit.list_entries(10)
    assert (ann.role, ann.name, ann.token, ann.address) == (Role.OPERATOR, "ann", 3, "10.0.0.9")
    assert (ann.action, ann.target, ann.details) == ("task.cancel", "task-1", {"reason": "too slow"})
    assert ann.at == FakeClock().now()
    assert (nobody.role, nobody.name, nobody.details) == (None, "", {})


async def test_pages_follow_each_other(audit: Audit) -> None:
    for n in range(5):
        await audit.write_entry(ANN, "a", "x", f"{n}")
    first = await audit.list_entries(3)
    second = await audit.list_entries(3, before=first[-1].id)
    assert [entry.target for entry in (*first, *second)] == ["4", "3", "2", "1", "0"]


async def test_an_entry_is_kept_whatever_a_stranger_wrote_into_it(audit: Audit) -> None:
    await audit.write_entry(ANN, "a\x00b", "x", "\ud800" + "t" * 10_000, {"key": "\ud800\x00", "odd": {1, 2}.__class__})
    (entry,) = await audit.list_entries()
    assert entry.address == "a\ufffdb"
    assert len(entry.target) <= limits.NAME_CHARS + 3
    assert set(entry.details) == {"key", "odd"}


async def test_long_details_are_cut_and_say_so(audit: Audit) -> None:
    await audit.write_entry(ANN, "a", "x", "y", {f"field {n}": "z" * DETAILS_BYTES for n in range(100)})
    (entry,) = await audit.list_entries()
    assert entry.details["cut"] > DETAILS_BYTES
    assert entry.details["fields"][0] == "field 0"


@pytest.mark.parametrize("limit", [0, -1, PAGE_MOST + 1])
async def test_a_page_has_bounds(audit: Audit, limit: int) -> None:
    with pytest.raises(InvalidInput) as raised:
        await audit.list_entries(limit)
    assert raised.value.field == "limit"


@pytest.mark.parametrize("before", [0, 1 << 70])
async def test_a_page_begins_at_an_entry(audit: Audit, before: int) -> None:
    with pytest.raises(InvalidInput) as raised:
        await audit.list_entries(10, before)
    assert raised.value.field == "before"
