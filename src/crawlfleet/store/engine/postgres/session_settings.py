"""The settings of every connection, sent with its first message, and the check that they have reached the server.

A pooler between the masters and the server may drop them. Then a master that freezes would hold its locks for ever, and
plans would be made for the tables as they were when they were empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from crawlfleet.errors import ConfigError

if TYPE_CHECKING:
    from crawlfleet.store.engine.postgres.transaction import Connection

IDLE_IN_TRANSACTION_MS = 2_000
LOCK_TIMEOUT_MS = 3_000
_UNTOLD = "application_name"
"""The setting that changes nothing but lists for people: a pooler may put a name of its own in its place."""


def session_settings(application: str, statement_timeout_ms: int) -> dict[str, str]:
    return {
        "application_name": application,
        "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
        "lock_timeout": str(LOCK_TIMEOUT_MS),
        "statement_timeout": str(statement_timeout_ms),
        # Hot tables churn: a cached plan, made while a table was nearly empty, would read all of it when it is full.
        # Planning each time uses the current size of the table, and costs a batch next to nothing.
        "plan_cache_mode": "force_custom_plan",
        "enable_seqscan": "off",
        # A bitmap would collect a whole lane and sort it, where the index has its head in order.
        "enable_bitmapscan": "off",
        "jit": "off",
    }


async def check_settings(connection: Connection, sent: Mapping[str, str]) -> None:
    """Read the settings back. Raises ConfigError when the server does not have them."""
    rows = await connection.fetch("SELECT name, setting FROM pg_settings WHERE name = ANY($1::text[])", list(sent))
    server = {row["name"]: row["setting"] for row in rows}
    dropped = sorted(name for name, value in sent.items() if name != _UNTOLD and server.get(name) != value)
    if dropped:
        raise ConfigError(
            f"store: the settings of our connections do not reach the server ({', '.join(dropped)}): a pooler between "
            "them, such as PgBouncer, drops them. Give the address of PostgreSQL itself, with several hosts in it "
            "where there is a standby: a master keeps at most eleven connections"
        )
