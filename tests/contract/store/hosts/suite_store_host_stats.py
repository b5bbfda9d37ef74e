"""What was counted of hosts: taken once, folded into minutes, hours and totals, and bounded."""

import asyncio

import pytest

from crawlfleet.model import host_stats
from crawlfleet.model.host_stats import ALL_HOSTS, BYTES, HOUR_S, MINUTE_S, PAGES, REQUESTS, Batch, empty_row
from crawlfleet.ports.store import Store
from testkit.factories import Kit

HOST = "a.example"
NODE, OTHER = 7, 8


def _row(requests: int, pages: int = 0, size: int = 0) -> list[int]:
    row = empty_row()
    row[REQUESTS], row[PAGES], row[BYTES] = requests, pages, size
    return row


def _batch(number: int, requests: int = 1, *, node: int = NODE, session: int = 3, host: str = HOST) -> Batch:
    return Batch(node, session, number, [(host, _row(requests))])


async def _total(store: Store, host: str = HOST) -> int:
    found = await store.host_total(host)
    return 0 if found is None else found.figures[REQUESTS]


async def a_batch_of_figures_counts_once(store: Store, kit: Kit) -> None:
    term = await kit.term()
    assert await store.add_figures([_batch(1, 5)], kit.now) == [True]
    assert await kit.second.add_figures([_batch(1, 5)], kit.now) == [False]
    assert await store.add_figures([_batch(2, 7), _batch(2, 7), _batch(1, 5)], kit.now) == [True, False, False]
    folded = await store.fold_figures(term, kit.now)
    assert [(batch.node, batch.at, [host for host, _ in batch.hosts]) for batch in folded] == [
        (NODE, kit.now, [HOST]),
        (NODE, kit.now, [HOST]),
    ]
    assert await kit.second.fold_figures(term, kit.now) == []
    assert await _total(kit.second) == 12


async def the_same_batch_at_two_masters_at_once_counts_once(store: Store, kit: Kit) -> None:
    term = await kit.term()
    taken = await asyncio.gather(*(one.add_figures([_batch(1, 5)], kit.now) for one in (store, kit.second) * 4))
    assert sorted(news for (news,) in taken) == [False] * 7 + [True]
    await store.fold_figures(term, kit.now)
    assert await _total(store) == 5


async def a_batch_of_an_older_session_is_taken_if_it_was_not(store: Store, kit: Kit) -> None:
    """An agent that lost its session tells its last batch again in the next one, under the name it had."""
    assert await store.add_figures([_batch(4, session=3)], kit.now) == [True]
    assert await store.add_figures([_batch(5, session=3)], kit.now) == [True]
    assert await store.add_figures([_batch(5, session=3)], kit.now) == [False]
    assert await store.add_figures([_batch(1, session=4)], kit.now) == [True]
    assert await store.add_figures([_batch(6, session=3)], kit.now) == [False]


async def figures_of_all_nodes_are_summed_by_minute_hour_and_in_all(store: Store, kit: Kit) -> None:
    term, hour = await kit.term(), 1_000 * HOUR_S
    start = kit.now - kit.now % hour + hour
    for number, (at, host) in enumerate([(0, HOST), (59_999, HOST), (60_000, HOST), (hour, HOST), (hour, "b")], 1):
        batches = [Batch(node, 1, number, [(host, _row(10, 4, 1_000))]) for node in (NODE, OTHER)]
        await store.add_figures(batches, start + at)
        await store.fold_figures(term, start + at)
    minutes = await kit.second.host_history(HOST, MINUTE_S, start, start + 2 * hour, 100)
    assert [(one.at - start, one.figures[REQUESTS]) for one in minutes] == [(0, 40), (60_000, 20), (hour, 20)]
    assert minutes[0].figures == _row(40, 16, 4_000)
    hours = await store.host_history(HOST, HOUR_S, start, start + 2 * hour, 100)
    assert [(one.at - start, one.span_s, one.figures[REQUESTS]) for one in hours] == [
        (0, HOUR_S, 60),
        (hour, HOUR_S, 20),
    ]
    total = await store.host_total(HOST)
    assert total is not None and (total.at, total.figures) == (start, _row(80, 32, 8_000))
    assert await _total(store, ALL_HOSTS) == 100
    newest = await store.host_history(HOST, MINUTE_S, start, start + hour, 1)
    assert [one.at - start for one in newest] == [60_000]
    assert await store.host_history("c.example", MINUTE_S, 0, start + hour, 9) == []
    assert await store.host_total("c.example") is None


async def a_shorter_row_of_an_older_node_adds_up(store: Store, kit: Kit) -> None:
    await store.add_figures([Batch(NODE, 1, 1, [(HOST, [3])]), Batch(OTHER, 1, 1, [(HOST, [4] * 90)])], kit.now)
    await store.fold_figures(await kit.term(), kit.now)
    total = await store.host_total(HOST)
    assert total is not None and list(total.figures) == [7] + [4] * (host_stats.PLACES - 1)


async def only_so_many_hosts_are_kept(store: Store, kit: Kit) -> None:
    term = await kit.term()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(host_stats.HOSTS_MOST, MINUTE_S, 2)
        patch.setattr("crawlfleet.store.hosts.host_stats.TOTALS_MOST", 4)
        hosts = [(f"{number}.example", _row(number)) for number in range(1, 6)]
        await store.add_figures([Batch(NODE, 1, 1, hosts)], kit.now)
        await store.fold_figures(term, kit.now)
        # The busiest of what was folded at once.
        kept = [host for host, _ in hosts if await store.host_history(host, MINUTE_S, 0, kit.now + 1, 9)]
        assert kept == ["4.example", "5.example"]
        later = kit.now + 1_000
        await store.add_figures([Batch(NODE, 1, 2, [("3.example", _row(1)), ("9.example", _row(1))])], later)
        await store.fold_figures(term, later)
        known = [number for number in range(1, 10) if await store.host_total(f"{number}.example") is not None]
    assert len(known) == 4 and {3, 9} <= set(known)
    assert await _total(store, ALL_HOSTS) == 17


async def figures_are_forgotten_when_their_time_is_over(store: Store, kit: Kit) -> None:
    term, day = await kit.term(), 86_400_000
    await store.add_figures([_batch(1)], kit.now)
    await store.fold_figures(term, kit.now)
    assert await store.drop_figures(term, kit.now) == 0
    seen = []
    for days in (1, 20, 40):
        await store.drop_figures(term, kit.now + days * day)
        minutes, hours = [
            len(await store.host_history(HOST, span_s, 0, kit.now + 1, 9)) for span_s in (MINUTE_S, HOUR_S)
        ]
        seen.append((minutes, hours, await _total(store)))
    assert seen == [(0, 1, 1), (0, 0, 1), (0, 0, 0)]
