"""Killed means never again; paused means late; and neither leaks into another process."""

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from testkit.processes import SimProcess, current_process
from testkit.virtual_loop import Deadlock, TaskFailed, VirtualLoop, run, running_loop


def started(name: str) -> SimProcess:
    return SimProcess(running_loop(), name)


async def tick(seen: list[float], every_s: float = 1.0) -> None:
    while True:
        await asyncio.sleep(every_s)
        seen.append(running_loop().time())


def test_a_killed_process_never_runs_again() -> None:
    async def main() -> list[float]:
        seen: list[float] = []
        process = started("node")
        process.spawn(tick(seen))
        await asyncio.sleep(3.5)
        process.kill()
        await asyncio.sleep(100)
        return seen

    assert run(main()) == [1, 2, 3]


def test_no_cleanup_runs_in_a_killed_process() -> None:
    shared: list[str] = []

    @contextmanager
    def plain() -> Iterator[None]:
        try:
            yield
        finally:
            shared.append("context manager")

    @asynccontextmanager
    async def awaiting() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.sleep(0)
            shared.append("async context manager")

    async def child() -> None:
        try:
            await asyncio.sleep(1_000)
        except BaseException:
            shared.append("except")
            raise

    async def work() -> None:
        async with asyncio.timeout(50), awaiting(), asyncio.TaskGroup() as group:
            with plain():
                group.create_task(child())
                try:
                    await asyncio.Event().wait()
                finally:
                    shared.append("finally")

    async def main() -> list[str]:
        process = started("node")
        process.spawn(work())
        await asyncio.sleep(1)
        process.kill()
        del process
        gc.collect()
        await asyncio.sleep(100)
        return list(shared)

    assert run(main()) == []


def test_the_dead_make_no_noise(recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture) -> None:
    async def never_awaited() -> None: ...

    async def stubborn() -> None:
        waiting = never_awaited()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                try:
                    await asyncio.sleep(1)
                finally:
                    await asyncio.sleep(2)
        await waiting

    async def raising() -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            raise KeyError("nobody hears it")

    async def main() -> None:
        process = started("node")
        process.spawn(stubborn())
        process.spawn(raising())
        await asyncio.sleep(1)
        process.spawn(never_awaited())
        process.kill()
        left = started("still running when main ends")
        left.spawn(raising())
        await asyncio.sleep(1)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        run(main())
        gc.collect()
    assert [str(warning.message) for warning in recwarn] == []
    assert caplog.records == []


def test_what_is_shared_stays_untouched_until_the_loop_is_closed() -> None:
    shared: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            shared.append("finally")

    async def main() -> None:
        process = started("node")
        process.spawn(work())
        await asyncio.sleep(1)
        process.kill()

    with VirtualLoop() as loop:
        loop.run(main())
        gc.collect()
        assert shared == []


def test_a_killed_process_takes_effect_within_one_instant() -> None:
    """What was ready to run next to the kill does not run either."""

    async def main() -> list[str]:
        seen: list[str] = []
        process = started("node")

        async def step() -> None:
            seen.append("began")
            await asyncio.sleep(0)
            seen.append("went on")

        process.spawn(step())
        await asyncio.sleep(0)
        process.kill()
        await asyncio.sleep(1)
        return seen

    assert run(main()) == ["began"]


def test_a_paused_process_runs_late_and_in_order() -> None:
    async def main() -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []
        process = started("node")

        async def sleeper(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, running_loop().time()))

        for name, seconds in (("before", 1.0), ("second", 4.0), ("first", 3.0), ("after", 12.0)):
            process.spawn(sleeper(name, seconds))
        await asyncio.sleep(2)
        process.pause()
        process.pause()
        assert process.is_paused
        await asyncio.sleep(8)
        assert [name for name, _ in seen] == ["before"]
        process.resume()
        process.resume()
        await asyncio.sleep(5)
        return seen

    assert run(main()) == [("before", 1), ("first", 10), ("second", 10), ("after", 12)]


def test_a_timer_cancelled_before_it_could_run_late_does_not_run() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        process = started("node")
        timer = process.enter(running_loop().call_later, 1, seen.append, "late")
        process.pause()
        await asyncio.sleep(2)
        timer.cancel()
        process.resume()
        await asyncio.sleep(2)
        return seen

    assert run(main()) == []


def test_a_process_killed_while_paused_stays_dead() -> None:
    async def main() -> list[float]:
        seen: list[float] = []
        process = started("node")
        process.spawn(tick(seen))
        process.pause()
        await asyncio.sleep(5)
        process.kill()
        process.resume()
        assert not process.is_alive
        await asyncio.sleep(5)
        return seen

    assert run(main()) == []


def test_timers_of_the_dead_do_not_move_time() -> None:
    async def main() -> None:
        process = started("node")
        process.spawn(asyncio.sleep(1_000_000))
        await asyncio.sleep(1)
        process.kill()
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"(?s)at 1\.000000 s.*main:\d+$"):
        run(main())


def test_tasks_of_a_process_belong_to_it_however_deep() -> None:
    async def main() -> None:
        process = started("node")
        owners: list[SimProcess | None] = []

        async def leaf() -> None:
            owners.append(current_process())

        async def branch() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(leaf())
            await asyncio.gather(leaf(), leaf())

        await process.spawn(branch())
        assert owners == [process] * 3
        assert current_process() is None

    run(main())


def test_a_task_of_a_process_that_fails_unseen_fails_the_run() -> None:
    async def fail() -> None:
        raise ValueError("in a process")

    async def main(kill: bool) -> None:
        process = started("node")
        process.spawn(fail())
        await asyncio.sleep(1)
        if kill:
            process.kill()

    with pytest.raises(TaskFailed, match=r"node \(open\), node:fail"):
        run(main(kill=False))
    run(main(kill=True))


def test_a_run_with_faults_repeats_itself() -> None:
    async def main() -> list[tuple[str, float]]:
        loop = running_loop()
        chance = loop.rng("faults")
        seen: list[tuple[str, float]] = []
        processes = [started(f"node-{number}") for number in range(5)]

        async def work(name: str) -> None:
            rng = loop.rng(name)
            while True:
                await asyncio.sleep(rng.choice([0.5, 1.0]))
                seen.append((name, loop.time()))

        for process in processes:
            process.spawn(work(process.name))
        for _ in range(20):
            await asyncio.sleep(chance.random() * 3)
            victim = chance.choice(processes)
            chance.choice([victim.pause, victim.resume, victim.resume, victim.kill])()
        return seen

    for seed in range(5):
        assert run(main(), seed=seed) == run(main(), seed=seed)
