"""Blocking work in a thread that ends before its caller goes on, also when the caller is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """Ends the work of a thread whose caller was cancelled."""


class StopFlag:
    """The way in which a thread learns that it shall end."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def check(self) -> None:
        """Raise Interrupted when the flag is set."""
        if self._event.is_set():
            raise Interrupted


async def run_in_thread(work: Callable[[], T], interrupt: Callable[[], None] | None = None) -> T:
    """Run the work in a thread. A cancellation interrupts it where that is possible, and waits for its end: what it
    writes can then be removed safely."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if interrupt is not None:
            interrupt()
        await asyncio.wait({running})
        if not running.cancelled():
            running.exception()
        raise
