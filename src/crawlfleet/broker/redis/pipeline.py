"""The pipeline that sends the commands of all callers over one connection, in order, any number of them under way.

Commands queued in one turn of the event loop leave in one write, so a thousand syncing nodes cost a few writes. One
order for all commands also means that a signal never arrives before the hint it refers to.

An error in an answer (no memory, a replica, a missing right) ends the connection: whatever the reason, this Redis
cannot be used now, and the state of the link gives the reason.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import NoScriptError
from redis.exceptions import TimeoutError as RedisTimeoutError

from crawlfleet.broker.redis.connection_factory import Command, Word
from crawlfleet.broker.redis.scripts import Script

GIVE_UP_S = 0.25
_TICK_S = 0.05


@dataclass(slots=True, eq=False)
class _Call:
    command: Command
    script: Script | None
    answer: asyncio.Future[Any] | None
    tick: int
    """Tick of `Pipeline._watch_answers` at which the call was queued."""


class Pipeline:
    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self._unsent: list[_Call] = []
        self._unanswered: deque[_Call] = deque()
        self._has_unsent = asyncio.Event()
        self._tick = 0

    async def call_command(self, *command: Word) -> Any:
        return await self._queue_call(command, None, asyncio.get_running_loop().create_future())

    def send_command(self, *command: Word) -> None:
        """Send a command without waiting for the answer."""
        self._queue_call(command, None, None)

    async def call_script(self, script: Script, key: str, *arguments: Word) -> Any:
        command = ("EVALSHA", script.sha, 1, key, *arguments)
        return await self._queue_call(command, script, asyncio.get_running_loop().create_future())

    def send_script(self, script: Script, key: str, *arguments: Word) -> None:
        """Run a script without waiting for the answer."""
        self._queue_call(("EVALSHA", script.sha, 1, key, *arguments), script, None)

    def start_tasks(self, group: asyncio.TaskGroup) -> None:
        """Start the tasks of the pipeline in the group; they work until the connection is lost, which they raise."""
        for task in (self._write_calls(), self._read_answers(), self._watch_answers()):
            group.create_task(task)

    def break_off(self, error: type[Exception]) -> None:
        """End every call that still waits, with the error."""
        for call in (*self._unanswered, *self._unsent):
            if call.answer is not None and not call.answer.done():
                call.answer.set_exception(error())
        self._unanswered.clear()
        self._unsent.clear()

    def _queue_call(self, command: Command, script: Script | None, answer: asyncio.Future[Any] | None) -> Any:
        self._unsent.append(_Call(command, script, answer, self._tick))
        self._has_unsent.set()
        return answer

    async def _write_calls(self) -> None:
        connection = self._connection
        while True:
            await self._has_unsent.wait()
            self._has_unsent.clear()
            calls, self._unsent = self._unsent, []
            self._unanswered.extend(calls)
            packed = connection.pack_commands([call.command for call in calls])
            await connection.send_packed_command(packed, check_health=False)

    async def _read_answers(self) -> None:
        connection, unanswered = self._connection, self._unanswered
        while True:
            try:
                answer = await connection.read_response()
            except NoScriptError:
                self._send_source(unanswered.popleft())
                continue
            call = unanswered.popleft()
            if call.answer is not None and not call.answer.done():
                call.answer.set_result(answer)

    def _send_source(self, call: _Call) -> None:
        """Send the source of a script that Redis does not have (any more): this loads the script again, too."""
        assert call.script is not None
        _, _, *rest = call.command
        self._queue_call(("EVAL", call.script.source, *rest), None, call.answer)

    async def _watch_answers(self) -> None:
        """Watch for unanswered calls by counting turns of our own loop: one that stood still for a second must not
        blame Redis for it."""
        while True:
            await asyncio.sleep(_TICK_S)
            self._tick += 1
            if self._unanswered and (self._tick - self._unanswered[0].tick) * _TICK_S > GIVE_UP_S:
                raise RedisTimeoutError(f"no answer within {GIVE_UP_S * 1000:.0f} ms")
