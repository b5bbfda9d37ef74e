"""Bounded reads for the checks of an installation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.instants import Instant

SQLITE, POSTGRESQL = "sqlite", "postgresql"


class DatabaseCondition(NamedTuple):
    """The database as it describes itself."""

    kind: str
    """`SQLITE` or `POSTGRESQL`."""
    revision: str
    """Revision of its tables; empty where it has none."""
    settings: Mapping[str, str]
    """Settings of PostgreSQL that decide whether a commit is kept, and the one that shows that ours arrive."""
    standbys: Sequence[tuple[str, str]]
    """Name and synchronous state of the servers that follow it, as far as the user may see them."""


class HostAnswers(NamedTuple):
    """How a host answered since an instant."""

    host: str
    requests: int
    blocked: int


class DoctorStore(Protocol):
    """What only the checks of an installation read."""

    async def database_condition(self) -> DatabaseCondition: ...

    async def host_answers(self, since: Instant, limit: int) -> list[HostAnswers]:
        """Return the answers of hosts in the hours from this instant on, from `limit` rows at most."""
        ...
