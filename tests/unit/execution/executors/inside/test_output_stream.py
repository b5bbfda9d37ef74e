"""Items and log lines inside an executor's process: within a window, whole, and told when dropped."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from crawlfleet.execution.executors.inside import output_stream as streams
from crawlfleet.execution.executors.inside.output_stream import OutputStream, encode_json
from crawlfleet.execution.executors.protocol import (
    ITEM_BYTES,
    Items,
    LogLines,
    MasterRequest,
    ProgressFigures,
    WarcRecords,
)
from crawlfleet.execution.sdk import TaskContext, TaskError, executor, run_executor
from testkit.patience import PATIENCE_S


class Sent(list[Items | LogLines | WarcRecords | ProgressFigures | MasterRequest]):
    def __call__(self, message: Items | LogLines | WarcRecords | ProgressFigures | MasterRequest, _size: int) -> None:
        self.append(message)

    def items(self) -> list[Any]:
        return [json.loads(line) for one in self if isinstance(one, Items) for line in one.lines.splitlines()]

    def figures(self) -> list[Any]:
        return [json.loads(one.figures) for one in self if isinstance(one, ProgressFigures)]

    def log(self) -> list[str]:
        return [
            json.loads(line)["message"] for one in self if isinstance(one, LogLines) for line in one.lines.splitlines()
        ]


async def test_small_ones_are_gathered_and_go_out_soon() -> None:
    sent = Sent()
    stream = OutputStream(1, sent, 1 << 20)
    for number in range(10):
        await stream.item({"number": number})
    assert not sent
    async with asyncio.timeout(PATIENCE_S):
        while not sent:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert len(sent) == 1
    assert [item["number"] for item in sent.items()] == list(range(10))


async def test_what_was_streamed_goes_before_a_word_with_the_master() -> None:
    sent = Sent()
    stream = OutputStream(1, sent, 1 << 20)
    await stream.item({"number": 1})
    asking = asyncio.create_task(stream.report_crawl(b"up"))
    await asyncio.sleep(0)
    assert [type(one) for one in sent] == [Items, MasterRequest]
    stream.set_answer(b"down")
    assert await asking == b"down"
    stream.set_answer(b"late")


async def test_without_credit_an_item_waits_for_room() -> None:
    sent = Sent()
    stream = OutputStream(1, sent, 1_000)
    await stream.item({"text": "x" * 900})
    waiting = asyncio.create_task(stream.item({"text": "y" * 500}))
    async with asyncio.timeout(PATIENCE_S):
        while not sent:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert not waiting.done()
    assert len(sent.items()) == 1, "what fills the window is on its way"
    assert isinstance(sent[0], Items)
    stream.add_credit(len(sent[0].lines))
    await asyncio.wait_for(waiting, PATIENCE_S)
    stream.flush()
    assert len(sent.items()) == 2


async def test_one_larger_than_the_window_passes_alone() -> None:
    sent = Sent()
    stream = OutputStream(1, sent, 1_000)
    await asyncio.wait_for(stream.item({"text": "x" * 50_000}), 1)
    stream.flush()
    assert len(sent.items()) == 1


@pytest.mark.parametrize("item", [{"x": object()}, ["not a mapping"], {"x": "y" * ITEM_BYTES}, {"x": "\ud800"}])
async def test_what_is_no_item_is_the_executors_mistake(item: Any) -> None:
    with pytest.raises(TaskError) as raised:
        await OutputStream(1, Sent(), 1 << 20).item(item)
    assert (raised.value.error, raised.value.permanent) == ("input", True)


async def test_lines_beyond_the_bound_are_dropped_and_counted() -> None:
    sent = Sent()
    stream = OutputStream(1, sent, 1_000)
    for number in range(100):
        stream.log(f"line {number} {'x' * 100}", "info")
    stream.flush()
    kept = len(sent.log())
    assert 10 < kept < 30
    stream.add_credit(10_000)
    stream.log("again", "info")
    stream.flush()
    assert sent.log()[kept:] == ["again", f"{100 - kept} lines dropped: they came too fast"]


async def test_lines_from_other_threads_arrive() -> None:
    sent = Sent()
    stream = OutputStream(1, sent, 1 << 20)
    thread = threading.Thread(target=stream.log, args=("from a thread", "warning"))
    thread.start()
    await asyncio.to_thread(thread.join)
    await asyncio.sleep(0)
    stream.flush()
    assert sent.log() == ["from a thread"]


async def test_a_line_is_json_whatever_is_in_it() -> None:
    sent = Sent()
    stream = OutputStream(1, sent, 1 << 20)
    stream.log("unpaired \ud800, NUL \x00, and much " + "x" * 20_000, "info")
    stream.flush()
    assert sent.log()[0].startswith("unpaired ?, NUL \x00")
    assert len(sent.log()[0]) < 10_000


async def test_figures_are_kept_to_the_last_and_bounded() -> None:
    stream = OutputStream(1, Sent(), 1 << 20)
    assert stream.encode_metrics() == b""
    for number in range(200):
        stream.progress({"pages": number, f"figure_{number}": number})
    figures = json.loads(stream.encode_metrics())
    assert figures["pages"] == 199
    assert len(figures) == 100
    stream.progress({"pages": object()})
    assert stream.encode_metrics() == b""


async def test_a_plain_function_may_not_be_told_to_await() -> None:
    @executor("wrong")
    async def wrong(context: TaskContext) -> None:
        context.emit({"a": 1})

    context = TaskContext(
        OutputStream(1, Sent(), 1_000), task_id="t", execution_id="e", task_type="wrong", parameters={}
    )
    with pytest.raises(RuntimeError, match="await item"):
        await run_executor(wrong, context)


def test_what_is_not_json_is_said_to_be() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        encode_json({1, object()})


async def test_figures_are_told_now_and_then_when_they_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PROGRESS_S", 0.05)
    sent = Sent()
    stream = OutputStream(1, sent, 1_000)

    async def told(pages: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not sent.figures() or sent.figures()[-1]["pages"] != pages:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    for pages in range(10):
        stream.progress({"pages": pages})
    assert not sent, "not at once"
    await told(9)
    stream.progress({"pages": 9})
    await asyncio.sleep(0.1)
    assert sent.figures() == [{"pages": 9}]
    thread = threading.Thread(target=stream.progress, args=({"pages": 10},))
    thread.start()
    await told(10)
    stream.progress({"pages": 11, "note": "x" * 5_000})
    await asyncio.sleep(0.1)
    assert len(sent.figures()) == 2, "too much to tell"


async def test_short_work_tells_nothing_but_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PROGRESS_S", 0.05)
    sent = Sent()
    stream = OutputStream(1, sent, 1_000)
    stream.progress({"pages": 1})
    stream.close()
    await asyncio.sleep(0.1)
    assert not sent
    assert json.loads(stream.encode_metrics()) == {"pages": 1}


async def test_records_wait_for_room_like_items_and_go_out_whole() -> None:
    sent = Sent()
    stream = OutputStream(1, sent, 1_000)
    await stream.record(b"r" * 900)
    waiting = asyncio.create_task(stream.record(b"s" * 5_000))
    while not sent:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert not waiting.done()
    stream.add_credit(900)
    await asyncio.wait_for(waiting, 5)
    stream.flush()
    assert sent == [WarcRecords(1, b"r" * 900), WarcRecords(1, b"s" * 5_000)]
