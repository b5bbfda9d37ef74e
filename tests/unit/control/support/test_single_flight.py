"""One call for all who want the same at the same moment."""

from __future__ import annotations

import asyncio

import pytest

from crawlfleet.control.support.single_flight import SingleFlight
from crawlfleet.errors import StoreUnavailable


class Look:
    def __init__(self) -> None:
        self.calls = 0
        self.may_end = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> None:
        self.calls += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error


async def test_all_wait_for_one_call_and_the_next_is_a_new_one() -> None:
    look = Look()
    shared = SingleFlight(look, "look")
    waiting = [asyncio.create_task(shared()) for _ in range(5)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    look.may_end.set()
    await asyncio.gather(*waiting)
    assert look.calls == 1
    await shared()
    assert look.calls == 2


async def test_all_hear_what_went_wrong_and_the_next_tries_again() -> None:
    look = Look()
    look.error = StoreUnavailable("away")
    look.may_end.set()
    shared = SingleFlight(look, "look")
    answers = await asyncio.gather(*(shared() for _ in range(3)), return_exceptions=True)
    assert answers == [look.error] * 3
    look.error = None
    await shared()
    assert look.calls == 2


async def test_one_who_goes_away_does_not_take_the_call_along() -> None:
    look = Look()
    shared = SingleFlight(look, "look")
    first, second = asyncio.create_task(shared()), asyncio.create_task(shared())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    look.may_end.set()
    await second
    assert look.calls == 1


async def test_a_call_that_fails_with_nobody_left_is_nobody_s_error() -> None:
    look = Look()
    look.error = StoreUnavailable("away")
    shared = SingleFlight(look, "look")
    only = asyncio.create_task(shared())
    await asyncio.sleep(0)
    only.cancel()
    look.may_end.set()
    await asyncio.gather(only, return_exceptions=True)
    await asyncio.sleep(0)
    look.error = None
    await shared()
    assert look.calls == 2
