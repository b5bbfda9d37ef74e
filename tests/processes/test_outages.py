"""PostgreSQL and Redis go and come while work is done: told in plain words, never a false answer, nothing lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from testkit.patience import PATIENCE_S, promised
from testkit.servers import PostgresServer, RedisServer
from testkit.site import SiteProcess, site_process
from tests.processes.calls import Answer
from tests.processes.fleet import Process, echo, sleep
from tests.processes.held_pages import ALLOW, USERS, WaitingTasks, held_tasks, lift_budgets
from tests.processes.masters import ManyMasters, MasterAt, has_readiness, many_masters, readiness

pytestmark = [pytest.mark.integration, pytest.mark.postgres, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

NOTICED_S = 3.0
GOES_ON_S = 3.0
"""A second until the store is looked at, and what a task needs for the rest."""
LEASE_S = 9.0
GUARD_S = 2.0
"""So long before the end of its lease a node stops what it could not renew."""
RESUMED_S = 10.0
HANGS_TOLD_S = 12.0


@dataclass(frozen=True, slots=True)
class Standing:
    running: ManyMasters
    postgres: PostgresServer
    redis: RedisServer
    site: SiteProcess


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Standing]:
    """Servers of its own, for all tests of this file: each leaves them up, and all work done."""
    with PostgresServer() as postgres, RedisServer() as redis:
        folder = tmp_path_factory.mktemp("outages")
        async with (
            site_process("--products", "40") as site,
            many_masters(folder, postgres.create_database(), redis.url) as running,
        ):
            await running.start_all(*ALLOW, *USERS)
            await lift_budgets(running)
            yield Standing(running, postgres, redis, site)
            assert await running.verdict() == []
            assert "Traceback" not in running.logs()


async def test_an_emptied_redis_is_filled_again(standing: Standing) -> None:
    running = standing.running
    ids = await running.submit([sleep(0.05)] * 300)
    await running.until_status(ids[:10], "completed")
    await asyncio.to_thread(standing.redis.flush)
    flushed_at = time.monotonic()
    urgent = await running.client.submit("echo", {}, priority=10)
    running.note([urgent.id])
    await running.client.wait([urgent.id], timeout=PATIENCE_S)
    assert time.monotonic() - flushed_at < promised(GOES_ON_S)
    await _all_completed(running, ids)
    await running.until(lambda: has_readiness(running.masters, "ok"), "not ready")


async def _killed(redis: RedisServer) -> None:
    await asyncio.to_thread(redis.kill)


async def _started(redis: RedisServer) -> None:
    await asyncio.to_thread(redis.start)


async def _paused(redis: RedisServer) -> None:
    await asyncio.to_thread(redis.pause)


async def _resumed(redis: RedisServer) -> None:
    await asyncio.to_thread(redis.resume)


@pytest.mark.parametrize(("lose", "bring_back"), [(_killed, _started), (_paused, _resumed)], ids=["killed", "paused"])
async def test_without_redis_work_goes_on_and_everybody_is_told(
    standing: Standing, lose: Callable[[RedisServer], Any], bring_back: Callable[[RedisServer], Any]
) -> None:
    running, redis = standing.running, standing.redis
    before = await _broker_news(running)
    ids = await running.submit([sleep(0.2)] * 150)
    await lose(redis)
    lost_at = time.monotonic()
    await running.until(lambda: has_readiness(running.masters, "degraded"), "not told on /readyz", promised(NOTICED_S))
    (said,) = (await running.at(running.masters[0], "GET", "/readyz")).json["reasons"]
    assert said.startswith("Redis is away since 20")
    for place in running.masters:
        began = time.monotonic()
        # Ahead of the line: it has to be found, not to be patient.
        task = await place.client.submit("echo", {}, priority=10)
        running.note([task.id])
        await place.client.wait([task.id], timeout=PATIENCE_S)
        assert time.monotonic() - began < promised(GOES_ON_S), f"given to {place.name}"
    assert await has_readiness(running.masters, "degraded")
    await _all_completed(running, ids)
    await bring_back(redis)
    await running.until(lambda: has_readiness(running.masters, "ok"), "not told that it is back", promised(NOTICED_S))
    back_at = time.monotonic()
    began = time.monotonic()
    task = await running.masters[1].client.submit("echo", {})
    running.note([task.id])
    await running.masters[1].client.wait([task.id], timeout=PATIENCE_S)
    assert time.monotonic() - began < promised(GOES_ON_S)
    names = {place.name for place in running.masters}
    wanted = {(kind, name) for kind in ("broker.lost", "broker.back") for name in names}

    async def is_told() -> bool:
        return set((await _broker_news(running))[len(before) :]) == wanted

    await running.until(is_told, "no events of it")
    assert back_at > lost_at


async def test_a_short_outage_of_postgres_is_a_503_and_takes_nothing_from_the_nodes(standing: Standing) -> None:
    running, postgres, site = standing.running, standing.postgres, standing.site
    await site.hold()
    through = await running.submit(held_tasks(site, range(1, 5)))
    waiting = await running.submit([sleep(0.1)] * 200)
    await site.wait_held(4)
    stop = asyncio.Event()
    asking = asyncio.create_task(_ask_on(running, stop))
    await asyncio.to_thread(postgres.stop, "immediate")
    stopped_at = time.monotonic()
    for place in running.masters:
        for method, path, body in (
            ("POST", "/api/v1/tasks", echo(1)),
            ("POST", "/api/v1/tasks:batch", {"tasks": [echo(1)]}),
            ("GET", f"/api/v1/tasks/{through[0]}", None),
            ("GET", "/api/v1/nodes", None),
        ):
            answer = await running.at(place, method, path, json=body)
            assert answer.problem[:2] in ((503, "store_unavailable"), (503, "outcome_unknown")), path
            assert int(answer.headers["Retry-After"]) >= 1
        assert await readiness(place) == "unavailable"
        assert (await running.at(place, "GET", "/healthz")).status == 200
    # More than the time for which a call of a node may wait, so that both nodes meet the outage.
    await asyncio.sleep(max(0.0, stopped_at + 3 - time.monotonic()))
    await asyncio.to_thread(postgres.start)
    started_at = time.monotonic()
    await running.until(lambda: has_readiness(running.masters, "ok"), "not ready again", promised(RESUMED_S))
    task = await running.client.submit("echo", {}, priority=10)
    running.note([task.id])
    await running.client.wait([task.id], timeout=PATIENCE_S)
    assert time.monotonic() - started_at < promised(RESUMED_S)
    outage_s = time.monotonic() - stopped_at
    stop.set()
    told = await asking
    await site.release()
    await _all_completed(running, [*through, *waiting])
    if outage_s < LEASE_S - GUARD_S - 1:
        # On a machine that starts the database slowly the outage is not a short one.
        for one in through:
            assert len(await running.client.executions(one)) == 1, "shorter than a lease: nothing is taken away"
    await _none_was_false(running, told)


async def test_ended_connections_of_postgres_cost_nothing_but_a_503(standing: Standing) -> None:
    running = standing.running
    stop = asyncio.Event()
    asking = asyncio.create_task(_ask_on(running, stop))
    ids = await running.submit([sleep(0.1)] * 200)
    for _ in range(10):
        await asyncio.sleep(0.2)
        ours = "pid <> pg_backend_pid() AND datname = current_database()"
        await running.ask(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {ours}")
    stop.set()
    told = await asking
    await _all_completed(running, ids)
    await _none_was_false(running, told)


async def test_a_postgres_that_hangs_is_said_in_time_and_goes_on(standing: Standing) -> None:
    running, postgres, site = standing.running, standing.postgres, standing.site
    await site.hold()
    through = await running.submit(held_tasks(site, range(1, 5)))
    await site.wait_held(4)
    await asyncio.to_thread(postgres.pause)
    began = time.monotonic()
    try:
        for place in running.masters:
            assert await readiness(place) == "unavailable"
            assert (await running.at(place, "GET", "/healthz")).status == 200
        assert time.monotonic() - began < promised(2 * NOTICED_S)
    finally:
        await asyncio.to_thread(postgres.resume)
    await running.until(lambda: has_readiness(running.masters, "ok"), "not ready again", promised(RESUMED_S))
    hung_s = time.monotonic() - began
    await site.release()
    await _all_completed(running, through)
    if hung_s < LEASE_S - GUARD_S - 1:
        for task in through:
            assert len(await running.client.executions(task)) == 1


async def test_whoever_submits_to_a_postgres_that_hangs_hears_so_in_time(standing: Standing) -> None:
    running, postgres = standing.running, standing.postgres

    async def submit(place: MasterAt) -> tuple[float, Answer]:
        began = time.monotonic()
        answer = await running.at(place, "POST", "/api/v1/tasks", json={"task_type": "echo"})
        return time.monotonic() - began, answer

    await asyncio.to_thread(postgres.pause)
    try:
        # More than there are connections: nobody waits behind the others for longer.
        told = await asyncio.gather(*(submit(place) for place in running.masters * 20))
    finally:
        await asyncio.to_thread(postgres.resume)
    assert {(answer.status, "Retry-After" in answer.headers) for _, answer in told} == {(503, True)}
    assert max(took_s for took_s, _ in told) < promised(HANGS_TOLD_S)
    await running.until(lambda: has_readiness(running.masters, "ok"), "not ready again", promised(RESUMED_S))


async def test_after_a_long_outage_what_ended_in_time_counts_and_the_rest_runs_again(standing: Standing) -> None:
    running, postgres, site = standing.running, standing.postgres, standing.site
    await site.hold()
    folder = running.folder / "in-time"
    folder.mkdir()
    waiting = WaitingTasks(folder, 4)
    in_time, too_long = await running.submit(waiting.tasks), await running.submit(held_tasks(site, range(1, 5)))
    await site.wait_held(4)
    await running.until(waiting.are_running, "not all have started")
    lapses = {worker: _lapses(worker) for worker in _alive(running)}
    await asyncio.to_thread(postgres.stop, "immediate")
    stopped_at = time.monotonic()
    waiting.release()
    # By then the nodes have stopped what they could not renew, and have what ended in time on disk.
    await running.until(lambda: all(_lapses(worker) > count for worker, count in lapses.items()), "none stopped")
    assert time.monotonic() - stopped_at < promised(LEASE_S)
    for worker in _alive(running):
        assert (running.folder / worker.name / "outbox" / "outcomes-1.log").stat().st_size > 0
    await asyncio.sleep(max(0.0, stopped_at + LEASE_S + 2 - time.monotonic()))
    await asyncio.to_thread(postgres.start)
    await running.until(lambda: has_readiness(running.masters, "ok"), "not ready again", promised(RESUMED_S))
    await running.client.wait(in_time, timeout=PATIENCE_S)
    for task in in_time:
        (only,) = await running.client.executions(task)
        assert only.status == "completed", "delivered from the node's disk"
    await site.release()
    await _all_completed(running, [*in_time, *too_long])
    for task in too_long:
        view = await running.client.get(task)
        *stopped, last = await running.client.executions(task)
        assert (view.retry_count, last.status, len(stopped) >= 1) == (0, "completed", True)


def _lapses(worker: Process) -> int:
    return worker.log.read_text().count("lease_lapsed")


def _alive(running: ManyMasters) -> list[Process]:
    return [worker for worker in running.workers if worker.child.returncode is None]


async def _all_completed(running: ManyMasters, ids: list[str]) -> None:
    tasks = await running.client.wait(ids, timeout=PATIENCE_S)
    assert {task.status for task in tasks} == {"completed"}
    assert {task.retry_count for task in tasks} == {0}


async def _broker_news(running: ManyMasters) -> list[tuple[str, str]]:
    page = (await running.at(running.masters[0], "GET", "/api/v1/events?format=json&limit=1000&kind=broker.")).json
    found = [(event["kind"], event["data"]["master"]) for event in page["events"]]
    while page["next_after"] < page["last"]:
        path = f"/api/v1/events?format=json&limit=1000&kind=broker.&after={page['next_after']}"
        page = (await running.at(running.masters[0], "GET", path)).json
        found += [(event["kind"], event["data"]["master"]) for event in page["events"]]
    return found


async def _ask_on(running: ManyMasters, stop: asyncio.Event) -> list[Answer]:
    """Submits at both masters, one after the other, through all of it."""
    told: list[Answer] = []
    number = 0
    while not stop.is_set():
        number += 1
        try:
            told.append(await running.at(running.masters[number % 2], "POST", "/api/v1/tasks", json=echo(number)))
        except aiohttp.ClientError as exc:
            raise AssertionError(f"no master was gone, yet: {exc!r}") from exc
        await asyncio.sleep(0.02)
    return told


async def _none_was_false(running: ManyMasters, told: list[Answer]) -> None:
    """What was answered with 201 is there; anything else was a 503 with a time to come again."""
    assert {answer.status for answer in told} <= {201, 503}
    assert 201 in {answer.status for answer in told}
    assert all("Retry-After" in answer.headers for answer in told if answer.status == 503)
    ids = [answer.json["id"] for answer in told if answer.status == 201]
    running.note(ids)
    await _all_completed(running, ids)
