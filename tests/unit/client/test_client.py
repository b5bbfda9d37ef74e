"""The client against a small server that behaves as told: retries, keys, errors, streams."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from aiohttp import web

from crawlfleet.client import ApiError, AsyncClient, Client, NoEndpoint, RetryPolicy, Unreachable, WaitTimeout
from crawlfleet.client._generated.models import AcceptedView, RefusedView, TaskView
from crawlfleet.client.nouns.tasks import BATCH_TASKS
from crawlfleet.client.transport import http
from crawlfleet.client.transport.endpoint import endpoint_from_environment, find_endpoint
from crawlfleet.client.transport.retry import may_repeat, parse_retry_after, retry_pauses
from crawlfleet.client.transport.stream_parsers import EventParser
from crawlfleet.client.types import BatchItem
from crawlfleet.errors import InvalidInput

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
QUICK = RetryPolicy(attempts=4, base_s=0.001, cap_s=0.002)
ACCEPTED = {"id": "task-0000000000000001", "status": "pending", "created_at": "2026-01-01T00:00:00Z", "priority": 5}


@asynccontextmanager
async def served(answer: Answer) -> AsyncIterator[AsyncClient]:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await answer(request)

    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{tail:.*}", handle)
    server = web.AppRunner(app, shutdown_timeout=0.05)
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0)
    await site.start()
    host, port = server.addresses[0][:2]
    try:
        async with AsyncClient(f"http://{host}:{port}", "secret", retry=QUICK) as client:
            yield client
    finally:
        await server.cleanup()


class Script:
    """Answers in turn; the last one again and again. Remembers what was asked."""

    def __init__(self, *answers: web.Response | Callable[[], web.Response] | None) -> None:
        self._answers = answers
        self.keys: list[str | None] = []
        self.requests: list[str] = []
        self.bodies: list[bytes] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        number = min(len(self.requests), len(self._answers) - 1)
        self.keys.append(request.headers.get("Idempotency-Key"))
        self.requests.append(f"{request.method} {request.path_qs}")
        self.bodies.append(await request.read())
        answer = self._answers[number]
        if answer is None:
            # The request was taken, and nobody will ever hear of it.
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return answer() if callable(answer) else answer


def accepted() -> web.Response:
    return web.json_response(ACCEPTED, status=201)


def error(status: int, code: str = "some_code", **headers: str) -> Callable[[], web.Response]:
    problem = {
        "type": f"urn:crawlfleet:error:{code}",
        "status": status,
        "code": code,
        "detail": "went wrong",
        "field": "priority",
        "hint": "do better",
    }
    return lambda: web.json_response(problem, status=status, headers=headers)


async def test_a_lost_answer_is_asked_for_again_under_the_same_key() -> None:
    script = Script(None, error(503), error(429, **{"Retry-After": "0"}), accepted)
    async with served(script) as client:
        task = await client.submit("echo", {"a": 1}, priority=7)
    assert task.id == ACCEPTED["id"]
    assert len(script.keys) == 4
    assert len(set(script.keys)) == 1 and script.keys[0]


def foreign(status: int, **headers: str) -> Callable[[], web.Response]:
    return lambda: web.Response(text="<html>not here</html>", content_type="text/html", status=status, headers=headers)


@pytest.mark.parametrize("status", [200, 302, 401, 403, 404, 502])
async def test_another_server_at_the_address_for_a_moment_is_like_no_answer(status: int) -> None:
    script = Script(foreign(status, Location="/login"), foreign(status, Location="/login"), accepted)
    async with served(script) as client:
        assert (await client.submit("echo")).id == ACCEPTED["id"]
    assert len(set(script.keys)) == 1


@pytest.mark.parametrize("status", [200, 302, 404])
async def test_another_server_that_stays_is_told_as_what_it_is(status: int) -> None:
    async with served(Script(foreign(status, Location="/login"))) as client:
        with pytest.raises(ApiError) as raised:
            await client.get("task-0000000000000001")
        assert (raised.value.status, raised.value.is_foreign) == (status, True)
        assert "is the address right" in str(raised.value.hint)
        with pytest.raises(ApiError):
            await client.remove_node("node-0000000000000001")


async def test_a_server_that_does_not_speak_http_is_no_master() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(b"this is no HTTP\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with (
        server,
        AsyncClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "s", retry=QUICK) as client,
    ):
        with pytest.raises(Unreachable):
            await client.get("task-0000000000000001")


async def test_an_answer_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_BYTES", 1 << 20)

    async def pour(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        try:
            while True:
                await answer.write(b"x" * 65_536)
        except ConnectionError:
            return answer

    async with served(pour) as client:
        with pytest.raises(Unreachable, match="more than"):
            await client.get("task-0000000000000001")


async def test_each_submit_has_a_key_of_its_own_unless_it_is_given() -> None:
    script = Script(accepted)
    async with served(script) as client:
        await client.submit("echo")
        await client.submit("echo")
        await client.submit("echo", idempotency_key="mine")
        # An unset variable of somebody's script: the master refuses it, rather than that each run makes another task.
        await client.submit("echo", idempotency_key="")
    assert len(set(script.keys)) == 4
    assert script.keys[2:] == ["mine", ""]


async def test_one_id_or_url_is_a_list_of_one() -> None:
    script = Script(error(404, "not_found"))
    async with served(script) as client:
        with pytest.raises(ApiError):
            await client.wait("task-0000000000000001")
        with pytest.raises(ApiError):
            await client.crawl("http://shop.test/", members=2)
    assert all("task-0000000000000001" in request or "/groups" in request for request in script.requests)
    assert msgspec.json.decode(script.bodies[-1])["task"]["parameters"] == {"urls": ["http://shop.test/"]}


async def test_the_urls_among_the_parameters_of_a_crawl_are_started_from_as_well() -> None:
    script = Script(error(404, "not_found"))
    async with served(script) as client:
        for given in (["http://b.test/"], "nonsense"):
            with pytest.raises(ApiError):
                await client.crawl("http://a.test/", {"urls": given, "url": "http://c.test/"}, members=2)
    good, bad = (msgspec.json.decode(body)["task"]["parameters"] for body in script.bodies)
    assert good == {"urls": ["http://a.test/", "http://b.test/"], "url": "http://c.test/"}
    assert bad["urls"] == "nonsense", "which the master refuses by its name"


async def test_an_error_of_ours_is_not_sent_again() -> None:
    script = Script(error(422, "invalid_input"))
    async with served(script) as client:
        with pytest.raises(ApiError) as caught:
            await client.submit("echo", priority=11)
    found = caught.value
    assert (found.status, found.error_code, found.field, found.hint) == (422, "invalid_input", "priority", "do better")
    assert str(found) == "priority: went wrong"
    assert len(script.requests) == 1


async def test_what_may_not_be_done_twice_is_not_sent_twice() -> None:
    script = Script(None)
    async with served(script) as client:
        with pytest.raises(Unreachable):
            await client.retry("task-1")
    assert len(script.requests) == 1
    script = Script(error(503))
    async with served(script) as client:
        with pytest.raises(ApiError):
            await client.cancel("task-1")
    assert len(script.requests) == 1


async def test_what_was_refused_for_now_is_always_sent_again() -> None:
    changed = {"id": "task-1", "status": "cancelled"}
    script = Script(error(429), lambda: web.json_response(changed))
    async with served(script) as client:
        assert (await client.cancel("task-1")).status == "cancelled"


async def test_the_last_error_is_told_when_the_attempts_are_used_up() -> None:
    script = Script(error(503, "store_unavailable"))
    async with served(script) as client:
        with pytest.raises(ApiError, match="went wrong") as caught:
            await client.stats()
    assert caught.value.error_code == "store_unavailable"
    assert len(script.requests) == QUICK.attempts


async def test_a_search_that_takes_too_long_is_not_repeated() -> None:
    script = Script(error(503, "read_too_long"))
    async with served(script) as client:
        with pytest.raises(ApiError):
            await client.page(q="example")
    assert len(script.requests) == 1


async def test_a_server_that_asks_for_a_long_wait_is_not_waited_for() -> None:
    script = Script(error(429, **{"Retry-After": "3600"}))
    async with served(script) as client:
        with pytest.raises(ApiError):
            await client.stats()
    assert len(script.requests) == 1


async def test_an_answer_that_is_no_problem_document_is_told_by_its_status() -> None:
    async with served(Script(lambda: web.Response(status=418, text="<html>"))) as client:
        with pytest.raises(ApiError, match="the server answered 418"):
            await client.stats()


async def test_an_answer_that_cannot_be_read_is_told() -> None:
    async with served(Script(lambda: web.json_response({"unexpected": 1}))) as client:
        with pytest.raises(ApiError, match="cannot be read") as caught:
            await client.stats()
    assert caught.value.error_code == "unreadable_answer"


async def test_nobody_there_is_unreachable() -> None:
    async with AsyncClient("http://127.0.0.1:9", "secret", retry=QUICK) as client:
        with pytest.raises(Unreachable, match=r"no master answers at http://127\.0\.0\.1:9"):
            await client.stats()


async def test_names_in_paths_and_queries_are_quoted() -> None:
    script = Script(error(404))
    async with served(script) as client:
        with pytest.raises(ApiError):
            await client.node("a b/../c?d")
        with pytest.raises(ApiError):
            await client.page(q="a&b=c", status="failed,timeout")
    assert script.requests[0] == "GET /api/v1/nodes/a%20b%2F..%2Fc%3Fd"
    assert "q=a%26b%3Dc" in script.requests[1]


async def test_half_a_character_is_an_error_of_ours_and_nothing_is_sent() -> None:
    script = Script(web.json_response(ACCEPTED))
    async with served(script) as client:
        with pytest.raises(InvalidInput, match="no valid Unicode"):
            await client.submit("echo", {"text": "a\udcff"})
        with pytest.raises(InvalidInput, match="no valid Unicode"):
            await client.get("task-\udcff")
    assert script.requests == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
async def test_a_budget_that_is_no_number_is_refused_and_not_sent_as_none(value: float) -> None:
    script = Script(web.json_response({}))
    async with served(script) as client:
        with pytest.raises(InvalidInput, match="rate: "):
            await client.put_host("shop.example", rate=value)
        with pytest.raises(InvalidInput, match="delay_s: "):
            await client.put_host("shop.example", delay_s=value)
    assert script.requests == []


async def test_a_batch_in_any_number_goes_in_pieces() -> None:
    told: list[tuple[int, int]] = []
    total = BATCH_TASKS + 5

    async def answer(request: web.Request) -> web.StreamResponse:
        tasks = (await request.json())["tasks"]
        refused = {"error": {"code": "unknown_type", "detail": "no", "field": "task_type"}}
        return web.json_response({"tasks": [refused if task["task_type"] == "bad" else ACCEPTED for task in tasks]})

    async with served(answer) as client:
        tasks = [{"task_type": "bad" if number == BATCH_TASKS else "echo"} for number in range(total)]
        answers: list[BatchItem] = list(
            await client.submit_batch(tasks, "each", on_progress=lambda *at: told.append(at))
        )
    assert len(answers) == total
    assert told == [(BATCH_TASKS, total), (total, total)]
    assert [isinstance(one, RefusedView) for one in answers].index(True) == BATCH_TASKS
    assert isinstance(answers[0], AcceptedView)


async def test_a_large_batch_goes_in_pieces_by_size_too() -> None:
    sizes: list[int] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        sizes.append(len(body))
        return web.json_response({"tasks": [ACCEPTED] * body.count(b"task_type")})

    async with served(answer) as client:
        tasks = [{"task_type": "echo", "parameters": {"text": "x" * 1_000_000}}] * 20
        assert len(await client.submit_batch(tasks, "each")) == 20
    assert len(sizes) > 1
    assert max(sizes) < 10_000_000


async def test_an_empty_batch_asks_nothing() -> None:
    script = Script(accepted)
    async with served(script) as client:
        assert list(await client.submit_batch([])) == []
        assert list(await client.submit_batch([], "each")) == []
    assert not script.requests


async def test_events_go_on_where_the_stream_broke() -> None:
    seen: list[str | None] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Last-Event-ID"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        number = len(seen)
        event = f'{{"number": {number}, "at": "2026-01-01T00:00:00Z", "kind": "task.ready", "data": {{}}}}'
        await response.write(f": hello\nid: {number}\ndata: {event}\n\n".encode())
        return response

    async with served(answer) as client:
        numbers = []
        async for event in client.events(kinds=["task."]):
            numbers.append(event.number)
            if len(numbers) == 3:
                break
    assert numbers == [1, 2, 3]
    assert seen[:3] == [None, "1", "2"]


async def test_a_stream_without_a_master_is_given_up() -> None:
    async with AsyncClient("http://127.0.0.1:9", "secret", retry=QUICK) as client:
        with pytest.raises(Unreachable):
            async for _ in client.events(give_up_s=0.1):
                pass


async def test_a_stream_that_is_refused_is_an_error() -> None:
    async with served(Script(error(403, "not_allowed"))) as client:
        with pytest.raises(ApiError):
            async for _ in client.events():
                pass


def test_the_parser_keeps_to_the_standard() -> None:
    parser = EventParser()
    lines = [": a comment", "id: 7", "event: x", "data: one", "data:two", "unknown: y", "retry: 1500", ""]
    (event,) = [found for line in lines if (found := parser.feed(line))]
    assert (event.id, event.event, event.data) == ("7", "x", "one\ntwo")
    assert parser.retry_s == 1.5
    assert parser.feed("") is None
    assert parser.feed("id: 8") is parser.feed("") is None
    assert parser.last_id == "8"


def test_pauses_grow_and_are_never_the_same_for_all() -> None:
    policy = RetryPolicy(attempts=5, base_s=1.0, cap_s=3.0)
    found = list(retry_pauses(policy, Random(1)))
    assert len(found) == 4
    assert all(0 <= pause <= bound for pause, bound in zip(found, (1, 2, 3, 3), strict=True))
    assert found != list(retry_pauses(policy, Random(2)))


def test_which_answers_are_worth_another_try() -> None:
    assert may_repeat(429, is_repeatable=False)
    assert may_repeat(503, is_repeatable=True) and not may_repeat(503, is_repeatable=False)
    assert not may_repeat(500, is_repeatable=True) and not may_repeat(409, is_repeatable=True)
    assert [parse_retry_after(text) for text in ("2", None, "soon", "-1")] == [2.0, 0.0, 0.0, 0.0]


def test_where_an_endpoint_comes_from(tmp_path: Path) -> None:
    with pytest.raises(NoEndpoint, match=str(tmp_path)) as caught:
        find_endpoint(None, "t", tmp_path)
    assert "CRAWLFLEET_URL" in caught.value.hint
    (tmp_path / "address").write_text("http://h:1/\n")
    (tmp_path / "admin.token").write_text("secret\n")
    found = endpoint_from_environment({"CRAWLFLEET_DATA_DIR": str(tmp_path)})
    assert (found.url, found.token) == ("http://h:1", "secret")
    assert "secret" not in repr(found)
    given = endpoint_from_environment(
        {"CRAWLFLEET_DATA_DIR": str(tmp_path), "CRAWLFLEET_URL": "http://x:2", "CRAWLFLEET_TOKEN": "t"}
    )
    assert (given.url, given.token) == ("http://x:2", "t")
    (tmp_path / "admin.token").write_text("")
    with pytest.raises(NoEndpoint, match="is empty"):
        find_endpoint("http://h:1", None, tmp_path)


async def test_a_few_tasks_are_waited_for_with_long_polls() -> None:
    calls: list[tuple[str, str]] = []
    views = {task: _view(task) for task in ("task-0000000000000001", "task-0000000000000002")}

    async def answer(request: web.Request) -> web.StreamResponse:
        task = request.path.rpartition("/")[2]
        calls.append((task, request.query["wait_s"]))
        asked = sum(one == task for one, _ in calls)
        # A master about to stop answers at once; one that is away is asked again.
        if asked == 2:
            return web.json_response({"code": "store_unavailable"}, status=503)
        return web.json_response(views[task] | {"status": "completed" if asked == 3 else "processing"})

    told: list[tuple[int, int]] = []
    async with served(answer) as client:
        ended = await client.wait(views, 30, lambda *at: told.append(at))
    assert [task.status for task in ended] == ["completed", "completed"]
    assert sorted(calls) == [(task, "30") for task in views for _ in range(3)]
    assert told == [(1, 2), (2, 2)]


async def test_a_wait_for_what_is_not_there_says_so() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"code": "not_found", "detail": "no task"}, status=404)

    async with served(answer) as client:
        with pytest.raises(ApiError) as caught:
            await client.wait(["task-0000000000000001"], 30)
    assert caught.value.error_code == "not_found"


async def test_a_wait_begins_only_with_a_master() -> None:
    async with served(Script(accepted)) as client:
        url = client.url
    async with AsyncClient(url, "secret", retry=QUICK) as client:
        with pytest.raises(Unreachable):
            await client.wait(["task-0000000000000001"], 30)


def _view(task: str) -> dict[str, Any]:
    """With every field that one has."""
    said: dict[str, Any] = {field.name: None for field in msgspec.structs.fields(TaskView)}
    now = "2026-01-01T00:00:00Z"
    return said | {
        "id": task,
        "task_type": "echo",
        "parameters": {},
        "priority": 5,
        "min_resources": {},
        "capabilities": {},
        "require_region": False,
        "content_features": {},
        "categories": [],
        "queue": "default",
        "depends_on": [],
        "timeout_s": 60,
        "retry": {},
        "status": "pending",
        "created_at": now,
        "updated_at": now,
        "retry_count": 0,
        "max_retries": 3,
        "losses": 0,
        "round": 1,
        "preemptible": False,
    }


async def test_a_token_whose_answer_was_lost_gets_another_secret() -> None:
    calls: list[str] = []
    made = {"token": "t" * 64, "id": 7, "role": "viewer", "name": "v", "expires_at": None, "uses_left": None}

    async def answer(request: web.Request) -> web.StreamResponse:
        calls.append(request.path)
        if request.path.endswith(":rotate"):
            return web.json_response(made)
        problem = {"type": "urn:crawlfleet:error:token_already_made", "code": "token_already_made", "token_id": 7}
        return web.json_response(problem, status=409)

    async with served(answer) as client:
        assert (await client.create_token("viewer")).token == made["token"]
    assert calls == ["/api/v1/tokens", "/api/v1/tokens/7:rotate"]


async def test_waiting_gives_up_in_time() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/events"):
            return web.json_response({"events": [], "next_after": 0, "last": 0})
        await asyncio.Event().wait()
        raise AssertionError

    async with served(answer) as client:
        with pytest.raises(WaitTimeout) as caught:
            await client.wait(["task-0000000000000001"], timeout=0.2)
    assert caught.value.open_ids == ("task-0000000000000001",)


async def test_the_blocking_face_needs_no_event_loop_and_leaves_no_thread() -> None:
    script = Script(accepted)
    async with served(script) as client:
        url = client.url

        def use() -> str:
            with Client(url, "secret", retry=QUICK) as blocking:
                return blocking.submit("echo").id

        assert await asyncio.to_thread(use) == ACCEPTED["id"]
    assert not [thread for thread in threading.enumerate() if thread.name == "crawlfleet client"]


def interrupt_when_waiting(thread: int) -> None:
    """Sends Ctrl-C to a thread once it waits for another one."""
    while sys._current_frames()[thread].f_code is not threading.Condition.wait.__code__:
        time.sleep(0.001)
    signal.pthread_kill(thread, signal.SIGINT)


def test_ctrl_c_while_it_waits_for_the_next_of_many_ends_the_stream_and_is_heard() -> None:
    is_ended, main = threading.Event(), threading.get_ident()

    async def endless() -> AsyncIterator[int]:
        try:
            # What interrupts this thread comes while the other one waits for the next.
            threading.Thread(target=interrupt_when_waiting, args=[main], daemon=True).start()
            await asyncio.sleep(3_600)
            yield 1
        finally:
            await asyncio.sleep(0.01)
            is_ended.set()

    with Client("http://127.0.0.1:9", "a-token") as client, pytest.raises(KeyboardInterrupt):
        list(client._iterate_stream(endless()))
    assert is_ended.is_set()


def test_a_stream_that_nobody_reads_on_ends_without_making_anybody_wait() -> None:
    """The interpreter closes such a stream where exceptions are thrown away: a Ctrl-C heard there would be lost."""
    may_end, is_ended = threading.Event(), threading.Event()

    async def many() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.to_thread(may_end.wait, 10)
            is_ended.set()

    with Client("http://127.0.0.1:9", "a-token") as client:
        for _ in client._iterate_stream(many()):
            break
        assert not is_ended.is_set()
        may_end.set()
    assert is_ended.is_set()


def test_ctrl_c_that_does_not_wake_whoever_waits_is_heard_all_the_same() -> None:
    async def long() -> None:
        # Handled by another thread: as one that comes just before the main thread begins to wait, it wakes nobody.
        threading.Timer(0.05, signal.pthread_kill, [threading.get_ident(), signal.SIGINT]).start()
        await asyncio.sleep(30)

    began = time.monotonic()
    with Client("http://127.0.0.1:9", "a-token") as client, pytest.raises(KeyboardInterrupt):
        client._run_call(long())
    assert time.monotonic() - began < 20


def test_a_call_that_takes_too_long_by_its_own_account_says_so() -> None:
    async def late() -> None:
        raise TimeoutError("late")

    with Client("http://127.0.0.1:9", "a-token") as client, pytest.raises(TimeoutError, match="late"):
        client._run_call(late())
