"""Frames between an agent and its executor processes."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import msgspec

from crawlfleet.execution.executors.protocol import Credit, FrameConnection, ProgressFigures, ToAgent, ToProcess


async def test_what_a_process_says_last_is_read_by_an_agent_that_speaks_meanwhile() -> None:
    """To write to a socket that is closed is to read nothing more from it."""
    loop, heard, is_over = asyncio.get_running_loop(), list[Any](), asyncio.Event()
    here, there = socket.socketpair()
    for end in (here, there):
        end.setblocking(False)
    to_agent, to_process = msgspec.msgpack.Decoder(list[ToAgent]), msgspec.msgpack.Decoder(list[ToProcess])
    agents, agent = await loop.connect_accepted_socket(
        lambda: FrameConnection(to_agent, heard.extend, is_over.set), here
    )
    _, process = await loop.connect_accepted_socket(
        lambda: FrameConnection(to_process, lambda _: None, lambda: None), there
    )
    agents.pause_reading()
    process.send(ProgressFigures(1, b"{}"))
    process.close_writing()
    process.send(ProgressFigures(1, b'{"late": 1}'))
    for _ in range(3):
        await asyncio.sleep(0.01)
        agent.send(Credit(1, 100))
    await asyncio.sleep(0.01)
    agents.resume_reading()
    await asyncio.wait_for(is_over.wait(), 10)
    assert heard == [ProgressFigures(1, b"{}")]
