"""Why, over HTTP: tasks that are parked, and tasks that run and wait for a host all the same."""

from __future__ import annotations

from typing import Any

from crawlfleet.model.execution import End
from crawlfleet.model.host import HostNoteKind
from crawlfleet.wire.sync import AssignmentBody, HostNewsBody, HostWantBody, OutcomeBody, StartBody
from tests.api.kit import Site
from tests.api.remote_node import RemoteNode

HOST = "shop.example:8080"
URL = {"url": f"http://{HOST}/list"}


async def why(site: Site, task: str) -> Any:
    answer = await site.get(f"/api/v1/tasks/{task}/why", role="viewer")
    assert answer.status == 200, answer.content
    return answer.json


async def park(node: RemoteNode, one: AssignmentBody, **said: Any) -> None:
    node.held.remove(one.execution)
    body = {"error": 3, "message": f"host {HOST} is away", "again_ms": 60_000, **said}
    await node.sync(outcomes=[OutcomeBody(one.task, one.execution, int(End.RETURNED), **body)])


async def test_a_parked_task_says_for_what_until_when_and_how_often(site: Site) -> None:
    node = await RemoteNode.online(site)
    task = await site.submit(parameters=URL)
    await park(node, await node.take(), cause=1, subject=HOST)
    assert (await site.task(task))["status"] == "waiting"
    said = await why(site, task)
    assert said["sentence"].startswith(f"host {HOST} in back-off until ")
    assert (said["status"], said["cause"], said["host"], said["parked"]) == ("waiting", "host_backoff", HOST, 1)
    assert said["until"] <= said["retry_at"]
    (execution,) = (await site.get(f"/api/v1/tasks/{task}/executions")).json["executions"]
    assert execution["status"] == "parked"
    await site.master.relay.wait_for_passes()
    told = (await site.get("/api/v1/events?format=json&after=0&kind=task.parked")).json["events"]
    assert [(one["data"]["task"], one["data"]["cause"], one["data"]["subject"]) for one in told] == [
        (task, "host_backoff", HOST)
    ]
    assert (await site.post(f"/api/v1/tasks/{task}:cancel")).status == 200


async def test_words_of_an_executor_are_passed_on(site: Site) -> None:
    node = await RemoteNode.online(site)
    task = await site.submit()
    await park(node, await node.take(), message="the moon is not full")
    said = await why(site, task)
    assert said["sentence"].startswith("was parked by its executor (the moon is not full) until ")
    assert said["cause"] == "later"


async def test_a_node_parks_nobody_for_ever(site: Site) -> None:
    node = await RemoteNode.online(site)
    task = await site.submit()
    await park(node, await node.take(), again_ms=10**17)
    said = await why(site, task)
    assert said["cause"] == "later"
    assert ", in 1 d 0 h" in said["sentence"] or ", in 1 d 1 h" in said["sentence"]


async def test_a_running_task_says_which_host_it_waits_for(site: Site) -> None:
    node = await RemoteNode.online(site)
    task = await site.submit(parameters=URL)
    one = await node.take()
    await site.send("PUT", f"/api/v1/hosts/{HOST}", {"rate": 1, "concurrency": 1})
    await node.sync(started=[StartBody(one.task, one.execution, 0)], hosts=[HostWantBody(HOST, 8)])

    async def waits_for_budget() -> bool:
        return "waits_for" in await why(site, task)

    await site.until(waits_for_budget)
    said = await why(site, task)
    assert f"waits for host {HOST}: its budget of 1/s, 1 at once is this node's alone" in said["sentence"]
    assert (said["cause"], said["waits_for"][0]["cause"]) == ("processing", "host_budget")
    await node.sync(hosts=[HostWantBody(HOST, 8)], host_news=[HostNewsBody(HOST, HostNoteKind.TOO_MANY, 60_000)])

    async def waits_for_host() -> bool:
        return bool((await why(site, task))["waits_for"][0]["cause"] == "host_backoff")

    await site.until(waits_for_host)
    said = await why(site, task)
    assert f", waits for host {HOST}: in back-off until " in said["sentence"]
    assert said["waits_for"][0]["reason"] == "answered 429"
    other = await site.submit(parameters={"url": "http://other.example/"})
    two = await node.take()
    await node.sync(started=[StartBody(two.task, two.execution, 0)], hosts=[HostWantBody(HOST, 8)])
    assert "waits_for" not in await why(site, other)


async def test_a_group_says_what_its_members_wait_for(site: Site) -> None:
    node = await RemoteNode.online(site)
    task = {"task_type": "echo", "parameters": URL}
    later = task | {"run_at": "2999-01-01T00:00:00Z"}
    made = (await site.post("/api/v1/groups", {"tasks": [task, later], "is_closed": True})).json
    path = f"/api/v1/groups/{made['id']}/why"
    said = (await site.get(path, role="viewer")).json
    assert (said["id"], said["open"], sum(said["members"].values())) == (made["id"], 2, 2)
    one = await node.take()
    await node.sync(started=[StartBody(one.task, one.execution, 0)], hosts=[HostWantBody(HOST, 8)])
    await node.sync(hosts=[HostWantBody(HOST, 8)], host_news=[HostNewsBody(HOST, HostNoteKind.TOO_MANY, 60_000)])

    async def waits_for_host() -> bool:
        return bool((await site.get(path)).json["cause"] == "host_backoff")

    await site.until(waits_for_host)
    said = (await site.get(path)).json
    assert said["sentence"].startswith(f"waits for host {HOST}: in back-off until ")
    assert [(wait["host"], wait["reason"]) for wait in said["waits_for"]] == [(HOST, "answered 429")]
    assert (await site.get("/api/v1/groups/group-00000000000000ff/why")).status == 404
    assert (await site.get("/api/v1/groups/nonsense/why")).status == 404
