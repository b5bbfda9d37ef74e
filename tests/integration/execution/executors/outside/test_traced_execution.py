"""Executions inside of spans: their errors, their requests, and the context that a user's code gets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlfleet.observe.tracing import Tracing, start_tracing
from testkit.patience import PATIENCE_S
from testkit.trace_receiver import TraceReceiver
from tests.integration.execution.executors.executors_kit import assignment, executing

pytestmark = pytest.mark.integration

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[TraceReceiver]:
    with TraceReceiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        yield receiver


@pytest.fixture
def tracing(receiver: TraceReceiver) -> Iterator[Tracing]:
    tracing = start_tracing("crawlfleet-worker", "here", "1")
    assert tracing is not None
    yield tracing
    tracing.close()


async def test_outcomes_are_the_status_of_spans(tmp_path: Path, receiver: TraceReceiver, tracing: Tracing) -> None:
    async with executing(tmp_path) as executor:
        executor.tracing = tracing
        await executor.run(assignment("echo", traceparent=f"00-{TRACE}-{SPAN}-01"))
        await executor.run(assignment("greet", {"name": 7}))
        stopped = asyncio.create_task(executor.run(assignment("sleep", {"seconds": 600}, timeout_s=900)))
        await asyncio.sleep(0)
        stopped.cancel()
        await asyncio.wait({stopped})
    spans = await asyncio.to_thread(receiver.wait_for, lambda spans: len(spans) >= 3, PATIENCE_S)
    good, bad, ended = (
        next(span for span in spans if span.name == f"process {name}") for name in ("echo", "greet", "sleep")
    )
    assert (good.is_error, good.links) == (False, [(TRACE, SPAN)])
    assert (bad.is_error, bad.attributes["error.type"], bad.links) == (True, "input", [])
    assert ended.is_error


async def test_nothing_is_traced_without_an_object(tmp_path: Path, receiver: TraceReceiver) -> None:
    async with executing(tmp_path) as executor:
        await executor.run(assignment("echo", traceparent=f"00-{TRACE}-{SPAN}-01"))
    assert receiver.spans == []
