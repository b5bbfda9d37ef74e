"""Connections that harm a server without a token: raw sockets, driven by threads so that tests stay responsive."""

from __future__ import annotations

import itertools
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

PIECE = 65_536


class Attack:
    """A bounded loop in a thread. It ends with `stop`, and counts what the server closed."""

    def __init__(self, url: str, address: str, body: Callable[[Attack], None]) -> None:
        parts = urlsplit(url)
        self.target = (parts.hostname or "", parts.port or 0)
        self.address = address
        self.opened = 0
        self.closed_by_server = 0
        self.answers: set[bytes] = set()
        """The status lines that were seen."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=body, args=(self,), daemon=True)

    def is_running(self) -> bool:
        return not self._stopped.is_set()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=30)

    def pause(self, seconds: float) -> None:
        self._stopped.wait(seconds)

    def connect(self) -> socket.socket | None:
        try:
            one = socket.create_connection(self.target, timeout=5, source_address=(self.address, 0))
        except OSError:
            return None
        self.opened += 1
        return one

    def note_end(self, one: socket.socket) -> None:
        """What the server said before it closed."""
        self.closed_by_server += 1
        try:
            one.settimeout(1)
            if answer := one.recv(4_096):
                self.answers.add(answer.partition(b"\r\n")[0])
        except OSError:
            pass
        one.close()


def send_endless_header(attack: Attack) -> None:
    """One header whose value never ends."""
    _send_for_ever(attack, b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Endless: ", itertools.repeat(b"a" * PIECE))


def send_million_headers(attack: Attack) -> None:
    """Headers without an end, each of them small."""
    _send_for_ever(attack, b"GET /healthz HTTP/1.1\r\nHost: a\r\n", itertools.repeat(b"a:\r\n" * (PIECE // 4)))


def send_endless_trailer(attack: Attack) -> None:
    """A chunked body that is complete but for a trailer that never ends."""
    head = b"POST /api/v1/tasks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Endless: "
    _send_for_ever(attack, head, itertools.repeat(b"a" * PIECE))


def _send_for_ever(attack: Attack, head: bytes, pieces: Iterator[bytes]) -> None:
    while attack.is_running():
        one = attack.connect()
        if one is None:
            attack.pause(0.1)
            continue
        try:
            one.sendall(head)
            while attack.is_running():
                one.sendall(next(pieces))
        except OSError:
            attack.note_end(one)
            attack.pause(0.02)
        else:
            one.close()


def half_requests(count: int) -> Callable[[Attack], None]:
    """So many connections with half a head, opened again when they are closed."""

    def hold(attack: Attack) -> None:
        poll = select.poll()
        held: dict[int, socket.socket] = {}
        try:
            while attack.is_running():
                while len(held) < count and attack.is_running() and (one := attack.connect()) is not None:
                    held[one.fileno()] = one
                    poll.register(one, select.POLLIN)
                    one.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Half: ")
                for number, _ in poll.poll(100):
                    poll.unregister(number)
                    attack.note_end(held.pop(number))
        finally:
            for one in held.values():
                one.close()

    return hold


def unread_answers(count: int, path: str) -> Callable[[Attack], None]:
    """So many connections that ask for much and read nothing; they stay open at this end."""

    def hold(attack: Attack) -> None:
        held: list[socket.socket] = []
        sent = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode() * 16
        try:
            while attack.is_running():
                if len(held) < count and (one := attack.connect()) is not None:
                    held.append(one)
                    one.sendall(sent)
                else:
                    attack.pause(0.1)
        finally:
            for one in held:
                one.close()

    return hold


@contextmanager
def attacked(*attacks: Attack) -> Iterator[None]:
    for attack in attacks:
        attack.start()
    try:
        yield
    finally:
        for attack in attacks:
            attack.stop()
