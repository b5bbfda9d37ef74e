"""A master in a thread, for commands that call one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from crawlfleet.client import AsyncClient
from crawlfleet.settings.master import MasterSettings
from testkit.patience import PATIENCE_S
from tests.integration.bootstrap.maintenance.installations import serving

T = TypeVar("T")


class ThreadedMaster:
    """A master whose loop runs in a thread: a command in the test's thread calls it as from another process."""

    def __init__(self, folder: Path) -> None:
        self.settings = MasterSettings(data_dir=folder, port=0)
        self.client: AsyncClient
        self._loop: asyncio.AbstractEventLoop
        self._is_serving, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> ThreadedMaster:
        self._thread.start()
        assert self._is_serving.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_S)

    def run(self, call: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run_coroutine_threadsafe(call(self.client), self._loop).result(PATIENCE_S)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with serving(self.settings) as self.client:
            self._is_serving.set()
            await self._stop.wait()


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedMaster]:
    monkeypatch.setenv("CRAWLFLEET_DATA_DIR", str(tmp_path / "fleet"))
    with ThreadedMaster(tmp_path / "fleet") as running:
        yield running
