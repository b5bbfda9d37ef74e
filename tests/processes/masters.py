"""Several real masters over one PostgreSQL and one Redis, and workers that know all of them."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import msgspec

from crawlfleet.client import AsyncClient
from crawlfleet.store.engine.postgres.engine import PostgresEngine
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from testkit.servers.server import free_port
from tests.processes.calls import Answer, call
from tests.processes.fleet import Fleet, Process


class MasterAt:
    """One place for a master: its port and data dir stay, whoever runs there."""

    process: Process

    def __init__(self, name: str, folder: Path, port: int) -> None:
        self.name = name
        self.data_dir = folder / name
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.client: AsyncClient

    def log(self) -> str:
        return self.process.log.read_text()


class ManyMasters(Fleet):
    """`client` is the first master's, unless a test chooses another."""

    def __init__(self, folder: Path, store: str, broker: str) -> None:
        super().__init__(folder)
        self.store = store
        self.broker = broker
        self.results = str(folder / "results")
        self.masters: list[MasterAt] = []

    async def start_all(self, *options: str, masters: int = 2, workers: int = 2, slots: int = 8) -> None:
        """Each worker begins at another master and knows all of them; the options are the workers'."""
        for number in range(masters):
            self.masters.append(MasterAt(f"m{number}", self.folder, free_port()))
        # The first makes the installation and its token; the others may come together.
        await self.start_at(self.masters[0])
        await asyncio.gather(*(self.start_at(place) for place in self.masters[1:]))
        self.client = self.masters[0].client
        for number in range(workers):
            await self.start_worker_at(self.masters[number % masters], f"w{number}", *options, slots=slots)
        await self.until_online(workers)

    async def start_at(self, place: MasterAt, *options: str, is_awaited: bool = True) -> None:
        place.process = await self._spawn(
            place.name,
            "master",
            "--name",
            place.name,
            "--data-dir",
            str(place.data_dir),
            "--port",
            str(place.port),
            "--store",
            self.store,
            "--broker",
            self.broker,
            "--results",
            self.results,
            *options,
        )
        if is_awaited:
            await self.until_ready(place)

    async def until_ready(self, place: MasterAt) -> None:
        await self.until(lambda: is_ready(place), f"{place.name} is not ready")
        if not hasattr(place, "client"):
            place.client = AsyncClient(place.url, self.admin)

    async def restart(self, place: MasterAt) -> None:
        assert await place.process.stop() == 0, place.log()
        await self.start_at(place)

    async def start_worker_at(self, place: MasterAt, name: str, *options: str, slots: int = 8) -> Process:
        """It begins at this master; the others come after it, in their order."""
        token = (await place.client.create_token("enrol", uses=1)).token
        return await self.start_worker_of(place, name, *options, slots=slots, token=token)

    async def start_worker_of(
        self, place: MasterAt, name: str, *options: str, slots: int = 8, token: str = "", urls: Sequence[str] = ()
    ) -> Process:
        begin = self.masters.index(place)
        urls = urls or [one.url for one in self.masters[begin:] + self.masters[:begin]]
        worker = await self._spawn(
            name,
            "worker",
            *(part for url in urls for part in ("--master", url)),
            "--name",
            name,
            "--slots",
            str(slots),
            "--data-dir",
            str(self.folder / name),
            *options,
            env={"CRAWLFLEET_ENROL_TOKEN": token} if token else None,
        )
        self.workers.append(worker)
        return worker

    @property
    def admin(self) -> str:
        return (self.masters[0].data_dir / "admin.token").read_text().strip()

    async def at(self, place: MasterAt, method: str, path: str, **sent: Any) -> Answer:
        """One request as it is."""
        return await call(place.url, method, path, token=self.admin, **sent)

    async def leader(self) -> MasterAt:
        holder = await self.ask("SELECT holder FROM leader")
        return next(place for place in self.masters if place.name == holder.partition("#")[0])

    async def follower(self) -> MasterAt:
        leader = await self.leader()
        return next(place for place in self.masters if place is not leader)

    async def ask(self, query: str, *args: Any) -> Any:
        """One value of the database."""
        connection = await asyncpg.connect(self.store)
        try:
            return await connection.fetchval(query, *args)
        finally:
            await connection.close()

    async def took_s(self, condition: Callable[[], bool | Awaitable[bool]], otherwise: str, within_s: float) -> float:
        began = time.monotonic()
        await self.until(condition, otherwise, within_s)
        return time.monotonic() - began

    async def events(self, place: MasterAt, kind: str) -> list[dict[str, Any]]:
        """All of a kind, as their data."""
        found: list[dict[str, Any]] = []
        after = 0
        while True:
            path = f"/api/v1/events?format=json&limit=1000&after={after}&kind={kind}"
            page = (await self.at(place, "GET", path)).json
            found += [event["data"] for event in page["events"]]
            if page["next_after"] == after:
                return found
            after = page["next_after"]

    async def open_engine(self) -> QueryEngine:
        return await PostgresEngine.connect(self.store)

    async def close(self) -> None:
        for worker in self.workers:
            if worker.child.returncode is None:
                worker.signal(signal.SIGCONT)
        await asyncio.gather(*(worker.stop() for worker in self.workers if worker.child.returncode is None))
        for place in self.masters:
            if hasattr(place, "client"):
                await place.client.close()
            if place.process.child.returncode is None:
                place.process.signal(signal.SIGCONT)
                await place.process.stop()


@asynccontextmanager
async def many_masters(folder: Path, store: str, broker: str) -> AsyncIterator[ManyMasters]:
    """Whatever a test leaves running is killed, and gone when this returns."""
    running = ManyMasters(folder, store, broker)
    try:
        yield running
        await running.close()
    finally:
        for place in running.masters:
            if hasattr(place, "client"):
                await place.client.close()
        await running.kill_all()


async def is_ready(place: MasterAt) -> bool:
    return await readiness(place) in ("ok", "degraded")


async def readiness(place: MasterAt) -> str:
    """The word of /readyz; none when nobody answers."""
    try:
        async with aiohttp.request("GET", f"{place.url}/readyz", timeout=aiohttp.ClientTimeout(total=5)) as response:
            return str(msgspec.json.decode(await response.read())["status"])
    except (aiohttp.ClientError, TimeoutError):
        return ""


async def has_readiness(places: Sequence[MasterAt], word: str) -> bool:
    return all([await readiness(place) == word for place in places])
