"""Executors as users write them: some useful, most of them badly behaved."""

# What they do wrong is their point.
# ruff: noqa: ASYNC110, ASYNC220, ASYNC240, ASYNC251, PTH208, T201

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawlfleet import Executor, TaskContext, TaskError, executor
from crawlfleet.model.product import Product


@executor("greet", schema={"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
async def greet(context: TaskContext) -> dict[str, Any]:
    context.log("about to greet")
    for number in range(context.parameters.get("items", 0)):
        await context.item({"number": number, "for": context.parameters["name"]})
    context.progress(pages=3, item_chunks=99)
    return {"hello": context.parameters["name"], "attempt": context.attempt, "task": context.task_id}


@executor("metered")
async def metered(context: TaskContext) -> int:
    """So many pages, counted; then it may go on for long."""
    assert context.meter is not None
    pages: int = context.parameters["pages"]
    for number in range(pages):
        await context.meter.page()
        context.progress(pages=number + 1)
    await asyncio.sleep(context.parameters.get("sleep_s", 0))
    return pages


@executor("spell")
async def spell(context: TaskContext) -> int:
    """An item for each value, one after the other; for those named it waits until there is a file."""
    for value in context.parameters["values"]:
        while value in context.parameters.get("held", ()) and not Path(context.parameters["file"]).exists():
            await asyncio.sleep(0.02)
        await context.item({"value": value})
        await asyncio.sleep(context.parameters.get("pause_s", 0))
    return len(context.parameters["values"])


class Shout(Executor):
    task_type = "shout"

    async def run(self, context: TaskContext) -> Any:
        return str(context.parameters["word"]).upper()


@executor("plain")
def plain(context: TaskContext) -> dict[str, Any]:
    """No coroutine: runs in a thread."""
    print("said on stdout")
    print("said on stderr", file=sys.stderr)
    context.log("said by log")
    context.emit({"from": "a thread"})
    return {"thread": threading.current_thread() is not threading.main_thread()}


@executor("look_around")
async def look_around(_context: TaskContext) -> dict[str, Any]:
    return {"env": sorted(os.environ), "cwd": str(Path.cwd()), "files": os.listdir(), "pid": os.getpid()}


@executor("may_visit")
async def may_visit(context: TaskContext) -> list[str]:
    return sorted(context.allow_hosts)


@executor("raises")
async def raises(context: TaskContext) -> None:
    raise {
        "value": ValueError("not this one"),
        "connection": ConnectionRefusedError("nobody there"),
        "memory": MemoryError(),
        "exit": SystemExit(4),
        "timeout": TimeoutError("too slow"),
        "own": TaskError("blocked by the site", error="blocked", permanent=True),
    }[context.parameters["what"]]


@executor("fails_as")
async def fails_as(context: TaskContext) -> None:
    raise TaskError("failed as it was asked to", error=context.parameters["error"])


@executor("stumbles")
async def stumbles(context: TaskContext) -> None:
    """Gets somewhere and does not complete."""
    context.progress(pages=3, items=99)
    context.log("got this far")
    await context.item({"number": 1})
    await asyncio.sleep(0.3)
    match context.parameters["then"]:
        case "fail":
            raise TaskError("stumbled", error="parse")
        case "die":
            os._exit(7)
    await asyncio.sleep(300)


@executor("returns")
async def returns(context: TaskContext) -> Any:
    return {"object": object(), "large": "x" * 100_000, "nan": float("nan")}[context.parameters["what"]]


@executor("eats_memory")
def eats_memory(_context: TaskContext) -> None:
    eaten = []
    while True:
        eaten.append(bytearray(8 << 20))
        time.sleep(0.005)


@executor("eats_memory_below")
def eats_memory_below(_context: TaskContext) -> None:
    """Not itself, but a process that it starts."""
    program = "x = []\nimport time\nwhile True: x.append(bytearray(8 << 20)); time.sleep(0.005)"
    subprocess.run([sys.executable, "-c", program], check=False)


@executor("grabs_memory")
def grabs_memory(_context: TaskContext) -> int:
    return len(bytearray(1 << 40))


@executor("family")
async def family(context: TaskContext) -> str:
    """Starts a child, a grandchild, and a daemon in a session of its own; tells their ids, then waits or ends."""
    folder = Path(context.parameters["folder"])
    subprocess.Popen([sys.executable, "-c", _CHILD, str(folder / "child"), str(folder / "grandchild")])
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            (folder / "daemon").write_text(str(os.getpid()))
            for number in range(1, 65):
                if number not in (signal.SIGKILL, signal.SIGSTOP):
                    try:
                        signal.signal(number, signal.SIG_IGN)
                    except (OSError, ValueError):
                        pass
            time.sleep(300)
        os._exit(0)
    while len(list(folder.iterdir())) < 3:
        await asyncio.sleep(0.01)
    (folder / "self").write_text(str(os.getpid()))
    match context.parameters["then"]:
        case "wait":
            await asyncio.sleep(300)
        case "die":
            os._exit(7)
    return "left them behind"


_CHILD = """
import os, sys, time
pid = os.fork()
open(sys.argv[1] if pid else sys.argv[2], "w").write(str(os.getpid()))
time.sleep(300)
"""


@executor("multiplies")
def multiplies(_context: TaskContext) -> None:
    """Starts processes, each in a session of its own, without end."""
    while True:
        if os.fork() == 0:
            os.setsid()
            time.sleep(300)
            os._exit(0)
        time.sleep(0.0005)


@executor("waits_for_file")
async def waits_for_file(context: TaskContext) -> Any:
    """Says in one file that it runs, and ends with a result of the size asked for when the other one is there."""
    Path(context.parameters["started"]).touch()
    while not Path(context.parameters["released"]).exists():
        await asyncio.sleep(0.01)
    return "x" * context.parameters.get("result_chars", 0)


@executor("sees_products")
async def sees_products(context: TaskContext) -> int:
    """So many products of such a size, which travel with its outcome; it ends when a file is there."""
    count: int = context.parameters["products"]
    size: int = context.parameters["product_bytes"]
    for number in range(count):
        product_id = f"{context.task_id}-{number}"
        await context.product(Product("shop", product_id, f"http://shop/{product_id}", attributes={"text": "x" * size}))
    Path(context.parameters["started"]).touch()
    while not Path(context.parameters["released"]).exists():
        await asyncio.sleep(0.05)
    return count


@executor("ignores_cancel")
async def ignores_cancel(context: TaskContext) -> None:
    while True:
        try:
            Path(context.parameters["file"]).write_text(str(os.getpid()))
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            continue


@executor("holds_interpreter")
async def holds_interpreter(context: TaskContext) -> int:
    """In one call of C code that neither ends nor lets anybody else in."""
    Path(context.parameters["file"]).write_text(str(os.getpid()))
    return sum(range(10**13))


@executor("dies")
async def dies(context: TaskContext) -> None:
    print("first words\nlast words", file=sys.stderr)
    if context.parameters["how"] == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.Signals[context.parameters["how"]])
    await asyncio.sleep(300)


@executor("breaks_off")
async def breaks_off(_context: TaskContext) -> None:
    """Closes every descriptor it finds, and goes on."""
    os.closerange(3, 200)
    time.sleep(300)


@executor("chatters")
async def chatters(context: TaskContext) -> dict[str, int]:
    for number in range(context.parameters["lines"]):
        context.log(f"line {number} " + "x" * 100)
    return {"lines": context.parameters["lines"]}


@executor("streams")
async def streams(context: TaskContext) -> dict[str, int]:
    """Items without end, until it is stopped; says how many it got rid of."""
    progress = Path(context.parameters["file"])
    for number in _numbers(context.parameters.get("count")):
        await context.item({"number": number, "text": "x" * 1_000})
        if number % 100 == 0:
            progress.write_text(str(number))
    return {"sent": context.parameters["count"]}


def _numbers(count: int | None) -> Iterator[int]:
    number = 0
    while count is None or number < count:
        yield number
        number += 1
