"""A steady load: clients that submit under idempotency keys to any master, until one answers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import aiohttp

from crawlfleet.model.ids import TaskId, parse_id
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import TaskStatus
from testkit.chaos.witness import TASK_TYPE

TRY_S = 5.0
CLIENTS = 3
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0
_RETRY = {"max_retries": 3, "base_delay_s": 0.5, "max_delay_s": 2.0}


@dataclass(frozen=True, slots=True)
class Work:
    """A task to submit, with its expected end."""

    body: dict[str, Any]
    ends: TaskStatus
    """Final status of the task, whatever else happens."""


def echo(number: int) -> Work:
    return Work({"task_type": "echo", "parameters": {"n": number}}, TaskStatus.COMPLETED)


def sleep(seconds: float) -> Work:
    return Work({"task_type": "sleep", "parameters": {"seconds": seconds}}, TaskStatus.COMPLETED)


def fail(times: int, *, is_permanent: bool = False) -> Work:
    parameters = {"times": times, "permanent": is_permanent}
    ends = TaskStatus.FAILED if is_permanent or times > _RETRY["max_retries"] else TaskStatus.COMPLETED
    return Work({"task_type": "fail", "parameters": parameters, "retry": _RETRY}, ends)


def witness(seconds: float, folder: Path) -> Work:
    parameters = {"seconds": seconds, "folder": str(folder)}
    return Work({"task_type": TASK_TYPE, "parameters": parameters}, TaskStatus.COMPLETED)


def any_work(rng: Random, folder: Path) -> Work:
    chance = rng.random()
    if chance < 0.015:
        # Also longer than a lease: only such work can still run when it has been given to another node.
        return witness(round(rng.choice((1.0, 16.0)) * rng.uniform(0.5, 1.5), 3), folder)
    if chance < 0.6:
        return echo(rng.randrange(1_000))
    if chance < 0.88:
        return sleep(round(rng.choice((0.05, 0.3, 1.0, 3.0)) * rng.uniform(0.5, 1.5), 3))
    if chance < 0.98:
        return fail(rng.randint(1, 2))
    return fail(99, is_permanent=rng.random() < 0.5)


class Load:
    """The clients, and what they sent and received."""

    def __init__(self, urls: Sequence[str], token: str, seed: int, folder: Path) -> None:
        self.sent: dict[str, int] = {}
        self.answered: dict[str, list[TaskId]] = {}
        self.expected: dict[TaskId, TaskStatus] = {}
        self.wrong: list[str] = []
        """Descriptions of answers that no master should give."""
        self.refusals: Counter[str] = Counter()
        self.longest_wait_s = 0.0
        self.ended_at: Instant | None = None
        self._urls = urls
        self._token = token
        self._seed = seed
        self._folder = folder
        self._is_over = asyncio.Event()

    @property
    def tasks(self) -> int:
        return len(self.expected)

    def end(self) -> None:
        """Start no more batches; those that were sent are retried until they are answered."""
        self.ended_at = time.time_ns() // 1_000_000
        self._is_over.set()

    async def run(self, rate: float) -> None:
        """Submit about `rate` tasks a second, until `end()`."""
        async with self._session() as session, asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(self._client(session, number, rate / CLIENTS), name=f"client-{number}")

    async def submit(self, work: Sequence[Work], name: str) -> None:
        async with self._session() as session:
            await self._see_through(session, Random(self._seed), name, work)

    def _session(self) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {self._token}"}
        return aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=TRY_S))

    async def _client(self, session: aiohttp.ClientSession, number: int, rate: float) -> None:
        rng = Random(f"{self._seed}-{number}")
        count = 0
        while not self._is_over.is_set():
            work = [any_work(rng, self._folder) for _ in range(rng.choice((1, 1, 2, 5, 15)))]
            began = time.monotonic()
            await self._see_through(session, rng, f"client-{number}-batch-{count}", work)
            count += 1
            await self._rest(len(work) / rate - (time.monotonic() - began))

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._is_over.wait()
        except TimeoutError:
            pass

    async def _see_through(self, session: aiohttp.ClientSession, rng: Random, name: str, work: Sequence[Work]) -> None:
        """Send a batch under one key, as often as needed, to any master."""
        self.sent[name] = len(work)
        bodies = [{**planned.body, "name": name} for planned in work]
        place = rng.randrange(len(self._urls))
        pause_s, began = _FIRST_PAUSE_S, time.monotonic()
        while True:
            tasks = await self._try(session, self._urls[place], name, bodies)
            if tasks is not None:
                break
            place = (place + 1) % len(self._urls)
            await asyncio.sleep(pause_s * rng.uniform(0.5, 1.5))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self.longest_wait_s = max(self.longest_wait_s, time.monotonic() - began)
        self.answered[name] = tasks
        for task, planned in zip(tasks, work, strict=True):
            self.expected[task] = planned.ends
        if rng.random() < 0.2 and tasks:
            await self._look(session, self._urls[(place + 1) % len(self._urls)], tasks[0])

    async def _try(
        self, session: aiohttp.ClientSession, url: str, name: str, bodies: Sequence[dict[str, Any]]
    ) -> list[TaskId] | None:
        is_one = len(bodies) == 1
        path = "tasks" if is_one else "tasks:batch"
        body: Any = bodies[0] if is_one else {"tasks": bodies, "mode": "atomic"}
        try:
            async with session.post(f"{url}/api/v1/{path}", json=body, headers={"Idempotency-Key": name}) as answer:
                content = await answer.json(content_type=None)
                if answer.status in (200, 201):
                    items = [content] if is_one else content["tasks"]
                    return [parse_id(item["id"], "task", field="id") for item in items]
                self._refused(f"submit of {name}", answer.status, content)
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            self.refusals[type(exc).__name__] += 1
        return None

    async def _look(self, session: aiohttp.ClientSession, url: str, task: TaskId) -> None:
        """Check that a task answered by one master is known to another one."""
        text = f"task-{task:016x}"
        try:
            async with session.get(f"{url}/api/v1/tasks/{text}") as answer:
                if answer.status != 200:
                    self._refused(f"look at {text}", answer.status, await answer.json(content_type=None))
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            self.refusals[type(exc).__name__] += 1

    def _refused(self, what: str, status: int, content: Any) -> None:
        self.refusals[str(status)] += 1
        if status not in (429, 503):
            self.wrong.append(f"{what} was answered {status}: {content}")
