"""Waiting for events: woken by the broker, found in the store without it, let go at the end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.support.event_feed import EventFeed
from testkit.factories import Kit
from tests.unit.store.store_kit import sqlite_kit

PATIENCE_S = 30.0


@pytest_asyncio.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def feed(kit: Kit, broker: MemoryBroker) -> EventFeed:
    return EventFeed(store=kit.store, broker=broker)


async def test_what_was_announced_is_there_at_once(feed: EventFeed, broker: MemoryBroker) -> None:
    await broker.events.announce_event(5)
    assert await feed.wait_for_event(4, 0.0)


async def test_an_announcement_wakes_everybody_it_concerns(feed: EventFeed, broker: MemoryBroker) -> None:
    async with asyncio.TaskGroup() as group:
        behind = [group.create_task(feed.wait_for_event(number, PATIENCE_S)) for number in (0, 4)]
        ahead = group.create_task(feed.wait_for_event(5, 0.5))
        await asyncio.sleep(0)
        await broker.events.announce_event(5)
    assert [waiter.result() for waiter in behind] == [True, True]
    assert ahead.result() is False


async def test_an_event_is_found_though_its_announcement_was_lost(kit: Kit, feed: EventFeed) -> None:
    waiting = asyncio.create_task(feed.wait_for_event(0, PATIENCE_S))
    await asyncio.sleep(0)
    await kit.submit_one()
    events = await kit.events()
    assert await waiting
    assert [event.kind for event in await feed.list_events(0)] == [event.kind for event in events]
    assert await feed.last_event() == events[-1].number


async def test_those_who_wait_are_let_go(feed: EventFeed) -> None:
    waiting = asyncio.create_task(feed.wait_for_event(0, PATIENCE_S))
    await asyncio.sleep(0)
    feed.close()
    assert not await waiting
    assert not await feed.wait_for_event(0, PATIENCE_S)


async def test_the_watcher_rests_when_nobody_listens(feed: EventFeed) -> None:
    assert not await feed.wait_for_event(0, 0.01)
    others = [task for task in asyncio.all_tasks() if task.get_name() == "event feed"]
    await asyncio.wait_for(asyncio.gather(*others), PATIENCE_S)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "event feed"]
