"""Tasks of the virtual loop: their owner, where they are suspended, and how they are disposed of."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from enum import Enum
from typing import Any, Protocol

_CLOSE_ATTEMPTS = 20


class Gate(Enum):
    """The state of an owner, which decides whether its callbacks run."""

    OPEN = "open"
    PAUSED = "paused"
    DEAD = "dead"


class Owner(Protocol):
    """The owner of callbacks, such as a simulated process."""

    name: str
    gate: Gate

    def park(self, handle: list[Any]) -> None:
        """Keep a callback that is due while the gate is not open."""
        ...


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)


class OwnedTask(asyncio.Task[Any]):
    """A task with an owner, hashed by its number: task groups keep their tasks in sets, and the order in a set must not
    depend on addresses."""

    def __init__(
        self,
        coro: Generator[Any, None, Any] | Coroutine[Any, Any, Any],
        *,
        number: int,
        owner: Owner | None,
        loop: asyncio.AbstractEventLoop,
        name: str,
        context: Context | None,
    ) -> None:
        self.number = number
        self.owner = owner
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number

    @property
    def is_lost(self) -> bool:
        """Whether it ended with an exception that no code has retrieved, in a process that is still alive."""
        return self._log_traceback and not (self.owner and self.owner.gate is Gate.DEAD)


def place(task: OwnedTask) -> str:
    owner = f"{task.owner.name} ({task.owner.gate.value}), " if task.owner else ""
    where = [f"{frame.f_code.co_qualname}:{frame.f_lineno}" for frame in task.get_stack(limit=1)]
    return f"{owner}{task.get_name()} at {', '.join(where) or 'its end'}"


def close_coroutine(task: OwnedTask) -> None:
    coro = task.get_coro()
    for _ in range(_CLOSE_ATTEMPTS):
        try:
            if coro is not None:
                coro.close()
            return
        except RuntimeError:
            continue  # it awaited something in a finally block: it is still there
        except BaseException:
            return


@contextmanager
def silence() -> Generator[None]:
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook = hook
