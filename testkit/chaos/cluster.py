"""The cluster: PostgreSQL, Redis, masters and workers, each a process of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
import asyncpg

from crawlfleet.client import AsyncClient
from crawlfleet.execution.agent.identity import IdentityFile
from crawlfleet.model.ids import NodeId, parse_id
from testkit.chaos import witness
from testkit.chaos.members import Member
from testkit.chaos.network import Network
from testkit.servers import PostgresServer, RedisServer
from testkit.servers.server import free_port

START_S = 60.0
_POLL_S = 0.1
_ASK_S = 3.0


class NotThere(Exception):
    """Something did not happen in time."""


class Cluster:
    """The processes of the cluster, and queries about their state."""

    def __init__(self, folder: Path, network: Network, *, masters: int, workers: int, slots: int) -> None:
        self.folder = folder
        self.network = network
        self.slots = slots
        self.witnesses = folder / "witnesses"
        self.ended_by_themselves: list[str] = []
        self.master_names = [f"master-{n}" for n in range(masters)]
        self.worker_names = [f"worker-{n}" for n in range(workers)]
        self.ports = {name: free_port() for name in self.master_names}
        self.members: dict[str, Member] = {}
        self.nodes: dict[str, NodeId] = {}
        self.postgres: PostgresServer
        self.redis: RedisServer
        self.dsn = ""
        self.token = ""

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports.values()]

    async def start(self) -> None:
        self.witnesses.mkdir()
        self.postgres = await asyncio.to_thread(PostgresServer)
        self.redis = await asyncio.to_thread(RedisServer)
        self.dsn = await asyncio.to_thread(self.postgres.create_database)
        for name in self.master_names:
            self._add_master(name)
            await self.members[name].start()
            await self.until(lambda name=name: self.is_ready(name), f"{name} is not ready")  # type: ignore[misc]
        self.token = (self.folder / self.master_names[0] / "admin.token").read_text().strip()
        async with AsyncClient(self.urls[0], self.token) as client:
            for name in self.worker_names:
                await self._add_worker(name, (await client.create_token("enrol", uses=1)).token)
                await self.members[name].start()
        await self.until(self.are_all_online, "the workers are not online")
        for name in self.worker_names:
            self.nodes[name] = parse_id(IdentityFile(self.folder / name).load().node_id, "node", field="node")

    def _add_master(self, name: str) -> None:
        argv = [
            "master",
            "--name",
            name,
            "--data-dir",
            str(self.folder / name),
            "--host",
            self.network.host,
            "--port",
            str(self.ports[name]),
            "--store",
            self.dsn,
            "--broker",
            self.redis.url,
            "--results",
            str(self.folder / "results"),
        ]
        self.members[name] = Member(name, argv, self.folder, on_end=self.ended_by_themselves.append)

    async def _add_worker(self, name: str, token: str) -> None:
        urls = await self.network.join(name, list(self.ports.values()))
        argv = [
            "worker",
            "--name",
            name,
            "--data-dir",
            str(self.folder / name),
            "--slots",
            str(self.slots),
            "--master",
            ",".join(urls),
            "--executors",
            witness.__name__,
        ]
        self.members[name] = Member(
            name,
            argv,
            self.folder,
            env={"CRAWLFLEET_ENROL_TOKEN": token},
            within=self.network.within(name),
            on_end=self.ended_by_themselves.append,
        )

    async def is_ready(self, master: str) -> bool:
        """Return whether it is ready and lacks nothing: without its broker it would serve too, and report that."""
        return await self._health(master, "readyz") == (200, "ok")

    async def serves(self, master: str) -> bool:
        return await self._health(master, "healthz") is not None

    async def _health(self, master: str, path: str) -> tuple[int, str] | None:
        timeout = aiohttp.ClientTimeout(total=_ASK_S)
        try:
            async with aiohttp.request(
                "GET", f"http://127.0.0.1:{self.ports[master]}/{path}", timeout=timeout
            ) as answer:
                return answer.status, (await answer.json())["status"]
        except (aiohttp.ClientError, TimeoutError):
            return None

    async def are_all_online(self) -> bool:
        return await self.count("SELECT count(*) FROM lease WHERE is_open = 1") == len(self.worker_names)

    async def is_whole(self) -> bool:
        """Return whether the masters serve without reporting trouble, and every worker has a session."""
        return all([await self.is_ready(name) for name in self.master_names]) and await self.are_all_online()

    async def count(self, query: str) -> int | None:
        """Return one number straight from the database; None while it is away."""
        try:
            connection = await asyncpg.connect(self.dsn, timeout=_ASK_S)
            try:
                return int(await connection.fetchval(query, timeout=_ASK_S) or 0)
            finally:
                await connection.close(timeout=_ASK_S)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return None

    async def leader(self) -> str | None:
        """Return the leading master according to the database."""
        try:
            connection = await asyncpg.connect(self.dsn, timeout=_ASK_S)
            try:
                holder = str(await connection.fetchval("SELECT holder FROM leader", timeout=_ASK_S))
            finally:
                await connection.close(timeout=_ASK_S)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return None
        return holder.partition("#")[0] or None

    async def terminate_backends(self, share: float) -> int:
        connection = await asyncpg.connect(self.dsn, timeout=_ASK_S)
        try:
            rows = await connection.fetch(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'crawlfleet' AND random() < $1",
                share,
            )
            return len(rows)
        finally:
            await connection.close()

    async def until(self, condition: Callable[[], Awaitable[bool]], otherwise: str, within_s: float = START_S) -> float:
        """Wait for the condition and return the seconds it took.

        Raises NotThere; while the cluster starts, also when a process has ended.
        """
        began = time.monotonic()
        while not await condition():
            if time.monotonic() - began > within_s or (not self.nodes and self.ended_by_themselves):
                raise NotThere("; ".join([f"{otherwise} after {within_s:.0f} s", *self.ended_by_themselves]))
            await asyncio.sleep(_POLL_S)
        return time.monotonic() - began

    async def leave(self) -> list[str]:
        """Stop workers and masters cleanly; returns descriptions of what they should not have logged or done."""
        bad = []
        for name in self.worker_names:
            if (code := await self.members[name].stop()) != 0:
                bad.append(f"{name} was told to leave and ended with {code}")
        with suppress(NotThere):
            await self.until(self._is_all_told, "events wait to be told", within_s=15)
        for name in self.master_names:
            if (code := await self.members[name].stop()) != 0:
                bad.append(f"{name} was told to stop and ended with {code}")
        return bad

    async def _is_all_told(self) -> bool:
        return await self.count("SELECT count(*) FROM outbox") == 0

    async def close(self) -> None:
        for member in self.members.values():
            member.thaw()
            await member.kill()
        await self.network.close()
        for server in ("postgres", "redis"):
            if hasattr(self, server):
                await asyncio.to_thread(getattr(self, server).close)
