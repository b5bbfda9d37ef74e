"""The summary of a crawl adds up what its completed members counted."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec

from crawlfleet.control.composites.crawl_summary import NOTES_MOST, CrawlSummaries, CrawlSummary
from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.composite_store import GroupStore, Member
from tests.unit.control.composites.crawl_engine import NEVER, ToyEngine

LOST = None


class Members:
    """A group of members with these results, in order."""

    def __init__(self, *results: bytes | None) -> None:
        self._members = [
            Member(TaskId(number), TaskStatus.COMPLETED, None, result, None, None)
            for number, result in enumerate(results, 1)
        ]

    async def list_members(self, group: GroupId, after: TaskId, limit: int) -> list[Member]:
        return [member for member in self._members if member.task > after][:limit]


def result(notes: list[str] | None = None, **metrics: Any) -> bytes:
    return msgspec.json.encode({"metrics": metrics, "notes": notes or [], "items": []})


def summary(*results: bytes | None) -> CrawlSummary:
    service = CrawlSummaries(store=cast("GroupStore", Members(*results)), engine=ToyEngine())
    return asyncio.run(service.summarise_crawl(GroupId(1)))


def test_counts_are_added_up_over_all_members() -> None:
    many = [result(errors={"http": 1}, failures={"status": 1}, links_left_out={"scope": 2}) for _ in range(250)]
    found = summary(*many, LOST)
    assert (found.errors, found.failures, found.links_left_out) == ({"http": 250}, {"status": 250}, {"scope": 500})


def test_a_result_of_another_version_is_passed_over() -> None:
    assert summary(b'{"metrics": 7}', b"[]", result(errors={"http": 1})).errors == {"http": 1}


def test_what_never_matched_is_said_of_the_whole_crawl() -> None:
    one = result([f"{NEVER}price on 2 pages"], fields={"price": {"matches": 0}, "id": {"matches": 0}}, pages_crawled=2)
    other = result(["slow"], fields={"price": {"matches": 3}, "id": {"matches": 0}}, pages_crawled=3)
    found = summary(one, other)
    assert found.fields == {"price": {"matches": 3}, "id": {"matches": 0}}
    assert found.notes == ["slow", f"{NEVER}id on 5 pages"]


def test_a_note_is_kept_once_and_not_too_many_are() -> None:
    found = summary(*(result([f"note {number}", "same"]) for number in range(NOTES_MOST + 10)))
    assert found.notes[:3] == ["note 0", "same", "note 1"]
    assert len(found.notes) == NOTES_MOST
