"""Counts of the installation for its metrics, and the tallies that no other table can be counted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.schedule import Tick, TickStatus
from crawlfleet.model.status import WAITING_STATUSES, TaskStatus
from crawlfleet.ports.metrics_store import InstallationCounts
from crawlfleet.store import schema
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Tx

RUNNING = "SELECT project, SUM(n) FROM counter WHERE status AMONG($1) AND n > 0 GROUP BY project"
QUEUED = (
    "SELECT l.priority, c.status, SUM(c.n) FROM lane_counter c JOIN lane l ON l.id = c.lane "
    "WHERE c.status AMONG($1) AND c.n > 0 GROUP BY l.priority, c.status"
)
HELD = "SELECT node, COUNT(*) FROM live WHERE node <> 0 GROUP BY node"
# It reads a whole index, which it may: it is on a connection for people, within the time of a scrape.
_DEAD_LETTERS = "SELECT COUNT(*) FROM dead_letter"
HOSTS_IN_BACKOFF = "SELECT COUNT(*) FROM host WHERE backoff_until > $1"
TALLIES = "SELECT name, n FROM tally WHERE name AMONG($1)"
ADD_TALLY = "UPDATE tally SET n = n + $2 WHERE name = $1"
_HELD_STATUSES = [int(status) for status in TaskStatus if status.is_held]
_QUEUED_STATUSES = [int(status) for status in WAITING_STATUSES]
_TICK_TALLIES = {f"ticks_{status.word}": status for status in TickStatus}


class InstallationTables:
    _engine: QueryEngine

    async def installation_counts(self, now: Instant) -> InstallationCounts:
        async def read_counts(tx: Tx) -> InstallationCounts:
            ((dead_letters,),) = await tx.fetch(_DEAD_LETTERS)
            ((hosts_in_backoff,),) = await tx.fetch(HOSTS_IN_BACKOFF, now)
            tallies = await tx.fetch(TALLIES, list(_TICK_TALLIES))
            ticks = {**dict.fromkeys(TickStatus, 0), **{_TICK_TALLIES[name]: count for name, count in tallies}}
            running = {project: int(count) for project, count in await tx.fetch(RUNNING, _HELD_STATUSES)}
            queued = {
                (priority, TaskStatus(status)): int(count)
                for priority, status, count in await tx.fetch(QUEUED, _QUEUED_STATUSES)
            }
            held: dict[NodeId, int] = dict(await tx.fetch(HELD))
            return InstallationCounts(running, queued, held, dead_letters, hosts_in_backoff, ticks)

        return await self._engine.browse_rows(read_counts)


async def count_ticks(tx: Tx, ticks: Iterable[Tick]) -> None:
    """Count new ticks in the transaction that writes them: retention removes ticks, and a counter never falls."""
    counts = Counter(f"ticks_{tick.status.word}" for tick in ticks)
    await tx.insert_new(schema.tally, ("name", "n"), [(name, 0) for name in sorted(counts)])
    for name, count in sorted(counts.items()):
        await tx.execute(ADD_TALLY, name, count)
