"""A network of one's own, in which any address can be given to a listener, and names answer as a test wants."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import struct
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import cast

from aiohttp import web

_NEW_NETWORK = 0x40000000
_ADDRESS_RECORD = 1


@contextmanager
def own_network(addresses: Sequence[str]) -> Iterator[bool]:
    """This thread, and what it starts, see nothing but a loopback that carries the addresses. False, and the network
    as it was, where the machine does not allow it."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        is_apart = libc.unshare(_NEW_NETWORK) == 0
        try:
            is_own = is_apart and _carries(addresses)
            if is_apart and not is_own:
                is_apart = not _return_to(libc, before)
            yield is_own
        finally:
            if is_apart:
                _return_to(libc, before)
    finally:
        os.close(before)


def _return_to(libc: ctypes.CDLL, network: int) -> bool:
    assert libc.setns(network, _NEW_NETWORK) == 0, os.strerror(ctypes.get_errno())
    return True


def _carries(addresses: Sequence[str]) -> bool:
    commands = [["ip", "link", "set", "lo", "up"], *(["ip", "address", "add", one, "dev", "lo"] for one in addresses)]
    try:
        return all(subprocess.run(one, check=False, capture_output=True).returncode == 0 for one in commands)
    except FileNotFoundError:
        return False


class Listener:
    """Answers at every address of the machine, and remembers at which of them it was asked for what."""

    def __init__(self) -> None:
        self.port = 0
        self.hits: Counter[str] = Counter()

    @asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[Listener]:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        await web.SockSite(runner, listener).start()
        self.port = listener.getsockname()[1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        address = request.transport.get_extra_info("sockname")[0]
        self.hits[address.removeprefix("::ffff:")] += 1
        if "to" in request.query:
            raise web.HTTPFound(request.query["to"])
        return web.Response(text="<title>secret</title><a href='/more'>more</a>", content_type="text/html")


class Names:
    """A name server: each name's answers in turn, the last of them for ever."""

    def __init__(self, answers: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._answers = answers
        self.asked: Counter[str] = Counter()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Names]:
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _NameServer(self), local_addr=("127.0.0.1", 53)
        )
        try:
            yield self
        finally:
            transport.close()

    def within(self, folder: Path) -> list[str]:
        """A command that runs another with this as its only name server."""
        config = folder / "resolv.conf"
        config.write_text("nameserver 127.0.0.1\noptions timeout:2 attempts:1\n")
        script = f'mount --bind "{config}" /etc/resolv.conf && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, "sh"]

    def answer(self, query: bytes) -> bytes:
        labels, place = [], 12
        while size := query[place]:
            labels.append(query[place + 1 : place + 1 + size].decode())
            place += 1 + size
        name = ".".join(labels).lower()
        (kind,) = struct.unpack(">H", query[place + 1 : place + 3])
        found = self._take(name) if kind == _ADDRESS_RECORD and name in self._answers else []
        flags = 0x8180 if name in self._answers else 0x8183
        records = b"".join(struct.pack(">HHHIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton(one) for one in found)
        return query[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0) + query[12 : place + 5] + records

    def _take(self, name: str) -> Sequence[str]:
        turns = self._answers[name]
        self.asked[name] += 1
        return turns[min(self.asked[name], len(turns)) - 1]


class _NameServer(asyncio.DatagramProtocol):
    def __init__(self, names: Names) -> None:
        self._names = names
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        assert self._transport is not None
        self._transport.sendto(self._names.answer(data), address)
