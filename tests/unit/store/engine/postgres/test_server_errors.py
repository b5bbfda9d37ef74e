"""The errors of PostgreSQL, by what they mean for a caller."""

import asyncpg

from crawlfleet.store.engine.postgres.server_errors import AGAIN, AWAY, READ_ONLY, error_text, store_unavailable


def test_every_error_of_the_classes_of_unavailable_servers_is_one() -> None:
    """By their classes of SQLSTATE: whatever the driver knows of them is covered."""
    known = [kind for kind in vars(asyncpg.exceptions).values() if isinstance(kind, type)]
    states = {kind.sqlstate: kind for kind in known if issubclass(kind, asyncpg.PostgresError) and kind.sqlstate}
    covered = {state for state, kind in states.items() if issubclass(kind, AWAY)}
    for start in ("08", "28", "53", "57", "58"):
        assert {state for state in states if state.startswith(start)} <= covered, start
    assert {"25006", "25P03", "25P04", "3D000", "55P03"} <= covered
    assert not covered & {"22012", "23505", "25P02", "42P01", "42501", "XX000", "40001", "40P01"}
    assert {states[state] for state in ("40001", "40P01")} == set(AGAIN)


def test_what_callers_are_told() -> None:
    assert store_unavailable(asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT")).told == READ_ONLY
    no_host_takes_writes = asyncpg.exceptions.TargetServerAttributeNotMatched("None of the hosts match")
    assert store_unavailable(no_host_takes_writes).told == READ_ONLY
    assert store_unavailable(asyncpg.DiskFullError("no space")).told == "the disk of the store is full"
    assert store_unavailable(asyncpg.AdminShutdownError("bye")).told == "the store does not answer"
    assert error_text(TimeoutError()) == "no answer in time"
