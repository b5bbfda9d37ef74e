"""The long poll for the end of a task."""

import asyncio
from typing import Any

import pytest

from crawlfleet.api.app import create_app
from crawlfleet.bootstrap.services import build_services
from tests.api.kit import PATIENCE_S, Answer, Site, Worker, serving

TASKS = "/api/v1/tasks"


async def waited(site: Site, task: str, wait_s: float = PATIENCE_S) -> Answer:
    return await site.get(f"{TASKS}/{task}?wait_s={wait_s}", role="viewer")


def clock() -> float:
    return asyncio.get_running_loop().time()


async def parked(site: Site) -> None:
    """Somebody waits."""

    async def is_so() -> bool:
        return sum(task.get_name() == "ends of tasks" for task in asyncio.all_tasks()) == 1

    await site.until(is_so)


async def test_it_is_answered_when_the_task_ends(site: Site, worker: Worker) -> None:
    task = await site.submit(parameters={"hold": True})
    await site.until_status(task, "processing")
    waiting = asyncio.create_task(waited(site, task))
    await parked(site)
    assert not waiting.done()
    began = clock()
    await site.post(f"{TASKS}/{task}:cancel")
    answer = await waiting
    assert (answer.status, answer.json["status"]) == (200, "cancelled")
    assert clock() - began < 5


async def test_it_tells_the_result_as_soon_as_there_is_one(site: Site, worker: Worker) -> None:
    answer = await waited(site, await site.submit(parameters={"n": 1}))
    assert (answer.json["status"], answer.json["result"]["data"]) == ("completed", {"n": 1})


async def test_a_task_that_has_ended_is_not_waited_for(site: Site, worker: Worker) -> None:
    task = await site.submit()
    await site.until_status(task, "completed")
    began = clock()
    assert (await waited(site, task)).json["status"] == "completed"
    assert clock() - began < 5


async def test_after_the_time_it_is_answered_as_it_is(site: Site) -> None:
    task = await site.submit()
    began = clock()
    assert (await waited(site, task, 0.3)).json["status"] == "pending"
    assert 0.3 <= clock() - began < 10


async def test_what_is_not_there_is_not_waited_for(site: Site) -> None:
    assert (await waited(site, "task-0000000000000001")).told[:2] == (404, "not_found")
    assert (await waited(site, "nothing")).told[:2] == (404, "not_found")


@pytest.mark.parametrize("wait_s", ["-1", "31", "soon", "nan", "inf", ""])
async def test_a_wait_has_bounds(site: Site, wait_s: Any) -> None:
    task = await site.submit()
    assert (await waited(site, task, wait_s)).told == (422, "invalid_input", "wait_s")


async def test_many_who_wait_cost_the_store_what_one_does(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [await site.submit(queue="held") for _ in range(20)]
    looks = 0
    live = site.store.live_tasks

    async def counted(*args: Any) -> Any:
        nonlocal looks
        looks += 1
        return await live(*args)

    monkeypatch.setattr(site.store, "live_tasks", counted)
    answers = await asyncio.gather(*(waited(site, task, 3) for task in tasks * 3))
    assert {answer.json["status"] for answer in answers} == {"pending"}
    assert looks <= 12, "for sixty who wait three seconds"


async def test_a_master_that_stops_lets_them_go(site: Site) -> None:
    task = await site.submit()
    app = create_app(build_services(site.master))
    async with serving(app) as url:
        closing = Site(site.master, url, site.tokens, site._session)
        waiting = asyncio.create_task(waited(closing, task))
        await parked(site)
        began = clock()
        app.shutdown.begin()
        assert (await waiting).json["status"] == "pending"
        assert (await waited(closing, task)).json["status"] == "pending"
        assert clock() - began < 5
