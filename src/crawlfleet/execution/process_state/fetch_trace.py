"""The requests of a traced execution, recorded in its executor process and sent to the agent, which makes spans of
them: the process itself has no way to the collector, and no secret of it."""

from __future__ import annotations

import time
from contextvars import ContextVar

import msgspec

MAX_FETCHES = 100
"""Maximum number of requests that are recorded of one execution, the first ones."""


class FetchRecord(msgspec.Struct, array_like=True, frozen=True):
    url: str
    began_ns: int
    ended_ns: int
    status: int = 0
    error: str = ""

    @property
    def is_possible(self) -> bool:
        return 0 < self.began_ns <= self.ended_ns < 1 << 63 and 0 <= self.status < 1_000


class FetchTrace:
    def __init__(self) -> None:
        self.records: list[FetchRecord] = []

    def add(self, url: str, began_ns: int, status: int, error: str) -> None:
        if len(self.records) < MAX_FETCHES:
            self.records.append(FetchRecord(url, began_ns, time.time_ns(), status, error))


_current: ContextVar[FetchTrace | None] = ContextVar("fetch_trace", default=None)


def begin_fetch_trace() -> FetchTrace:
    """Record the requests of the task that calls this, and of the tasks that it starts."""
    trace = FetchTrace()
    _current.set(trace)
    return trace


def current_fetch_trace() -> FetchTrace | None:
    return _current.get()
