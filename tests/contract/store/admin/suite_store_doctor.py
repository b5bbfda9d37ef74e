"""Reads of the checks: the database describes itself, and hosts are counted by hour."""

from crawlfleet.model.host_stats import BLOCKED, REQUESTS, Batch, empty_row
from crawlfleet.ports.doctor_store import POSTGRESQL, SQLITE, HostAnswers
from crawlfleet.ports.store import Store
from crawlfleet.store.engine.migrate import known_revisions
from testkit.factories import Kit

HOUR_MS = 3_600_000


def _counted(requests: int, blocked: int) -> list[int]:
    row = empty_row()
    row[REQUESTS], row[BLOCKED] = requests, blocked
    return row


async def the_database_describes_itself(store: Store, kit: Kit) -> None:
    condition = await store.database_condition()
    assert condition.revision == known_revisions()[0]
    assert condition.standbys == () or list(condition.standbys) == []
    if condition.kind == SQLITE:
        assert condition.settings == {}
    else:
        assert condition.kind == POSTGRESQL
        assert condition.settings["synchronous_commit"] in ("on", "off", "local", "remote_write", "remote_apply")
        assert condition.settings["fsync"] in ("on", "off")
        assert condition.settings["idle_in_transaction_session_timeout"] == "2s", "as our connections set it"


async def answers_of_hosts_are_counted_from_an_hour_on(store: Store, kit: Kit) -> None:
    term, early = await kit.term(), kit.now
    await store.add_figures([Batch(1, 1, 1, [("old.example", _counted(9, 9))])], early)
    await store.fold_figures(term, early)
    now = kit.later(3 * HOUR_MS)
    hosts = [("a.example", _counted(10, 2)), ("b.example", _counted(30, 0))]
    await store.add_figures([Batch(1, 1, 2, hosts)], now)
    await store.fold_figures(term, now)
    answers = await kit.second.host_answers(now - HOUR_MS, 100)
    assert answers == [HostAnswers("b.example", 30, 0), HostAnswers("a.example", 10, 2)]
    assert await kit.second.host_answers(now + HOUR_MS, 100) == []
