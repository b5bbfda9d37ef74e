"""Traces of a real installation, from the submission to the requests to target hosts, at a real OTLP receiver."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from testkit.patience import PATIENCE_S
from testkit.servers.server import free_port
from testkit.site import site_process
from testkit.trace_receiver import ReceivedSpan, TraceReceiver
from tests.processes.fleet import Fleet, echo, fleet

pytestmark = [pytest.mark.integration, pytest.mark.slow]

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


async def submit(running: Fleet, body: object, traceparent: str | None) -> list[str]:
    headers = {} if traceparent is None else {"traceparent": traceparent}
    answer = await running.call("POST", "/api/v1/tasks:batch", json={"tasks": body}, headers=headers)
    assert answer.status == 200, answer.body
    ids = [task["id"] for task in answer.json["tasks"]]
    running.note(ids)
    return ids


def turn_on(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-secret=hunter2hunter2")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")


async def test_a_task_is_followed_from_its_submission_to_its_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TraceReceiver() as receiver:
        turn_on(monkeypatch, receiver.url)
        async with site_process("--products", "300") as site, fleet(tmp_path) as running:
            await running.start(
                "--allow-host", site.host, "--executors", "tests.processes.traced_executor", workers=1, slots=4
            )
            await running.client.put_host(site.host, rate=1_000, concurrency=100)
            pages = {"url": f"{site.url}/", "depth": 3, "max_pages": 130, "respect_robots": False}
            crawl = {"task_type": "web_crawl", "parameters": pages, "queue": "default"}
            ids = await submit(running, [crawl, {"task_type": "show_trace"}], f"00-{TRACE}-{SPAN}-01")
            (quiet,) = await submit(running, [echo(1)], f"00-{TRACE}-{SPAN}-00")
            (odd,) = await submit(running, [echo(2)], "00-not-a-context")
            await running.until_status([*ids, quiet, odd], "completed")
            shown = (await running.client.get(ids[1])).result
            assert await running.verdict() == []
        spans = receiver.spans
    _check_submission(spans)
    send = next(span for span in spans if span.name == "send default" and span.trace_id == TRACE)
    executions = {span.attributes["messaging.message.id"]: span for span in spans if span.name.startswith("process ")}
    assert executions.keys() == {*ids, quiet, odd}
    # Each is a trace of its own; those that a sampled caller submitted are linked to it.
    assert len({span.trace_id for span in executions.values()} | {TRACE}) == 5
    assert [executions[task].links for task in ids] == [[(TRACE, send.span_id)]] * 2
    assert executions[quiet].links == []
    placements = [span for span in spans if span.name == "place"]
    assert sum(span.attributes["messaging.batch.message_count"] for span in placements) == 4
    assert sum((TRACE, send.span_id) in span.links for span in placements) >= 1
    fetches = [span for span in spans if span.name == "GET"]
    assert len(fetches) == 100
    assert {span.parent_id for span in fetches} == {executions[ids[0]].span_id}
    assert all(span.attributes["url.full"].startswith(site.url) for span in fetches)
    assert shown is not None
    assert shown.data == {"traceparent": executions[ids[1]].traceparent, "others": []}
    assert "hunter2" not in running.logs()


def _check_submission(spans: list[ReceivedSpan]) -> None:
    sends = [span for span in spans if span.name == "send default"]
    # One for a batch; none for the caller that is not sampled; a malformed header begins a trace of its own.
    assert sorted(span.attributes["messaging.batch.message_count"] for span in sends) == [1, 2]
    followed = next(span for span in sends if span.trace_id == TRACE)
    assert (followed.parent_id, followed.kind) == (SPAN, "producer")
    assert followed.resource["service.name"] == "crawlfleet-master"


async def test_a_collector_that_is_away_slows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn_on(monkeypatch, f"http://127.0.0.1:{free_port()}")
    async with fleet(tmp_path) as running:
        await running.start(workers=1, slots=8)
        ids = await submit(running, [echo(number) for number in range(300)], f"00-{TRACE}-{SPAN}-01")
        async with asyncio.timeout(PATIENCE_S):
            done = await running.client.wait(ids, timeout=PATIENCE_S)
        assert {task.status for task in done} == {"completed"}
        await running.until(lambda: running.has_said("spans_dropped"), "lost spans are not told")
        assert await running.verdict() == []
