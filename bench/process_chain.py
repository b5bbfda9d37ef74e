"""The raw limit of latency by gap: a line that goes through a chain of idle processes and comes back.

A task on its way passes client, master, agent and executor process and comes back the same way. Here the same number of
event loops pass on one line and do nothing else: what a gap costs here is the machine's price of waking processes up.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PROCESSES = 3
"""Beside this one: master, agent, executor process."""


class ProcessChain:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def latency_ms(self) -> float:
        began = time.perf_counter()
        self._writer.write(b"line\n")
        await self._reader.readline()
        return (time.perf_counter() - began) * 1000


@asynccontextmanager
async def running_chain(processes: int = PROCESSES) -> AsyncIterator[ProcessChain]:
    """Processes joined by sockets; the last one sends back what it gets, and each of the others passes it on."""
    near, far = socket.socketpair()
    started: list[subprocess.Popen[bytes]] = []
    for number in range(processes):
        is_last = number == processes - 1
        next_near, next_far = (None, None) if is_last else socket.socketpair()
        handed = [far.fileno()] + ([next_near.fileno()] if next_near else [])
        command = [sys.executable, "-m", "bench.process_chain", *map(str, handed)]
        started.append(subprocess.Popen(command, pass_fds=handed))
        far.close()
        if next_near is not None and next_far is not None:
            next_near.close()
            far = next_far
    reader, writer = await asyncio.open_connection(sock=near)
    try:
        chain = ProcessChain(reader, writer)
        await chain.latency_ms()
        yield chain
    finally:
        writer.close()
        await writer.wait_closed()
        for process in started:
            await asyncio.to_thread(process.wait, 10)


async def _serve(descriptors: list[int]) -> None:
    """Pass lines on to the next process and its answers back; without a next one, send them back."""
    ends = [await asyncio.open_connection(sock=socket.socket(fileno=number)) for number in descriptors]
    (reader, writer), *following = ends
    while line := await reader.readline():
        if following:
            next_reader, next_writer = following[0]
            next_writer.write(line)
            line = await next_reader.readline()
        writer.write(line)


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve([int(number) for number in sys.argv[1:]]))
