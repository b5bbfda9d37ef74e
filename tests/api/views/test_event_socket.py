"""The event WebSocket: the numbers of the event stream, several filters, and clear answers to bad input."""

import asyncio
import json
from typing import Any

import pytest

from crawlfleet.api.views import event_socket
from crawlfleet.bootstrap import websocket_protocol
from crawlfleet.errors import StoreUnavailable
from crawlfleet.wire.event_socket import MESSAGE_BYTES, SUBPROTOCOL, SUBSCRIPTIONS
from tests.api.kit import PATIENCE_S, Site, Worker
from tests.api.routes.test_events import settled
from tests.api.socket_kit import SocketSite


async def test_events_come_with_the_numbers_of_the_log(site: Site, worker: Worker, sockets: SocketSite) -> None:
    async with sockets.connected() as socket:
        assert socket.raw.protocol == SUBPROTOCOL
        subscribed = await socket.subscribe("tasks", kinds=["task."])
        assert subscribed == {"op": "subscribed", "id": "tasks", "after": subscribed["after"]}
        task = await site.submit()
        await site.until_status(task, "completed")
        live = [await socket.next()]
        while live[-1]["kind"] != "task.completed":
            live.append(await socket.next())
    logged = [event for event in await settled(site) if event["kind"].startswith("task.")]
    assert [{**event, "sub": "tasks"} for event in logged] == live


async def test_a_subscription_goes_on_after_a_number(site: Site, sockets: SocketSite) -> None:
    tasks = [await site.submit() for _ in range(5)]
    submitted = [event for event in await settled(site) if event["kind"] == "task.submitted"]
    async with sockets.connected() as socket:
        await socket.subscribe(kinds=["task.submitted"], after=submitted[2]["number"])
        assert [event["data"]["task"] for event in await socket.events(2)] == tasks[3:]
        await socket.subscribe("whole", kinds=["task.submitted"], after=0)
        assert [event["number"] for event in await socket.events(5)] == [event["number"] for event in submitted]


async def test_subscriptions_of_one_connection_have_their_own_filters(site: Site, sockets: SocketSite) -> None:
    first, second = [await site.submit() for _ in range(2)]
    await settled(site)
    async with sockets.connected() as socket:
        for name, task in (("one", first), ("two", second)):
            await socket.subscribe(name, task=task, after=0)
            event = await socket.next()
            assert (event["sub"], event["data"]["task"]) == (name, task)
        await socket.send("unsubscribe", id="one")
        assert await socket.next() == {"op": "unsubscribed", "id": "one"}
        for task in (first, second):
            assert (await site.post(f"/api/v1/tasks/{task}:cancel")).status == 200
        event = await socket.next()
        assert (event["sub"], event["kind"], event["data"]["task"]) == ("two", "task.cancelled", second)


async def test_a_reader_of_old_events_does_not_hold_up_new_ones(site: Site, sockets: SocketSite) -> None:
    for _ in range(3):
        await site.submit()
    everything = await settled(site)
    async with sockets.connected() as socket:
        await socket.subscribe("new", kinds=["task.submitted"])
        await socket.subscribe("old", kinds=["task.submitted"], after=0)
        old = [event for event in everything if event["kind"] == "task.submitted"]
        assert [event["number"] for event in await socket.events(3)] == [event["number"] for event in old]
        task = await site.submit()
        both = await socket.events(2)
        assert sorted(event["sub"] for event in both) == ["new", "old"]
        assert {event["data"]["task"] for event in both} == {task}


async def test_what_is_no_longer_kept_is_a_gap(site: Site, sockets: SocketSite) -> None:
    for _ in range(3):
        await site.submit()
    last = (await settled(site))[-1]["number"]
    delete = f"DELETE FROM event_log WHERE first < {last}"
    await site.store.engine.write(lambda tx: tx.execute(delete))  # type: ignore[attr-defined]
    async with sockets.connected() as socket:
        await socket.subscribe(kinds=["task.submitted"], after=1)
        assert await socket.next() == {"op": "gap", "sub": "a", "first": last}
        assert (await socket.next())["number"] == last


async def test_a_quiet_subscription_learns_its_position(
    site: Site, sockets: SocketSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    await settled(site)
    monkeypatch.setattr(event_socket, "POSITION_S", 0.05)
    async with sockets.connected() as socket:
        after = (await socket.subscribe(kinds=["host."]))["after"]
        assert await socket.next() == {"op": "position", "sub": "a", "number": after}


@pytest.mark.parametrize(
    ("message", "field", "detail"),
    [
        ("{not json", "message", "not valid JSON"),
        ("[1]", "message", "an object"),
        ('{"op":"shout","id":"a"}', "op", "shout"),
        ('{"id":"a"}', "op", "is needed"),
        ('{"op":"subscribe"}', "id", "is needed"),
        ('{"op":"subscribe","id":""}', "id", "must not be empty"),
        ('{"op":"subscribe","id":"a","after":-1}', "after", "at least 0"),
        ('{"op":"subscribe","id":"a","after":9223372036854775807}', "after", "in the future: the last event is"),
        ('{"op":"subscribe","id":"a","kinds":["weather."]}', "kinds", "no kind of event begins so"),
        ('{"op":"subscribe","id":"a","kinds":"task."}', "kinds", "a list"),
        ('{"op":"subscribe","id":"a","task":"node-1"}', "task", ""),
        ('{"op":"subscribe","id":"a","node":"none"}', "node", "no node has this id"),
        ('{"op":"subscribe","id":"a","topic":"x"}', "topic", "there is no 'topic'"),
        ('{"op":"unsubscribe","id":"a"}', "id", "no subscription 'a' is open"),
    ],
)
async def test_a_bad_message_is_refused_and_the_connection_goes_on(
    sockets: SocketSite, message: str, field: str, detail: str
) -> None:
    async with sockets.connected() as socket:
        await socket.raw.send_str(message)
        answer = await socket.next()
        assert (answer["op"], answer["code"], answer["field"]) == ("error", "invalid_input", field), answer
        assert detail in answer["detail"]
        assert answer.get("id") == ("a" if '"id":"a"' in message else "" if '"id":""' in message else None)
        assert (await socket.subscribe())["op"] == "subscribed"


async def test_subscriptions_are_bounded_and_named_once(sockets: SocketSite) -> None:
    async with sockets.connected() as socket:
        for number in range(SUBSCRIPTIONS):
            assert (await socket.subscribe(f"s{number}"))["op"] == "subscribed"
        answer = await socket.subscribe("more")
        assert (answer["op"], answer["id"], answer["code"]) == ("error", "more", "over_limit")
        answer = await socket.subscribe("s3")
        assert (answer["op"], answer["id"], answer["code"]) == ("error", "s3", "conflict")


async def test_binary_messages_are_refused(sockets: SocketSite) -> None:
    async with sockets.connected() as socket:
        await socket.raw.send_bytes(b'{"op":"subscribe","id":"a"}')
        assert (await socket.next())["detail"] == "a text message, not a binary one"


async def test_a_message_that_is_too_large_ends_the_connection(sockets: SocketSite) -> None:
    async with sockets.connected() as socket:
        await socket.raw.send_str(json.dumps({"op": "subscribe", "id": "x" * MESSAGE_BYTES}))
        assert (await socket.closed())[0] == 1009


async def test_who_does_not_read_is_cut_off_with_the_place_to_resume(
    site: Site, sockets: SocketSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_socket, "STALL_S", 0.3)
    monkeypatch.setattr(websocket_protocol, "UNSENT_BYTES", 1 << 12)
    monkeypatch.setattr(websocket_protocol, "_RESUME_BYTES", 1 << 11)
    async with sockets.connected() as socket:
        connection = socket.raw._response.connection
        assert connection is not None
        transport = connection.transport
        assert transport is not None
        transport.pause_reading()
        for number in range(SUBSCRIPTIONS):
            # More than what the kernel holds for a reader that reads nothing.
            await socket.send("subscribe", id=f"{number}", after=0)

        async def is_cut() -> bool:
            return site.master.metrics.event_streams == 0

        await fill_socket(site, is_cut)
        transport.resume_reading()
        code, reason = await socket.closed()
    assert code == 1013
    assert reason.startswith("read too slowly; resume after ")
    assert int(reason.rpartition(" ")[2]) >= 0


async def fill_socket(site: Site, is_cut: Any) -> None:
    """Make events until the reader that does not read is cut off."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not await is_cut():
        assert asyncio.get_running_loop().time() < deadline
        batch = {"tasks": [{"task_type": "echo"} for _ in range(500)]}
        assert (await site.post("/api/v1/tasks:batch", batch)).status in (200, 201, 207)
        await asyncio.sleep(0.05)


async def test_a_store_that_is_away_ends_the_connection_with_the_place(
    site: Site, sockets: SocketSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailable("away")

    await settled(site)
    async with sockets.connected() as socket:
        after = (await socket.subscribe())["after"]
        monkeypatch.setattr(site.store, "events_after", fail)
        await socket.send("subscribe", id="b")
        code, reason = await socket.closed()
    assert (code, reason) == (1013, f"the store does not answer; resume after {after}")


async def test_a_stopping_master_ends_it(site: Site, sockets: SocketSite) -> None:
    async with sockets.connected() as socket:
        after = (await socket.subscribe())["after"]
        sockets.app.shutdown.begin()
        assert await socket.closed() == (1012, f"the master stops; resume after {after}")
