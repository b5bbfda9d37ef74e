"""The store of cookie jars: one jar per project and name. The rules are those of `ports.store`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.cookie import CookieJarSummary, CookieRecord
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant


class CookieChanges(NamedTuple):
    """The changes that a live execution makes to a jar of its project."""

    node: NodeId
    task: TaskId
    execution: ExecutionId
    jar: str
    """Name of the jar; the empty name is the jar of its task, or of the crawl that the task takes part in."""
    changes: Sequence[CookieRecord]


class CookieStore(Protocol):
    """Access to the cookie jars of projects."""

    async def merge_cookie_jar(self, wanted: CookieChanges, now: Instant) -> list[CookieRecord] | None:
        """Write the changes into the jar and return the whole jar.

        Returns None, and writes nothing, when the execution is no longer live. Without changes nothing is written
        either.
        """
        ...

    async def cookie_jars(self, project: str | None, limit: int) -> list[CookieJarSummary]:
        """List the jars by project and name."""
        ...

    async def remove_cookie_jar(self, project: str, name: str) -> bool:
        """Remove a jar; returns whether there was one."""
        ...
