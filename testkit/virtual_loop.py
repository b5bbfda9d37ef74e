"""An event loop in virtual time: a day of waiting takes no time, and the same seed gives the same run.

Time stands while anything is ready to run and then jumps straight to the next timer. Timers of one instant run in an
order drawn from the seed, as no program may rely on another. There is no I/O and there are no threads.

Callbacks may belong to an owner (a simulated process) by way of their context: those of a paused owner wait for it,
those of a dead one are never run. `processes.py` builds on that.

Pending coroutines of the dead are kept until the loop is closed and not before: closing one runs its `finally`
blocks, which a killed process never does. `close()` therefore comes after the last read of shared state.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, NoReturn, Self, TypeVar, TypeVarTuple, cast

from crawlfleet.errors import CrawlfleetError
from testkit.owned_tasks import OWNER, Gate, OwnedTask, close_coroutine, place, silence

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_TICKS_PER_S = 1_000_000
_SHOWN_TASKS = 12
_TIMERS_SWEPT = 1_000


class VirtualLoopError(CrawlfleetError):
    """An error of a run on the virtual loop."""

    code = "virtual_loop"


class Deadlock(VirtualLoopError):
    """Nothing is ready, no timer is set, and the main coroutine is not done."""


class LimitExceeded(VirtualLoopError):
    """The run took more virtual time, or more callbacks, than it may."""


class TaskFailed(VirtualLoopError):
    """A callback raised, or a task ended with an exception that no code retrieved."""


class _Handle(list[Any]):
    """A callback that is due: [callback, arguments, context, owner], and empty once it was cancelled or has run.

    It is a list, and not asyncio's handle, because a seed makes a hundred thousand of them: a constructor written in
    Python would cost as much as the callback.
    """

    __slots__ = ()

    cancel = list.clear

    def cancelled(self) -> bool:
        return not self


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop in virtual time."""

    def __init__(
        self,
        seed: int = 0,
        *,
        start_s: float = 0.0,
        limit_s: float = 7 * 86_400.0,
        limit_callbacks: int = 50_000_000,
    ) -> None:
        super().__init__()
        # What is older than the loop is none of its garbage: looking at all of it took longer than most runs.
        gc.freeze()
        self.seed = seed
        self._order = self.rng("timers of one instant")
        self._tick = math.ceil(start_s * _TICKS_PER_S)
        self._limit_tick = math.ceil(limit_s * _TICKS_PER_S)
        self._callbacks = 0
        self._limit_callbacks = limit_callbacks
        self._numbers = itertools.count(1)
        self._queue: deque[_Handle] = deque()
        self._timers: list[tuple[int, float, int, _Handle]] = []
        self._timers_most = _TIMERS_SWEPT
        self._tasks: dict[int, OwnedTask] = {}
        self._failed: list[OwnedTask] = []
        self._errors: list[tuple[str, BaseException | None]] = []
        self._nobodys = Context()
        self._is_burying = False
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rng(self, name: str) -> random.Random:
        """Return a random stream of its own: one more draw from it changes no other stream."""
        return random.Random(f"{self.seed}/{name}")

    def time(self) -> float:
        return self._tick / _TICKS_PER_S

    @property
    def now_ms(self) -> int:
        return self._tick * 1000 // _TICKS_PER_S

    def stand_still(self, seconds: float) -> None:
        """Let time pass while no callback runs, as under SIGSTOP."""
        self._tick += math.ceil(seconds * _TICKS_PER_S)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run to the end of `main`; tasks it left behind outside of any process are cancelled and awaited."""
        try:
            result = self.run_until_complete(main)
            self.run_until_complete(self._end_rest())
        except Exception as exc:
            for line in self._lost():
                exc.add_note(line)
            raise
        if lost := self._lost():
            raise TaskFailed("; ".join(lost)) from next(t for t in self._failed if t.is_lost).exception()
        return result

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if context is None:
            context = copy_context()
        handle = _Handle((callback, args, context, context.get(OWNER)))
        if self._is_open or self._is_taking():
            self._queue.append(handle)
        return handle  # type: ignore[return-value]

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if context is None:
            context = copy_context()
        timer = _Handle((callback, args, context, context.get(OWNER)))
        tick = self._tick
        if when > tick / _TICKS_PER_S:
            # At least one tick: a span too short for a float to show must not stop time.
            tick = max(math.ceil(when * _TICKS_PER_S), tick + 1)
        if self._is_open or self._is_taking():
            heapq.heappush(self._timers, (tick, self._order.random(), next(self._numbers), timer))
            if len(self._timers) > self._timers_most:
                self._sweep_timers()
        return timer  # type: ignore[return-value]

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._tick / _TICKS_PER_S + delay, callback, *args, context=context)

    def queue(self, handle: list[Any]) -> None:
        if self._is_taking():
            self._queue.append(cast("_Handle", handle))

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        owner = OWNER.get() if context is None else context.get(OWNER)
        number = next(self._numbers)
        # Never asyncio's own numbering, which continues from one run to the next.
        named = f"task-{number}" if name is None else str(name)
        task = OwnedTask(coro, number=number, owner=owner, loop=self, name=named, context=context)
        self._tasks[number] = task
        # In a context without an owner: the accounting is done whatever happens to the owner.
        task.add_done_callback(self._on_done, context=self._nobodys)
        return task

    # asyncio asks for every future and task whether debugging is on: not worth a frame each time.
    get_debug = staticmethod(bool)

    def run_in_executor(self, executor: object, func: Callable[[*Ts], T], *args: *Ts) -> NoReturn:
        raise VirtualLoopError(f"no threads in virtual time: {func!r}")

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.is_closed():
            self._errors.append((str(context.get("message")), context.get("exception")))

    def close(self) -> None:
        """Dispose of what never ended. The effects of its `finally` blocks must not be read."""
        if self.is_closed():
            return
        super().close()
        self._is_open = False
        self._queue.clear()
        self._timers.clear()
        self._is_burying = True
        with silence():
            for task in [*self._tasks.values()]:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                close_coroutine(task)
            for task in self._failed:
                task._log_traceback = False
            self._tasks.clear()
            self._failed.clear()
            gc.collect()
            gc.unfreeze()
        self._is_burying = False

    def _run_once(self) -> None:
        """Run until the loop is stopped: asyncio would call this for every instant."""
        while not self._stopping:  # type: ignore[attr-defined]
            self._run_instant()

    def _run_instant(self) -> None:
        if not self._queue:
            self._advance()
        while self._timers and self._timers[0][0] <= self._tick:
            self._queue.append(heapq.heappop(self._timers)[3])
        pop_handle = self._queue.popleft
        for _ in range(len(self._queue)):
            handle = pop_handle()
            if not handle:
                continue
            callback, args, context, owner = handle
            if owner is not None and owner.gate is not Gate.OPEN:
                owner.park(handle)
                continue
            self._callbacks += 1
            handle.clear()
            try:
                context.run(callback, *args)
            except Exception as exc:
                self._errors.append((f"{callback!r} raised", exc))
            if self._errors:
                message, error = self._errors[0]
                raise TaskFailed(f"at {self.time():.6f} s: {message}: {error!r}") from error
        if self._callbacks > self._limit_callbacks:
            raise LimitExceeded(
                f"more than {self._limit_callbacks} callbacks by {self.time():.6f} s\n{self._pending()}"
            )

    def _advance(self) -> None:
        while self._timers:
            tick, _, _, timer = self._timers[0]
            if not timer or (timer[3] is not None and timer[3].gate is Gate.DEAD):
                heapq.heappop(self._timers)
                continue
            if tick > self._limit_tick:
                raise LimitExceeded(f"more than {self._limit_tick / _TICKS_PER_S:g} virtual seconds\n{self._pending()}")
            self._tick = max(self._tick, tick)
            return
        raise Deadlock(f"at {self.time():.6f} s nothing can happen any more\n{self._pending()}")

    def _sweep_timers(self) -> None:
        """Drop cancelled timers: most timers are cancelled, long before their time."""
        self._timers = [entry for entry in self._timers if entry[3]]
        heapq.heapify(self._timers)
        self._timers_most = 2 * len(self._timers) + _TIMERS_SWEPT

    def _asyncgen_finalizer_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        if not self.is_closed():
            # The task that happens to run while a generator is collected is not its owner.
            self.call_soon(lambda: self.create_task(agen.aclose()), context=Context())

    def _on_done(self, task: asyncio.Future[Any]) -> None:
        assert isinstance(task, OwnedTask)
        del self._tasks[task.number]
        if task._log_traceback:
            self._failed.append(task)
            if len(self._failed) > 1_000:
                self._failed = [failed for failed in self._failed if failed.is_lost]

    def _is_taking(self) -> bool:
        if self._is_burying:
            return False
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        return True

    async def _end_rest(self) -> None:
        me = asyncio.current_task()
        rest = [task for task in self._tasks.values() if task.owner is None and task is not me]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        for task in rest:
            if not task.cancelled() and (error := task.exception()):
                raise TaskFailed(f"{task.get_name()} while it was cancelled: {error!r}") from error

    def _lost(self) -> list[str]:
        return [
            f"the exception was never retrieved of {place(task)}: {task._exception!r}"
            for task in self._failed
            if task.is_lost
        ]

    def _pending(self) -> str:
        living = [task for task in self._tasks.values() if task.owner is None or task.owner.gate is not Gate.DEAD]
        lines = [f"  {place(task)}" for task in living[:_SHOWN_TASKS]]
        if len(living) > _SHOWN_TASKS:
            lines.append(f"  and {len(living) - _SHOWN_TASKS} more")
        return "\n".join(["waiting:", *lines])


def run(
    main: Coroutine[Any, Any, T], *, seed: int = 0, limit_s: float = 7 * 86_400.0, limit_callbacks: int = 50_000_000
) -> T:
    """Run `main` on a virtual loop of its own. A run that kills processes reads shared state before `main` ends."""
    with VirtualLoop(seed, limit_s=limit_s, limit_callbacks=limit_callbacks) as loop:
        return loop.run(main)


def running_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
