"""Calls between simulated processes, and what they share: a crash of one never reaches into the other."""

import asyncio

import pytest

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.errors import InvariantBroken, Unavailable
from testkit.processes import SimProcess, crash, current_process
from testkit.virtual_loop import TaskFailed, run, running_loop


def started(name: str) -> SimProcess:
    return SimProcess(running_loop(), name)


def test_a_call_runs_over_there_and_answers_here() -> None:
    async def main() -> None:
        master, node = started("master"), started("node")
        seen: list[tuple[str, SimProcess | None]] = []

        async def serve(question: int, *, factor: int = 1) -> int:
            seen.append(("serve", current_process()))
            await asyncio.sleep(1)
            return question * factor

        async def ask() -> int:
            answer = await master.call(serve, 21, factor=2)
            seen.append(("answer", current_process()))
            return answer

        assert await node.spawn(ask()) == 42
        assert seen == [("serve", master), ("answer", node)]

    run(main())


def test_an_error_over_there_is_raised_here() -> None:
    async def main() -> None:
        async def refuse() -> None:
            raise Unavailable("full")

        with pytest.raises(Unavailable, match="full"):
            await started("master").call(refuse)

    run(main())


def test_a_killed_master_never_answers() -> None:
    async def main() -> float:
        master, node = started("master"), started("node")
        heard: list[str] = []

        async def serve() -> None:
            await asyncio.sleep(2)

        async def ask() -> None:
            for _ in range(2):
                try:
                    async with asyncio.timeout(5):
                        await master.call(serve)
                except TimeoutError:
                    heard.append("nothing")

        asking = node.spawn(ask())
        await asyncio.sleep(1)
        master.kill()
        await asking
        assert heard == ["nothing", "nothing"]
        return running_loop().time()

    assert run(main()) == 10


def test_a_paused_master_answers_late() -> None:
    async def main() -> None:
        master = started("master")

        async def serve() -> str:
            return "late"

        master.pause()
        running_loop().call_later(7, master.resume)
        assert await master.call(serve) == "late"
        assert running_loop().time() == 7

    run(main())


def test_who_gave_up_does_not_stop_the_work() -> None:
    async def main() -> None:
        master, node = started("master"), started("node")
        done: list[str] = []

        async def serve(name: str, error: Exception | None = None) -> None:
            await asyncio.sleep(5)
            done.append(name)
            if error:
                raise error

        async def ask() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await master.call(serve, "gave up")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await master.call(serve, "gave up too", Unavailable("nobody is left to hear it"))

        await node.spawn(ask())
        node.spawn(master.call(serve, "died"))
        await asyncio.sleep(1)
        node.kill()
        await asyncio.sleep(10)
        assert done == ["gave up", "gave up too", "died"]

    run(main())


def test_a_bug_that_nobody_can_hear_of_fails_the_run() -> None:
    async def main() -> None:
        async def serve() -> None:
            await asyncio.sleep(5)
            raise ZeroDivisionError

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await started("master").call(serve)
        await asyncio.sleep(10)

    with pytest.raises(TaskFailed, match="ZeroDivisionError"):
        run(main())


def test_a_clean_stop_resets_the_connection() -> None:
    async def main() -> None:
        master = started("master")
        serving: list[asyncio.Task[object] | None] = []

        async def serve() -> None:
            serving.append(asyncio.current_task())
            await asyncio.sleep(5)

        async def stop() -> None:
            assert serving[0] is not None
            serving[0].cancel()

        running_loop().call_later(1, lambda: master.spawn(stop()))
        with pytest.raises(ConnectionResetError):
            await master.call(serve)

    run(main())


def test_a_shared_broker_outlives_who_waits_in_it() -> None:
    async def main() -> None:
        broker = MemoryBroker()
        dead, paused, live = started("dead"), started("paused"), started("live")
        heard: list[tuple[str, bool, float]] = []

        async def listen(name: str) -> None:
            woken = await broker.signals.wait_for_signal("leader", 100)
            heard.append((name, woken, running_loop().time()))

        for process in (dead, paused, live):
            process.spawn(listen(process.name))
        await asyncio.sleep(1)
        dead.kill()
        paused.pause()
        await broker.signals.send_signals(["leader"])
        await asyncio.sleep(4)
        paused.resume()
        await asyncio.sleep(200)
        assert heard == [("live", True, 1), ("paused", True, 5)]

    run(main())


def test_a_crash_between_two_steps() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        process = started("master")

        async def steps() -> None:
            try:
                seen.append("one")
                await crash()
            finally:
                seen.append("never")

        process.spawn(steps())
        await asyncio.sleep(1)
        assert not process.is_alive
        return list(seen)

    assert run(main()) == ["one"]


def test_crash_needs_a_process() -> None:
    with pytest.raises(InvariantBroken):
        run(crash())


def test_the_dead_start_nothing() -> None:
    async def main() -> None:
        process = started("node")
        process.kill()
        with pytest.raises(InvariantBroken, match="node is dead"):
            process.spawn(asyncio.sleep(1))

    run(main())
