"""Cookie jars: one per project and name. The rules are those of `ports.store`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.cookie import CookieJarSummary, CookieRecord
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant


class CookieChanges(NamedTuple):
    """What a live execution changes in a jar of its project."""

    node: NodeId
    task: TaskId
    execution: ExecutionId
    jar: str
    """The empty one is that of its task, or of the crawl the task takes part in."""
    changes: Sequence[CookieRecord]


class CookieStore(Protocol):
    async def merge_cookie_jar(self, wanted: CookieChanges, now: Instant) -> list[CookieRecord] | None:
        """The jar with the changes in it, which are written. None, and nothing is written, when the execution is not
        live any more. Without changes nothing is written either."""
        ...

    async def cookie_jars(self, project: str | None, limit: int) -> list[CookieJarSummary]:
        """By project and name."""
        ...

    async def remove_cookie_jar(self, project: str, name: str) -> bool:
        """Whether there was one."""
        ...
