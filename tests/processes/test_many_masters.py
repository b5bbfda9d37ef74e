"""Two masters over PostgreSQL and Redis are one: whichever is asked, the same is known, and nobody waits for a poll."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from crawlfleet.client import AsyncClient
from crawlfleet.client.errors import ApiError
from crawlfleet.client.transport.stream_parsers import EventParser, read_lines
from testkit.patience import PATIENCE_S, promised
from testkit.servers import PostgresServer, RedisServer
from tests.processes.fleet import echo, sleep
from tests.processes.masters import ManyMasters, MasterAt, many_masters

pytestmark = [pytest.mark.integration, pytest.mark.postgres, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

AT_ONCE_S = 0.8
"""Less than the second after which a lost hint would be made good: that it came is what is tested."""
USUALLY_S = 0.3


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer
) -> AsyncIterator[ManyMasters]:
    """For all tests of this file: they leave it as quiet as they found it."""
    dsn = postgres_server.create_database()
    with RedisServer() as redis:
        async with many_masters(tmp_path_factory.mktemp("many"), dsn, redis.url) as running:
            await running.start_all()
            yield running
            assert await running.verdict() == []
    postgres_server.drop_database(dsn)


async def test_any_master_takes_tasks_and_serves_any_node(running: ManyMasters) -> None:
    ids = []
    for place in running.masters:
        accepted = await place.client.submit_batch([echo(number) for number in range(200)])
        ids += [task.id for task in accepted]
    running.note(ids)
    one, other = [await place.client.wait(ids, timeout=PATIENCE_S) for place in running.masters]
    assert {task.status for task in one} == {"completed"}
    assert [task.id for task in one] == [task.id for task in other] == ids
    nodes = {node.id: node.name for node in await running.client.nodes()}
    assert {nodes[task.assigned_node or ""] for task in one} == {"w0", "w1"}


async def test_a_task_for_the_follower_is_placed_at_once_by_the_leader(running: ManyMasters) -> None:
    follower = await running.follower()
    took = []
    for number in range(20):
        began = time.monotonic()
        ids = [(await follower.client.submit("echo", {"n": number})).id]
        running.note(ids)
        (task,) = await follower.client.wait(ids, timeout=PATIENCE_S)
        took.append(time.monotonic() - began)
        assert task.status == "completed"
    assert max(took) < promised(AT_ONCE_S), took
    assert statistics.median(took) < promised(USUALLY_S), took


async def test_a_cancel_at_another_master_reaches_the_node_at_once(running: ManyMasters) -> None:
    by_node = await _talks_to(running)
    ids = await running.submit([sleep(600)] * 8)
    await running.until_status(ids, "processing")
    took = []
    for task in ids:
        node = (await running.client.get(task)).assigned_node
        (elsewhere,) = [place for place in running.masters if place is not by_node[node or ""]]
        began = time.monotonic()
        await elsewhere.client.cancel(task)
        (ended,) = await elsewhere.client.wait([task], timeout=PATIENCE_S)
        took.append(time.monotonic() - began)
        assert ended.status == "cancelled"
    assert {(await running.client.get(task)).assigned_node for task in ids} == by_node.keys(), "both nodes had some"
    assert max(took) < promised(AT_ONCE_S), took


async def test_who_waits_for_a_task_is_woken_whichever_master_hears_of_its_end(running: ManyMasters) -> None:
    ids = await running.submit([sleep(0.7)] * 8)
    ended: dict[tuple[str, str], float] = {}

    async def wait(place: MasterAt, task: str) -> None:
        status = ""
        while status != "completed":
            status = (await running.at(place, "GET", f"/api/v1/tasks/{task}?wait_s=30")).json["status"]
        ended[place.name, task] = time.monotonic()

    await asyncio.gather(*(wait(place, task) for place in running.masters for task in ids))
    apart = [abs(ended["m0", task] - ended["m1", task]) for task in ids]
    assert max(apart) < promised(AT_ONCE_S), apart
    assert statistics.median(apart) < promised(USUALLY_S), apart


async def test_the_stream_of_events_goes_on_at_another_master_without_gap_or_double(running: ManyMasters) -> None:
    last = (await running.at(running.masters[0], "GET", "/api/v1/events?format=json&limit=1")).json["last"]
    submitting = asyncio.create_task(_trickle(running, 120))
    heard: list[int] = []
    for turn in range(6):
        heard += await _heard(running, running.masters[turn % 2], heard[-1] if heard else last, 60)
    await submitting
    assert heard == list(range(last + 1, last + 1 + len(heard)))


async def test_what_was_told_to_one_master_is_known_to_the_other(running: ManyMasters) -> None:
    one, other = running.masters
    token = await one.client.create_token("enrol", uses=1)
    await running.start_worker_of(
        one,
        "special",
        "--executors",
        "tests.integration.execution.executors.user_executors",
        token=token.token,
        urls=[one.url],
    )
    await running.until_online(3)
    # A type that a node brought to one master, asked for at the other.
    ids = [(await other.client.submit("greet", {"name": "you"})).id]
    with pytest.raises(ApiError, match="name"):
        await other.client.submit("greet", {})
    running.note(ids)
    (task,) = await other.client.wait(ids, timeout=PATIENCE_S)
    assert task.status == "completed"
    # Configuration, within the second for which it is remembered.
    await one.client.put_config({"task_timeout_s": 77})
    assert (await other.client.config()).values["task_timeout_s"] == 77
    await running.until(
        lambda: _has_timeout(running, other, 77), "the other master has not heard of it", within_s=promised(1.5)
    )
    await one.client.put_config({})
    # A token, and that it is none any more.
    made = await one.client.create_token("viewer", name="for a moment")
    async with AsyncClient(other.url, made.token) as viewer:
        assert len(await viewer.nodes()) == 3
        await one.client.revoke_token(made.id)
        await running.until(lambda: _is_refused(viewer), "the other master still takes it", within_s=promised(2.5))


async def test_how_far_running_work_is_shows_at_every_master(running: ManyMasters) -> None:
    ids = await running.submit([{"task_type": "stumbles", "parameters": {"then": "wait"}}])
    for place in running.masters:
        await running.until(lambda place=place: _shows(place, ids[0]), f"not at {place.name}")  # type: ignore[misc]
    await running.masters[1].client.cancel(ids[0])
    await running.masters[1].client.wait(ids, timeout=PATIENCE_S)
    assert [(await place.client.get(ids[0])).progress for place in running.masters] == [None, None]


async def test_the_measurements_of_every_node_show_at_every_master(running: ManyMasters) -> None:
    async def are_shown() -> bool:
        seen = [await place.client.nodes() for place in running.masters]
        return all(node.measurement is not None for nodes in seen for node in nodes if node.status == "online")

    await running.until(are_shown, "not all are shown")


async def _is_refused(viewer: AsyncClient) -> bool:
    try:
        await viewer.nodes()
    except ApiError as refused:
        return refused.status == 401
    return False


async def _talks_to(running: ManyMasters) -> dict[str, MasterAt]:
    """w0 was started at the first master, w1 at the second: nothing has made them move."""
    nodes = {node.name: node.id for node in await running.client.nodes()}
    return {nodes[f"w{number}"]: place for number, place in enumerate(running.masters)}


async def _trickle(running: ManyMasters, count: int) -> None:
    for number in range(count):
        running.note([(await running.masters[number % 2].client.submit("echo", {"n": number})).id])


async def _heard(running: ManyMasters, place: MasterAt, after: int, count: int) -> list[int]:
    headers = {"Authorization": f"Bearer {running.admin}", "Last-Event-ID": str(after)}
    parser = EventParser()
    heard: list[int] = []
    async with (
        asyncio.timeout(PATIENCE_S),
        aiohttp.ClientSession() as session,
        session.get(f"{place.url}/api/v1/events", headers=headers) as stream,
    ):
        async for line in read_lines(stream.content):
            if (event := parser.feed(line.decode())) is not None:
                heard.append(msgspec.json.decode(event.data)["number"])
                if len(heard) == count:
                    break
    return heard


async def _has_timeout(running: ManyMasters, place: MasterAt, wanted: int) -> bool:
    answer: Any = (await running.at(place, "POST", "/api/v1/tasks", json=echo(0))).json
    running.note([answer["id"]])
    task: Any = (await running.at(place, "GET", f"/api/v1/tasks/{answer['id']}")).json
    return bool(task["timeout_s"] == wanted)


async def _shows(place: MasterAt, task: str) -> bool:
    shown = [one.progress for one in await place.client.executions(task)]
    return bool(shown == [(await place.client.get(task)).progress] == [{"pages": 3, "items": 99}])
