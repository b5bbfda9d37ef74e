"""Events: live, resumable, filtered, and over when the master stops."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from crawlfleet.api.app import create_app
from crawlfleet.api.routes import events
from crawlfleet.api.views.events import EventFilter
from crawlfleet.bootstrap.services import build_services
from tests.api.kit import PATIENCE_S, Site, Worker, serving
from tests.api.remote_node import RemoteNode


class Stream:
    """What a browser's EventSource would see."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content
        self.last_id = ""

    async def event(self) -> Any:
        """The next one; None at the end."""
        async with asyncio.timeout(PATIENCE_S):
            data = ""
            while raw := await self._content.readline():
                line = raw.decode().rstrip("\n")
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last_id = value
                elif name == "data":
                    data += value
                elif not line and data:
                    found = json.loads(data)
                    assert found["number"] == 0 or str(found["number"]) == self.last_id
                    return found
        return None

    async def until(self, kind: str) -> Any:
        while (event := await self.event())["kind"] != kind:
            pass
        return event


@asynccontextmanager
async def listening(
    site: Site, query: str = "", *, url: str | None = None, headers: dict[str, str] | None = None
) -> AsyncIterator[Stream]:
    sent = {"Authorization": f"Bearer {site.tokens['viewer']}"} | (headers or {})
    async with site._session.get(f"{url or site.url}/api/v1/events{query}", headers=sent) as response:
        assert response.status == 200, await response.text()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        yield Stream(response.content)


async def settled(site: Site) -> list[Any]:
    """All events, once the relay has nothing left to do."""

    async def is_quiet() -> bool:
        return await site.store.relay_events(site.master.lead.term or 0, 1_000) == 0

    await site.until(is_quiet)
    return list((await site.get("/api/v1/events?format=json&limit=1000")).json["events"])


async def test_a_stream_tells_what_happens_from_now_on(site: Site, worker: Worker) -> None:
    await site.until_status(await site.submit(), "completed")
    await settled(site)
    async with listening(site) as stream:
        task = await site.submit()
        submitted = await stream.until("task.submitted")
        assert submitted["data"] == {"task": task}
        completed = await stream.until("task.completed")
        assert completed["data"]["task"] == task
        assert completed["data"]["node"].startswith("node-")
        assert completed["data"]["execution"].startswith("exec-")
        assert completed["at"].endswith("Z")
        assert completed["number"] > submitted["number"]


async def test_a_stream_goes_on_after_the_last_event_seen(site: Site) -> None:
    tasks = [await site.submit() for _ in range(5)]
    everything = await settled(site)
    third = [event for event in everything if event["kind"] == "task.submitted"][2]
    number = third["number"]
    for query, headers in [
        ("?kind=task.", {"Last-Event-ID": str(number)}),
        (f"?kind=task.&after={number}", {}),
        ("?kind=task.&after=0", {"Last-Event-ID": str(number)}),
    ]:
        async with listening(site, query, headers=headers) as stream:
            seen = [await stream.event() for _ in range(2)]
            assert [event["data"]["task"] for event in seen] == tasks[3:]


async def test_a_stream_from_the_beginning_has_everything_in_order(site: Site) -> None:
    for _ in range(20):
        await site.submit()
    everything = await settled(site)
    async with listening(site, "?after=0") as stream:
        assert [await stream.event() for _ in everything] == everything
    assert [event["number"] for event in everything] == list(range(1, len(everything) + 1))


async def test_a_number_from_before_a_restored_backup_does_not_wait_for_ever(site: Site) -> None:
    await settled(site)
    async with listening(site, "?after=999999999&kind=task.") as stream:
        task = await site.submit()
        assert (await stream.event())["data"]["task"] == task


async def test_events_are_filtered_by_task_and_node_and_kind(site: Site) -> None:
    node = await RemoteNode.online(site, device_id="worker-001")
    await site.submit()
    await node.finish(await node.take())
    task = await site.submit()
    await node.finish(await node.take())
    await settled(site)

    async def page(query: str) -> list[Any]:
        return list((await site.get(f"/api/v1/events?format=json&limit=1000&{query}")).json["events"])

    kinds = [event["kind"] for event in await page(f"task={task}")]
    assert kinds == ["task.submitted", "task.assigned", "task.completed"]
    for named in (node.text, "worker-001"):
        found = await page(f"node={named}&kind=node.")
        assert [event["kind"] for event in found] == ["node.registered", "node.online"]
    found = await page("kind=task.completed&kind=node.online")
    assert sorted(event["kind"] for event in found) == ["node.online", "task.completed", "task.completed"]


async def test_a_page_looks_beyond_what_the_filter_leaves_out(site: Site) -> None:
    for _ in range(5):
        await site.submit()
    task = await site.submit()
    everything = await settled(site)
    found = (await site.get(f"/api/v1/events?format=json&limit=2&task={task}")).json
    assert [event["kind"] for event in found["events"]] == ["task.submitted"]
    assert found["next_after"] == found["last"] == everything[-1]["number"]


async def test_a_page_that_looked_at_much_ends_and_says_where(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LOOKED_AT_MOST", 4)
    for _ in range(5):
        await site.submit()
    await settled(site)
    found = (await site.get("/api/v1/events?format=json&limit=2&kind=host.forgiven")).json
    assert (found["events"], found["next_after"]) == ([], 4)


async def test_pages_go_on_where_they_ended(site: Site) -> None:
    for _ in range(7):
        await site.submit()
    everything = await settled(site)
    after, seen = 0, list[Any]()
    while len(seen) < len(everything):
        page = (await site.get(f"/api/v1/events?format=json&limit=3&after={after}")).json
        assert page["last"] == everything[-1]["number"]
        seen += page["events"]
        after = page["next_after"]
    assert seen == everything
    last = (await site.get(f"/api/v1/events?format=json&after={after}")).json
    assert (last["events"], last["next_after"]) == ([], after)


async def test_statuses_and_times_are_words(site: Site) -> None:
    node = await RemoteNode.online(site)
    await site.post(f"/api/v1/nodes/{node.text}:drain")
    task = await site.submit(queue="held")
    await site.post(f"/api/v1/tasks/{task}:cancel")
    events = {event["kind"]: event["data"] for event in await settled(site)}
    assert events["node.draining"]["drain_by"].endswith("Z")
    assert events["task.cancelled"]["status"] == "cancelled"
    assert events["task.cancelled"]["node"] is None


@pytest.mark.parametrize(
    ("query", "headers", "field"),
    [
        ("?after=-1", {}, "after"),
        ("?after=x", {}, "after"),
        ("?format=xml", {}, "format"),
        ("?task=1", {}, "task"),
        ("?node=nobody", {}, "node"),
        ("?kind=", {}, "kind[0]"),
        ("?since=1", {}, "since"),
        ("?limit=0", {}, "limit"),
        ("", {"Last-Event-ID": "yesterday"}, "Last-Event-ID"),
        ("", {"Last-Event-ID": "9" * 40}, "Last-Event-ID"),
    ],
)
async def test_a_bad_question_is_told_what_is_wrong(
    site: Site, query: str, headers: dict[str, str], field: str
) -> None:
    assert (await site.get(f"/api/v1/events{query}", headers=headers)).told == (422, "invalid_input", field)


async def test_streams_end_when_the_master_stops(site: Site) -> None:
    app = create_app(build_services(site.master))
    async with serving(app) as url, listening(site, "?kind=task.submitted", url=url) as stream:
        await site.submit()
        assert (await stream.event())["kind"] == "task.submitted"
        app.shutdown.begin()
        assert await stream.event() is None
        async with listening(site, url=url) as late:
            assert await late.event() is None


async def test_a_quiet_stream_shows_that_it_lives(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlfleet.api.routes.events.HEARTBEAT_S", 0.1)
    await settled(site)
    async with listening(site, "?kind=host.forgiven") as stream, asyncio.timeout(PATIENCE_S):
        while not (await stream._content.readline()).startswith(b": still here"):
            pass
        assert (await stream._content.readline()).startswith(b"id: ")


async def test_listeners_that_leave_leave_nothing_behind(site: Site) -> None:
    for _ in range(5):
        async with listening(site):
            pass

    async def is_gone() -> bool:
        return not [task for task in asyncio.all_tasks() if task.get_name() == "event feed"]

    await site.until(is_gone)


async def test_heartbeats_are_live_for_streams_that_name_them_and_in_no_log(site: Site) -> None:
    node, other = await RemoteNode.online(site, name="a"), await RemoteNode.online(site, name="b")
    async with listening(site, f"?kind=node.heartbeat&kind=task.&node={node.text}") as stream:
        # The first look only learns what was told before; a node is heard again and again.
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            beating = group.create_task(beat_for_ever(node, other))
            told = await stream.until("node.heartbeat")
            again = await stream.until("node.heartbeat")
            beating.cancel()
        assert (told["number"], stream.last_id) == (0, "")
        assert told["data"]["node"] == again["data"]["node"] == node.text
        assert (told["data"]["status"], "cpu" in told["data"]) == ("online", True)
        assert again["at"] > told["at"]
    kinds = {event["kind"] for event in await settled(site)}
    assert "node.heartbeat" not in kinds


async def beat_for_ever(*nodes: RemoteNode) -> None:
    while True:
        for node in nodes:
            await node.sync()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ((), False),
        (("node.",), False),
        (("task.",), False),
        (("node.heartbeat",), True),
    ],
)
def test_heartbeats_come_only_where_they_are_named(query: tuple[str, ...], expected: bool) -> None:
    assert EventFilter(kinds=query).wants_heartbeats is expected
