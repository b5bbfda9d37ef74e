"""What lives as long as the application, made when it is first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import FastAPI
from starlette.requests import HTTPConnection

KeptT = TypeVar("KeptT")


def kept(connection: HTTPConnection, kind: type[KeptT], make: Callable[[], KeptT]) -> KeptT:
    """The one object of this type that the application has."""
    state = connection.app.state
    if not hasattr(state, "kept"):
        state.kept = {}
    found = state.kept.get(kind)
    if found is None:
        found = state.kept[kind] = make()
    assert isinstance(found, kind)
    return found


def when_stopping(app: FastAPI, act: Callable[[], Awaitable[None]]) -> None:
    """Once the master stops, this is done: to send home whoever waits for nothing in particular."""

    async def wait() -> None:
        await app.state.stopping.wait()
        await act()

    if not hasattr(app.state, "to_do_when_stopping"):
        app.state.to_do_when_stopping = set()
    app.state.to_do_when_stopping.add(asyncio.create_task(wait(), name="when stopping"))


def is_stopping(connection: HTTPConnection) -> bool:
    stopping: asyncio.Event = connection.app.state.stopping
    return stopping.is_set()
