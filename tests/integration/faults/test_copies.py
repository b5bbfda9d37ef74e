"""The SQLite file and its log, copied at random moments of a stopped master: every answer before the copy is in it.

As after a crash of the machine, or in a backup taken by copying files: whatever is half written must not count, and
whatever was answered must.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
import structlog

from crawlfleet.model.execution import End
from crawlfleet.model.ids import TaskId
from crawlfleet.model.status import ErrorClass, TaskStatus
from crawlfleet.store.engine.sqlite.engine import SqliteEngine
from crawlfleet.store.store import SqlStore
from testkit.patience import PATIENCE_S
from tests.integration.faults.faults_kit import Fleet, PlayedNode, accepted_ids, echo
from tests.paths import ROOT

pytestmark = pytest.mark.integration

COPIES = 25


# -- the child: a master that works as fast as it can and says every answer


async def work(path: Path) -> None:
    # The pipe is for answers only.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    store = SqlStore(SqliteEngine(path, synchronous="FULL"))
    fleet = await Fleet(store).begun()
    node = await fleet.node(slots=50)
    body = echo(parameters={"padding": "x" * 2_000})
    number = 0
    while True:
        number += 1
        tasks = accepted_ids(await fleet.master.submit.submit_tasks([body] * 5, key=f"key {number}"))
        say("stored", tasks)
        if number % 2:
            await work_off(fleet, node)
        if number % 5 == 0:
            applied = await fleet.master.task_changes.cancel_tasks(tasks)
            say("cancelled", [task for task, status in applied.after.items() if status is TaskStatus.CANCELLED])


async def work_off(fleet: Fleet, node: PlayedNode) -> None:
    await fleet.dispatch()
    await node.sync()
    completed, failed = [], []
    for at, (execution, one) in enumerate(list(node.held.items())):
        if at % 7 == 0:
            node.end(execution, End.FAILED, ErrorClass.INPUT)
            failed.append(one.task)
        else:
            node.end(execution)
            completed.append(one.task)
    await node.sync()
    assert not node.outcomes
    say("completed", completed)
    say("failed", failed)


def say(word: str, tasks: list[TaskId]) -> None:
    sys.stdout.write(f"{word} {' '.join(map(str, tasks))}\n")
    sys.stdout.flush()


# -- the parent: stops it, listens to the end of what it said, copies, lets it go on


class Child:
    def __init__(self, path: Path) -> None:
        command = f"import asyncio, pathlib, {__name__} as m; asyncio.run(m.work(pathlib.Path({str(path)!r})))"
        self._process = subprocess.Popen([sys.executable, "-c", command], cwd=ROOT, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._pipe = self._process.stdout.fileno()
        os.set_blocking(self._pipe, False)
        self._heard = b""

    def listen(self) -> list[str]:
        """The whole lines said so far."""
        while True:
            try:
                chunk = os.read(self._pipe, 1 << 16)
            except BlockingIOError:
                break
            assert chunk, f"the child ended with {self._process.wait()}"
            self._heard += chunk
        return self._heard.decode().split("\n")[:-1]

    def wait_for_news(self) -> None:
        readable, _, _ = select.select([self._pipe], [], [], PATIENCE_S)
        assert readable, "the child says nothing"

    @contextmanager
    def stopped(self) -> Iterator[None]:
        os.kill(self._process.pid, signal.SIGSTOP)
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        yield
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def expected(lines: list[str]) -> dict[TaskId, TaskStatus | None]:
    """What was answered: the final status, or None for a task that is somewhere on its way."""
    tasks: dict[TaskId, TaskStatus | None] = {}
    for line in lines:
        word, *ids = line.split()
        status = None if word == "stored" else TaskStatus.of_word(word)
        tasks |= dict.fromkeys(map(int, ids), status)
    return tasks


def found(path: Path) -> dict[TaskId, TaskStatus]:
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = connection.execute("SELECT id, status FROM live UNION ALL SELECT id, status FROM done").fetchall()
        assert len(rows) == len({task for task, _ in rows}), "a task is live and final at once"
        assert {task for task, _ in rows} == {task for (task,) in connection.execute("SELECT id FROM task")}
        return {task: TaskStatus(status) for task, status in rows}
    finally:
        connection.close()


def copy_of(path: Path, folder: Path) -> Path:
    folder.mkdir()
    for part in path.parent.glob(f"{path.name}*"):
        shutil.copy(part, folder)
    return folder / path.name


async def live_on(path: Path) -> None:
    """A new master over the copy takes up the work and brings it to its end."""
    store = SqlStore(SqliteEngine(path))
    try:
        fleet = await Fleet(store).begun()
        await fleet.node(slots=1_000)
        # The node of the copy will not come back: its lease ends.
        for _ in range(4):
            fleet.clock.advance(3.1)
            await fleet.nodes[0].sync()
            await fleet.master.reaper.run_once(fleet.clock.now())
        await fleet.settle()
        await fleet.judge()
    finally:
        await store.close()


def test_every_answer_before_a_copy_is_in_the_copy(tmp_path: Path, empty_sqlite: Path) -> None:
    path = tmp_path / "fleet.sqlite3"
    shutil.copy(empty_sqlite, path)
    rng, seen = Random(11), set[int]()
    child = Child(path)
    try:
        for number in range(COPIES):
            child.wait_for_news()
            # A moment of its own each time: the point is not to know what the master is doing then.
            select.select([], [], [], rng.uniform(0.0, 0.04))
            with child.stopped():
                lines = child.listen()
                copy = copy_of(path, tmp_path / f"copy {number}")
            seen.add(len(lines))
            have = found(copy)
            for task, status in expected(lines).items():
                assert task in have, f"{task} was answered and is not in copy {number}"
                assert status is None or have[task] is status, f"{task} was answered {status} and is {have[task]}"
            if number % 12 == 0:
                asyncio.run(live_on(copy))
            shutil.rmtree(copy.parent)
    finally:
        child.kill()
    assert len(seen) > COPIES // 2, "the child stood still"
