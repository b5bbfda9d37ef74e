"""Simulated processes: what `kill -9`, SIGSTOP and SIGCONT do to a master or a node, on one virtual loop.

A process owns every task and timer created inside it; the owner is stored in the context they run in. After a kill none
of them runs again: no `finally`, no `except`, and no waiting caller gets an answer. During a pause, what becomes due
waits and runs late, while the loop's time goes on.

Processes may share objects that stand for servers (the store, a broker). Such an object must not hold an asyncio lock
over an await: a process killed there would never release it, which no real server would let happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, NoReturn, ParamSpec, TypeVar

from crawlfleet.errors import CrawlfleetError, InvariantBroken
from testkit.owned_tasks import OWNER, Gate
from testkit.virtual_loop import VirtualLoop

P = ParamSpec("P")
T = TypeVar("T")


class SimProcess:
    """One run of a program: after `kill()` the next run is a new object."""

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        self._loop = loop
        self.name = name
        self.gate = Gate.OPEN
        self._parked: list[list[Any]] = []
        # Empty except for the owner, as a new process knows nothing of its parent's variables.
        self._context = Context()
        self._context.run(OWNER.set, self)

    @property
    def is_alive(self) -> bool:
        return self.gate is not Gate.DEAD

    @property
    def is_paused(self) -> bool:
        return self.gate is Gate.PAUSED

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Start a coroutine inside. An exception of the task that no code awaits is an error of the run."""
        if not self.is_alive:
            coro.close()
            raise InvariantBroken(f"{self.name} is dead and starts nothing")
        name = name or getattr(coro, "__name__", "task")
        return self._loop.create_task(coro, name=f"{self.name}:{name}", context=self._context.copy())

    def enter(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function inside: what it starts belongs to the process."""
        return self._context.copy().run(function, *args, **kwargs)

    async def call(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function inside this process and wait for its answer in the caller's.

        No answer ever comes from a process that is or will be killed: the caller needs a timeout. A caller that gives
        up, or dies, does not stop the work. What the function raises is raised here; if the process itself cancels
        it (a clean stop), that is a ConnectionResetError.
        """
        answer: asyncio.Future[T] = self._loop.create_future()
        if self.is_alive:
            self.spawn(_serve(answer, function, *args, **kwargs), name=getattr(function, "__name__", "call"))
        return await answer

    def pause(self) -> None:
        if self.gate is Gate.OPEN:
            self.gate = Gate.PAUSED

    def resume(self) -> None:
        """Resume: what became due meanwhile runs now, in the order in which it became due."""
        if self.gate is not Gate.PAUSED:
            return
        self.gate = Gate.OPEN
        parked, self._parked = self._parked, []
        for handle in parked:
            self._loop.queue(handle)

    def kill(self) -> None:
        """Kill at once. From inside use `crash()`: the caller of this goes on to its next await."""
        self.gate = Gate.DEAD
        self._parked.clear()

    def park(self, handle: list[Any]) -> None:
        if self.gate is Gate.PAUSED:
            self._parked.append(handle)


def current_process() -> SimProcess | None:
    owner = OWNER.get()
    return owner if isinstance(owner, SimProcess) else None


async def crash() -> NoReturn:
    """Kill the process this is called in, immediately: for failpoints between two steps."""
    process = current_process()
    if process is None:
        raise InvariantBroken("crash() outside of a simulated process")
    process.kill()
    await asyncio.get_running_loop().create_future()
    raise AssertionError("a dead process went on")


async def _serve(
    answer: asyncio.Future[T], function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
) -> None:
    try:
        result = await function(*args, **kwargs)
    except asyncio.CancelledError:
        if not answer.done():
            answer.set_exception(ConnectionResetError("the process stopped"))
        raise
    except Exception as exc:
        if not answer.done():
            answer.set_exception(exc)
        elif not isinstance(exc, CrawlfleetError):
            raise  # the process is killed, so that no caller is left to get a bug's exception
    else:
        if not answer.done():
            answer.set_result(result)
