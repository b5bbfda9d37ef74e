"""Virtual time is exact, costs nothing, and repeats itself for the same seed."""

import asyncio
import itertools
import math
import time
from collections.abc import AsyncIterator

import pytest

from testkit.virtual_loop import (
    Deadlock,
    LimitExceeded,
    TaskFailed,
    VirtualLoop,
    VirtualLoopError,
    run,
    running_loop,
)


def test_a_day_of_waiting_takes_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    before = time.monotonic()
    assert run(main()) == 86_400
    assert time.monotonic() - before < 5


def test_time_stands_while_anything_is_ready() -> None:
    async def main() -> float:
        for _ in range(100):
            await asyncio.sleep(0)
        return running_loop().time()

    assert run(main()) == 0


def test_timers_run_in_the_order_of_their_time() -> None:
    seen: list[tuple[float, int]] = []

    async def sleeper(seconds: int) -> None:
        await asyncio.sleep(seconds)
        seen.append((running_loop().time(), seconds))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for seconds in (3, 1, 2):
                group.create_task(sleeper(seconds))

    run(main())
    assert seen == [(1, 1), (2, 2), (3, 3)]


def test_waiting_for_an_instant_reaches_it_whatever_floats_do() -> None:
    """Sums such as 0.1 + 0.2 must not leave a loop that sleeps the rest of a span spinning at one instant."""

    async def main() -> None:
        loop = running_loop()
        for span in (0.1, 0.2, 0.3, 1e-7, 0.7, 1 / 3):
            deadline = loop.time() + span
            turns = 0
            while loop.time() < deadline:
                await asyncio.sleep(deadline - loop.time())
                turns += 1
            assert turns <= 2
        for _ in range(500):
            await asyncio.sleep(0.1)
            deadline = math.nextafter(loop.time(), math.inf)
            await asyncio.sleep(deadline - loop.time())
            assert loop.time() >= deadline

    run(main(), limit_callbacks=10_000)


def test_timeouts_work() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(9):
                await asyncio.sleep(3_600)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 1)
        return running_loop().time()

    assert run(main()) == 10


def test_cancelled_timers_take_no_room_and_no_time() -> None:
    async def main() -> float:
        for _ in range(10_000):
            async with asyncio.timeout(3_600):
                await asyncio.sleep(0)
        assert len(running_loop()._timers) < 3_000
        await asyncio.sleep(1)
        return running_loop().time()

    assert run(main()) == 1


async def _race() -> list[int]:
    order: list[int] = []

    async def one(number: int) -> None:
        await asyncio.sleep(1)
        order.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(one(number))
    return order


def test_a_seed_repeats_itself_and_seeds_differ() -> None:
    orders = [run(_race(), seed=seed) for seed in range(20)]
    assert orders == [run(_race(), seed=seed) for seed in range(20)]
    assert len({tuple(order) for order in orders}) > 10


def test_cancelling_a_group_repeats_itself() -> None:
    """A task group keeps its tasks in a set: their order there must not hang on memory addresses."""

    async def main() -> list[int]:
        order: list[int] = []

        async def one(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                order.append(number)

        async def fail() -> None:
            await asyncio.sleep(1)
            raise ValueError

        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(one(number))
                group.create_task(fail())
        return order

    ballast: list[object] = []
    first = run(main())
    for size in range(10):
        ballast.append(bytearray(1000 * size))
        assert run(main()) == first


def test_streams_of_chance_are_apart() -> None:
    with VirtualLoop(7) as loop:
        before = loop.rng("network").random()
        loop.rng("disk").random()
        assert loop.rng("network").random() == before != loop.rng("disk").random()


def test_a_deadlock_says_who_waits() -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(stuck(), name="the stuck one")

    with pytest.raises(Deadlock, match=r"(?s)at 0\.000000 s.*the stuck one at .*stuck"):
        run(main())


def test_virtual_seconds_are_limited() -> None:
    async def main() -> None:
        for _ in itertools.count():
            await asyncio.sleep(1)

    with pytest.raises(LimitExceeded, match="60 virtual seconds"):
        run(main(), limit_s=60)


def test_callbacks_are_limited() -> None:
    async def main() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(LimitExceeded, match="1000 callbacks"):
        run(main(), limit_callbacks=1_000)


def test_an_exception_nobody_looked_at_fails_the_run() -> None:
    async def fail() -> None:
        raise ValueError("unseen")

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(fail())
        await asyncio.sleep(1)
        assert task.done()

    with pytest.raises(TaskFailed, match="unseen") as caught:
        run(main())
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_exception_somebody_looked_at_is_fine() -> None:
    async def fail() -> None:
        raise ValueError("seen")

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(fail())
        await asyncio.sleep(1)
        with pytest.raises(ValueError, match="seen"):
            await task

    run(main())


def test_a_lost_exception_explains_the_deadlock_it_caused() -> None:
    async def fail() -> None:
        raise ValueError("the reason")

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(fail())
        await asyncio.Event().wait()
        await task

    with pytest.raises(Deadlock) as caught:
        run(main())
    assert "the reason" in "".join(caught.value.__notes__)


def test_a_callback_that_raises_fails_the_run_at_once() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(2, lambda: 1 / 0)
        await asyncio.sleep(100)

    with pytest.raises(TaskFailed, match=r"at 2\.000000 s"):
        run(main())


def test_what_main_leaves_behind_is_cancelled() -> None:
    ended: list[str] = []

    async def rest() -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            await asyncio.sleep(1)
            ended.append("cleaned up")

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(rest())
        await asyncio.sleep(1)
        assert not task.done()

    run(main())
    assert ended == ["cleaned up"]


def test_mains_own_exception_comes_through() -> None:
    async def main() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(main())


def test_there_are_no_threads() -> None:
    async def main() -> None:
        await asyncio.to_thread(time.sleep, 0)

    with pytest.raises(VirtualLoopError, match="no threads"):
        run(main())


def test_an_abandoned_generator_is_closed_on_the_loop() -> None:
    closed: list[bool] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(1)
            closed.append(True)

    async def main() -> None:
        async for _ in numbers():
            break
        await asyncio.sleep(2)

    run(main())
    assert closed == [True]


def test_it_serves_a_runner_too() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        before = time.monotonic()
        runner.run(asyncio.sleep(3_600))
        assert time.monotonic() - before < 5


def test_time_begins_where_it_is_told_and_passes_while_the_loop_stands_still() -> None:
    async def main() -> list[float]:
        loop = running_loop()
        began = loop.time()
        timer = asyncio.create_task(asyncio.sleep(1))
        await asyncio.sleep(0)
        loop.stand_still(5)
        await timer
        return [began, loop.time()]

    with VirtualLoop(start_s=1_000) as loop:
        assert loop.run(main()) == [1_000, 1_005]
