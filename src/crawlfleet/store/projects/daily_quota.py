"""What of each project's day is granted, and what executions hold of it: rows that others read and settle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from crawlfleet.model.daily_quota import Amounts, Day, Holding, day_of
from crawlfleet.model.ids import ExecutionId
from crawlfleet.model.instants import Instant
from crawlfleet.scheduling.quotas.daily_quota import unused_amounts
from crawlfleet.store.engine.transaction import Tx

KEEP_DAYS = 7
DAY_USES = "SELECT project, pages, bytes FROM day_use WHERE project AMONG($1) AND day = $2"
ADD_TO_DAY = "UPDATE day_use SET pages = pages + $3, bytes = bytes + $4 WHERE project = $1 AND day = $2"
HOLDINGS = (
    "SELECT execution, project, day, number, day_pages, day_bytes, pages, bytes FROM day_slice "
    "WHERE execution AMONG($1)"
)
FORGET_HOLDINGS = "DELETE FROM day_slice WHERE execution AMONG($1)"
OLD_DAYS = "DELETE FROM day_use WHERE (project, day) IN (SELECT project, day FROM day_use WHERE day < $1 LIMIT $2)"
# One that runs for days still has to be told all it was granted.
OLD_HOLDINGS = (
    "DELETE FROM day_slice WHERE execution IN (SELECT execution FROM day_slice WHERE day < $1 AND NOT EXISTS "
    "(SELECT 1 FROM live WHERE live.id = day_slice.task AND live.execution = day_slice.execution) "
    "ORDER BY day LIMIT $2)"
)


async def settle(tx: Tx, ended: Mapping[ExecutionId, Amounts]) -> None:
    """What these executions, which have just ended, did not use comes back to the day it was granted of."""
    back: dict[tuple[str, Day], Amounts] = defaultdict(Amounts)
    held = await holdings(tx, list(ended))
    for execution, holding in held.items():
        key = holding.project, holding.day
        back[key] = back[key].plus(unused_amounts(holding, ended[execution]))
    for (project, day), amounts in sorted(back.items()):
        if any(amounts):
            await tx.execute(ADD_TO_DAY, project, day, -amounts.pages, -amounts.bytes)
    if held:
        await tx.execute(FORGET_HOLDINGS, sorted(held))


async def holdings(tx: Tx, executions: Sequence[ExecutionId]) -> dict[ExecutionId, Holding]:
    rows = await tx.fetch(HOLDINGS, sorted(set(executions)))
    return {
        execution: Holding(execution, project, day, number, Amounts(*amounts[:2]), Amounts(*amounts[2:]))
        for execution, project, day, number, *amounts in rows
    }


async def uses_of(tx: Tx, projects: Sequence[str], day: Day) -> dict[str, Amounts]:
    found = {name: Amounts(*amounts) for name, *amounts in await tx.fetch(DAY_USES, sorted(projects), day)}
    return {name: found.get(name, Amounts()) for name in projects}


async def forget_days(tx: Tx, now: Instant, limit: int) -> int:
    today = day_of(now)
    return await tx.execute(OLD_DAYS, today - KEEP_DAYS, limit) + await tx.execute(OLD_HOLDINGS, today - 1, limit)
