"""The queue of spans: a collector that is away, slow or refuses loses spans, which are counted, and delays nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pytest
from structlog.testing import capture_logs

from crawlfleet.observe.tracing import CLOSE_S, Tracing, start_tracing
from testkit.patience import PATIENCE_S, promised
from testkit.servers.server import free_port
from testkit.trace_receiver import TraceReceiver

QUICK = {"OTEL_BSP_SCHEDULE_DELAY": "10", "OTEL_BSP_MAX_QUEUE_SIZE": "100", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "50"}


@pytest.fixture
def receiver() -> Iterator[TraceReceiver]:
    with TraceReceiver() as receiver:
        yield receiver


def start(monkeypatch: pytest.MonkeyPatch, url: str, more: Mapping[str, str] = QUICK) -> Tracing:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_TIMEOUT": "1", **more}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    tracing = start_tracing("crawlfleet-test", "here", "1")
    assert tracing is not None
    return tracing


def make_spans(tracing: Tracing, count: int) -> float:
    began = time.monotonic()
    for _ in range(count):
        with tracing.start_send("default", 1, None):
            pass
    return time.monotonic() - began


def until_settled(tracing: Tracing, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while tracing.queue.delivered + tracing.queue.dropped < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_all_spans_are_delivered_in_batches(receiver: TraceReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    tracing = start(monkeypatch, receiver.url, {"OTEL_BSP_SCHEDULE_DELAY": "10"})
    make_spans(tracing, 1_000)
    until_settled(tracing, 1_000)
    assert (tracing.queue.delivered, tracing.queue.dropped, len(receiver.spans)) == (1_000, 0, 1_000)
    tracing.close()


def test_a_collector_that_hangs_fills_the_queue_and_the_rest_is_counted(
    receiver: TraceReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.gate.clear()
    tracing = start(monkeypatch, receiver.url)
    took_s = make_spans(tracing, 1_000)
    assert took_s < promised(1.0)
    # At most one batch is under way and one queue is full.
    assert 1_000 - 150 <= tracing.queue.dropped <= 1_000 - 100
    receiver.gate.set()
    until_settled(tracing, 1_000)
    tracing.close()


def test_an_endpoint_that_is_away_loses_spans_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with capture_logs() as lines:
        tracing = start(monkeypatch, f"http://127.0.0.1:{free_port()}")
        make_spans(tracing, 60)
        until_settled(tracing, 60)
        make_spans(tracing, 60)
        until_settled(tracing, 120)
        tracing.close()
    assert (tracing.queue.delivered, tracing.queue.dropped) == (0, 120)
    assert [line["event"] for line in lines] == ["spans_dropped"]


def test_a_refusal_is_counted(receiver: TraceReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver.status = 400
    tracing = start(monkeypatch, receiver.url)
    make_spans(tracing, 20)
    until_settled(tracing, 20)
    assert tracing.queue.dropped == 20
    receiver.status = 200
    make_spans(tracing, 5)
    until_settled(tracing, 25)
    assert tracing.queue.delivered == 5
    tracing.close()


def test_the_end_of_a_process_does_not_wait_for_a_collector_that_hangs(
    receiver: TraceReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.gate.clear()
    tracing = start(monkeypatch, receiver.url, {**QUICK, "OTEL_EXPORTER_OTLP_TIMEOUT": "60"})
    make_spans(tracing, 60)
    began = time.monotonic()
    tracing.close()
    assert time.monotonic() - began < CLOSE_S + promised(1.0)
    make_spans(tracing, 1)


def test_what_is_left_is_sent_at_the_end(receiver: TraceReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    tracing = start(monkeypatch, receiver.url, {"OTEL_BSP_SCHEDULE_DELAY": "60000"})
    make_spans(tracing, 7)
    tracing.close()
    assert len(receiver.spans) == 7


def test_spans_that_are_not_sampled_are_no_loss(receiver: TraceReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    tracing = start(monkeypatch, receiver.url, {**QUICK, "OTEL_TRACES_SAMPLER": "always_off"})
    make_spans(tracing, 500)
    tracing.close()
    assert (tracing.queue.delivered, tracing.queue.dropped, receiver.spans) == (0, 0, [])
