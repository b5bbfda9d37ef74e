"""Spans as a real receiver gets them: names, kinds, parents, links and attributes; and nothing at all when off."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.observe.tracing import (
    MAX_LINKS,
    FetchFacts,
    Tracing,
    current_trace_id,
    is_sampled,
    mask_url,
    start_tracing,
)
from testkit.patience import PATIENCE_S
from testkit.trace_receiver import ReceivedSpan, TraceReceiver

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[TraceReceiver]:
    with TraceReceiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        yield receiver


def started() -> Tracing:
    tracing = start_tracing("crawlfleet-test", "here", "1.2.3")
    assert tracing is not None
    return tracing


def sent(receiver: TraceReceiver, tracing: Tracing, count: int) -> list[ReceivedSpan]:
    spans = receiver.wait_for(lambda spans: len(spans) >= count, PATIENCE_S)
    tracing.close()
    return spans


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "True"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_there_is_no_object_when_traces_are_off(env: Mapping[str, str]) -> None:
    assert start_tracing("crawlfleet-test", "here", "1.2.3", env) is None


def test_a_wrong_variable_switches_traces_off_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_BSP_MAX_QUEUE_SIZE": "many"}
    assert start_tracing("crawlfleet-test", "here", "1.2.3", env) is None


def test_nothing_of_the_library_is_loaded_while_traces_are_off() -> None:
    code = (
        "import sys; from crawlfleet.observe.tracing import start_tracing; import crawlfleet.bootstrap.worker;"
        "import crawlfleet.control.loops.dispatcher;"
        "assert start_tracing('a', 'b', 'c', {}) is None;"
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_submission_goes_on_with_the_trace_of_its_caller(receiver: TraceReceiver) -> None:
    tracing = started()
    assert current_trace_id() is None
    with tracing.start_send("default", 3, PARENT) as span:
        assert current_trace_id() == TRACE
        kept = span.traceparent
    assert current_trace_id() is None
    (one,) = sent(receiver, tracing, 1)
    assert (one.name, one.kind, one.trace_id, one.parent_id) == ("send default", "producer", TRACE, SPAN)
    assert kept == one.traceparent
    assert one.attributes["messaging.batch.message_count"] == 3
    assert one.attributes["messaging.destination.name"] == "default"
    assert one.resource["service.name"] == "crawlfleet-test"
    assert (one.resource["service.instance.id"], one.resource["service.version"]) == ("here", "1.2.3")


def test_a_caller_that_is_not_sampled_leaves_no_trace(receiver: TraceReceiver) -> None:
    tracing = started()
    with tracing.start_send("default", 1, f"00-{TRACE}-{SPAN}-00") as span:
        assert span.traceparent == ""
        assert current_trace_id() is None
    with tracing.start_send(None, 1, None):
        pass
    assert [span.name for span in sent(receiver, tracing, 1)] == ["send"]


MALFORMED = [
    "",
    "x",
    PARENT.upper(),
    PARENT + "-more",
    PARENT[:-1],
    f"ff-{TRACE}-{SPAN}-01",
    f"00-{'0' * 32}-{SPAN}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE}-{SPAN}-0g",
    f" {PARENT}",
    f"{PARENT}\n",
    "00-" + "é" * 32 + f"-{SPAN}-01",
]


@pytest.mark.parametrize("header", MALFORMED)
def test_a_malformed_header_is_ignored(receiver: TraceReceiver, header: str) -> None:
    assert not is_sampled(header)
    tracing = started()
    with tracing.start_send("default", 1, header):
        pass
    (one,) = sent(receiver, tracing, 1)
    assert one.parent_id == ""
    assert one.trace_id != TRACE


@given(st.text())
def test_any_header_is_taken(header: str) -> None:
    assert not is_sampled(header)
    assert is_sampled(PARENT)
    assert is_sampled(f"cc-{TRACE}-{SPAN}-09-what-is-new")


def test_an_execution_is_a_trace_of_its_own_with_a_link_and_its_fetches(receiver: TraceReceiver) -> None:
    tracing = started()
    now = time.time_ns()
    with tracing.start_process("web_crawl", "task-1", "exec-1", 2, PARENT) as span:
        fetches = [
            FetchFacts("https://ann:hunter2@shop.test:8443/a?token=hunter2hunter2&page=2", now, now + 5_000, 200, ""),
            FetchFacts("http://shop.test/b", now, now + 1, 503, ""),
            FetchFacts("http://shop.test/c", now, now + 1, 0, "timeout"),
            FetchFacts("http://[wrong/", now, now + 1, 0, "input"),
        ]
        tracing.add_fetches(span, fetches)
        span.fail("http", "GET http://ann:hunter2@shop.test/ failed")
    spans = sent(receiver, tracing, 5)
    execution = next(one for one in spans if one.name == "process web_crawl")
    assert (execution.kind, execution.parent_id, execution.links) == ("consumer", "", [(TRACE, SPAN)])
    assert execution.trace_id != TRACE
    assert (execution.is_error, execution.attributes["error.type"]) == (True, "http")
    assert execution.attributes["messaging.message.id"] == "task-1"
    good, bad, silent, _ = [one for one in spans if one.name == "GET"]
    assert {one.parent_id for one in (good, bad, silent)} == {execution.span_id}
    assert {one.kind for one in (good, bad, silent)} == {"client"}
    assert good.attributes == {
        "http.request.method": "GET",
        "url.full": "https://shop.test:8443/a?token=***&page=2",
        "server.address": "shop.test",
        "server.port": 8443,
        "http.response.status_code": 200,
    }
    assert (good.is_error, good.ended_ns - good.began_ns) == (False, 5_000)
    assert (bad.is_error, bad.attributes["error.type"], bad.attributes["server.port"]) == (True, "503", 80)
    assert (silent.is_error, silent.attributes["error.type"]) == (True, "timeout")
    assert "hunter2" not in json.dumps([one.attributes for one in spans])


def test_a_pass_links_as_many_submissions_as_a_span_may_have(receiver: TraceReceiver) -> None:
    tracing = started()
    with tracing.start_place() as span:
        span.link_tasks([f"00-{number:032x}-{SPAN}-01" for number in range(1, 201)], 200)
    (one,) = sent(receiver, tracing, 1)
    assert (one.name, len(one.links), one.attributes["messaging.batch.message_count"]) == ("place", MAX_LINKS, 200)


def test_an_error_inside_of_a_span_is_its_error(receiver: TraceReceiver) -> None:
    tracing = started()
    with pytest.raises(ValueError, match="wrong"), tracing.start_send("default", 1, None):
        raise ValueError("wrong")
    (one,) = sent(receiver, tracing, 1)
    assert (one.is_error, one.attributes["error.type"]) == (True, "ValueError")


async def test_the_trace_of_one_task_is_not_that_of_another(receiver: TraceReceiver) -> None:
    tracing = started()

    async def send() -> str | None:
        with tracing.start_send("default", 1, None):
            await asyncio.sleep(0)
            return current_trace_id()

    ids = await asyncio.gather(*(send() for _ in range(10)))
    assert len(set(ids)) == 10
    await asyncio.to_thread(tracing.close)


@given(st.text())
def test_any_url_can_be_masked(url: str) -> None:
    assert "hunter2hunter2" not in mask_url(f"http://ann:hunter2hunter2@host/{url}")
