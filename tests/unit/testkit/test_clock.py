"""Clocks that tests move: wall time may jump, monotonic time only goes on."""

import asyncio

import pytest

from testkit.clock import EPOCH, FakeClock, VirtualClock
from testkit.virtual_loop import run, running_loop


def test_the_virtual_clock_keeps_wall_and_monotonic_time_apart() -> None:
    async def main() -> None:
        loop = running_loop()
        clock, other = VirtualClock(loop, EPOCH), VirtualClock(loop, EPOCH)
        await asyncio.sleep(1.001)
        assert clock.now() == EPOCH + 1_001 == EPOCH + loop.now_ms
        clock.jump(-3_600_000)
        assert clock.now() == EPOCH + 1_001 - 3_600_000
        assert clock.monotonic() == loop.time() == 1.001
        assert other.now() == EPOCH + 1_001

    run(main())


def test_the_fake_clock_moves_when_told() -> None:
    clock = FakeClock(start=1_000)
    clock.advance(seconds=31)
    assert (clock.now(), clock.monotonic()) == (32_000, 31.0)
    clock.jump(-5_000)
    assert (clock.now(), clock.monotonic()) == (27_000, 31.0)
    with pytest.raises(ValueError, match="forward"):
        clock.advance(seconds=-1)
