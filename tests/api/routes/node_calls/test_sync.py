"""The node protocol over HTTP: sessions, syncs, long polls, and who may speak for whom."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from crawlfleet.api.app import create_app
from crawlfleet.bootstrap.services import build_services
from crawlfleet.broker.memory.signals import MemorySignals
from crawlfleet.model.execution import End
from crawlfleet.ports.broker import node_topic
from crawlfleet.wire.sync import OpenUp, OutcomeBody, ProgressBody, SyncDown, SyncUp, SyncVerdict
from tests.api.kit import PATIENCE_S, Site, serving
from tests.api.remote_node import RemoteNode


async def test_a_task_goes_out_and_its_outcome_comes_back(site: Site) -> None:
    node = await RemoteNode.online(site)
    task = await site.submit(parameters={"n": 1})
    one = await node.take()
    assert (one.task_type, bytes(one.parameters)) == ("echo", b'{"n": 1}')
    down = await node.finish(one, {"items": 0})
    assert down.acknowledged == [one.execution]
    assert (await site.task(task))["status"] == "completed"


async def test_opening_tells_session_lease_and_pace(site: Site) -> None:
    node = await RemoteNode.join(site)
    down = await node.open()
    assert (down.session, down.is_open, down.lease_ms) == (1, True, 9_000)
    assert 0 < down.sync_ms <= 3_000


async def test_a_sync_is_parked_until_there_is_something_to_say(site: Site) -> None:
    node = await RemoteNode.online(site)
    parked = asyncio.create_task(node.sync(wait_ms=2_000))
    slots = await site.post(f"/api/v1/nodes/{node.text}:slots", {"slots": 3})
    assert slots.status == 200
    assert (await parked).slots == 3


async def test_a_signal_that_brings_nothing_new_leaves_the_call_parked(site: Site) -> None:
    """The signal of an assignment that a call took along by itself is kept, and wakes the next call for nothing. Were
    that one answered, the node would pause before it asks again."""
    node = await RemoteNode.online(site)
    signals = site.master.broker.signals
    await signals.send_signals([node_topic(node.id)])
    up = node.up(wait_ms=2_000)
    parked = asyncio.create_task(site.master.sync.sync(up))

    async def is_waiting() -> bool:
        assert isinstance(signals, MemorySignals)
        return signals.list_topics() >= {node_topic(node.id)} and site.master.sync._pending_polls.get(node.id) is up

    for _ in range(3):
        await site.until(is_waiting)
        await signals.send_signals([node_topic(node.id)])
        assert not parked.done()
    await site.post(f"/api/v1/nodes/{node.text}:slots", {"slots": 3})
    assert (await parked).slots == 3


@pytest.mark.parametrize("newer_first", [False, True])
async def test_of_two_calls_that_come_together_only_the_newer_is_parked(site: Site, newer_first: bool) -> None:
    """Neither is parked when the other comes. A node has two calls: with both parked it could say nothing more."""
    node = await RemoteNode.online(site)
    older, newer = node.up(wait_ms=2_000), node.up(wait_ms=2_000)
    pair = [newer, older] if newer_first else [older, newer]
    calls = {asyncio.create_task(site.master.sync.sync(up)): up for up in pair}
    ended, parked = await asyncio.wait(calls, timeout=1.5, return_when=asyncio.FIRST_COMPLETED)
    assert [calls[call] for call in ended] == [older]
    await site.post(f"/api/v1/nodes/{node.text}:slots", {"slots": 3})
    (waiting,) = parked
    assert (await waiting).slots == 3


async def test_a_session_that_is_over_is_told_so(site: Site) -> None:
    node = await RemoteNode.online(site)
    old = node.up()
    await node.open()
    answer = await node.call("sync", old)
    assert msgspec.json.decode(answer.content, type=SyncDown).verdict is SyncVerdict.SESSION_ENDED


async def test_the_device_id_serves_in_place_of_the_id(site: Site) -> None:
    node = await RemoteNode.join(site, device_id="worker-001")
    node.text = "worker-001"
    assert (await node.open()).session == 1
    assert (await node.sync()).verdict is SyncVerdict.OK


async def test_only_the_node_itself_syncs(site: Site) -> None:
    mine, other = await RemoteNode.online(site, name="mine"), await RemoteNode.online(site, name="other")
    for verb in ("open", "sync"):
        answer = await site.post(f"/api/v1/nodes/{other.text}:{verb}", [other.id], token=mine.secret)
        assert answer.told == (403, "not_allowed", "Authorization")
        assert ("node", f"node.{verb}.refused", other.text) in await site.audited()
    for role in ("admin", "operator", "viewer", "enrol"):
        answer = await mine.call("sync", mine.up(), token=site.tokens[role])
        assert answer.told == (403, "not_allowed", "Authorization")
    assert (await other.sync()).verdict is SyncVerdict.OK, "nobody ended its session"


async def test_a_body_for_another_node_than_the_path_is_refused(site: Site) -> None:
    mine, other = await RemoteNode.online(site, name="mine"), await RemoteNode.online(site, name="other")
    answer = await mine.call("sync", SyncUp(other.id, other.session, 99, 0, []))
    assert answer.told == (422, "invalid_input", "node")
    answer = await mine.call("open", OpenUp(other.id, other.secret))
    assert answer.told == (422, "invalid_input", "node")
    assert (await other.sync()).verdict is SyncVerdict.OK


async def test_an_outcome_for_another_nodes_execution_is_stale(site: Site) -> None:
    holder = await RemoteNode.online(site, name="holder")
    task = await site.submit()
    one = await holder.take()
    thief = await RemoteNode.online(site, name="thief")
    await thief.sync(outcomes=[OutcomeBody(one.task, one.execution, int(End.COMPLETED))])
    assert (await site.task(task))["status"] in {"assigned", "processing"}
    await holder.finish(one)
    assert (await site.task(task))["status"] == "completed"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"{}", b"[]", b"[1]", b'["a", 1, 1, 1, []]', b"\xff", b"[" * 9_999]
)
@pytest.mark.parametrize("verb", ["open", "sync"])
async def test_what_is_no_message_is_refused(site: Site, verb: str, body: bytes) -> None:
    node = await RemoteNode.online(site)
    answer = await node.call(verb, body)
    assert answer.told[:2] == (422, "invalid_input")
    assert answer.told[2]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"number": 1 << 70}, None),
        ({"number": -1}, "number"),
        ({"held": [0] * 30_000}, "held"),
        ({"session": "x"}, None),
    ],
)
async def test_a_message_out_of_bounds_is_refused(site: Site, change: dict[str, Any], field: str | None) -> None:
    node = await RemoteNode.online(site)
    up = {"session": node.session, "number": 2, "wait_ms": 0, "held": []} | change
    answer = await node.call("sync", [node.id, *up.values()])
    assert answer.told[:2] == (422, "invalid_input")
    assert field in (None, answer.told[2])


async def test_a_wrong_secret_in_the_message_opens_nothing(site: Site) -> None:
    node = await RemoteNode.join(site)
    answer = await node.call("open", OpenUp(node.id, "0" * 64))
    assert answer.told[:2] == (403, "not_allowed")
    assert not (await site.get(f"/api/v1/nodes/{node.text}")).json["is_connected"]


async def test_a_node_may_bring_more_than_others_may_send(site: Site) -> None:
    node = await RemoteNode.online(site)
    room = b" " * (12 << 20)
    answer = await node.call("sync", msgspec.json.encode(node.up()) + room)
    assert answer.status == 200, answer.content
    for data in (room * 3, _pieces(room, 3)):
        answer = await site.post(f"/api/v1/nodes/{node.text}:sync", data=data, token=node.secret)
        assert answer.told == (413, "too_large", "body")
        assert str(32 << 20) in answer.json["detail"]
    assert (await site.post("/api/v1/tasks", data=room)).told == (413, "too_large", "body")
    assert (await site.post("/api/v1/tasks:cancel", data=_pieces(room, 1))).told == (413, "too_large", "body")


async def _pieces(piece: bytes, count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield piece


async def test_a_master_that_stops_answers_parked_polls_at_once(site: Site) -> None:
    node = await RemoteNode.online(site)
    app = create_app(build_services(site.master))
    async with serving(app) as url:
        node.site = Site(site.master, url, site.tokens, site._session)
        await node.sync()
        parked = asyncio.create_task(node.sync(wait_ms=2_000))

        async def is_parked() -> bool:
            return bool(site.master.sync._pending_polls)

        await site.until(is_parked)
        app.shutdown.begin()
        down = await asyncio.wait_for(parked, PATIENCE_S)
        assert down == SyncDown(SyncVerdict.OK)
        began = asyncio.get_running_loop().time()
        assert (await node.sync(wait_ms=2_000)).verdict is SyncVerdict.OK
        assert asyncio.get_running_loop().time() - began < 1.5, "nobody is parked any more"


async def test_how_far_an_execution_is_shows_while_it_runs(site: Site) -> None:
    node, other = [await RemoteNode.online(site, name=name, node_type=name) for name in "ab"]
    task = await site.submit(node_type="a")
    one = await node.take()

    async def shown() -> tuple[Any, Any]:
        (execution,) = (await site.get(f"/api/v1/tasks/{task}/executions")).json["executions"]
        return (await site.task(task))["progress"], execution["progress"]

    assert await shown() == (None, None)
    await node.sync(progress=[ProgressBody(one.execution, msgspec.Raw(b'{"pages":12,"queued":30}'))])
    assert await shown() == ({"pages": 12, "queued": 30},) * 2
    for words in (b'{"pages":99}', b"[1]", b'"x"', b'{"note":"' + b"x" * 3_000 + b'"}'):
        told = [ProgressBody(one.execution, msgspec.Raw(words))]
        await (other if b"99" in words else node).sync(progress=told)
    assert await shown() == ({"pages": 12, "queued": 30},) * 2, "another's, or nothing to show"
    await node.finish(one)
    assert await shown() == (None, None)
    assert "progress" not in (await site.get("/api/v1/tasks")).json["tasks"][0]


async def test_more_progress_than_one_call_carries_is_refused(site: Site) -> None:
    node = await RemoteNode.online(site)
    up = node.up(progress=[ProgressBody(number, msgspec.Raw(b"{}")) for number in range(101)])
    assert (await node.call("sync", up)).told == (422, "invalid_input", "progress")
