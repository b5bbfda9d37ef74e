"""The gate of an executor process: no grant, no request; even spacing; what the agent is told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from crawlfleet.execution.budget.granted_gate import GrantedGate
from crawlfleet.execution.budget.host_gate import HostAway, HostUsage, NoGrant, ProcessShare
from crawlfleet.model.host import HostNoteKind
from tests.unit.execution.agent.agent_kit import monotonic, stand_still, virtual

HOST = "shop.example"
FOREVER = 1e9


class Link:
    def __init__(self) -> None:
        self.uses: list[dict[str, int]] = []
        self.requests = 0
        self.acks: list[tuple[int, list[str]]] = []
        self.used: list[int | None] = []
        self.told: list[tuple[str, int, int]] = []

    def report_usage(self, hosts: Sequence[HostUsage]) -> None:
        self.uses.append({use.host: use.wanted for use in hosts})
        self.requests += sum(use.requests for use in hosts)

    def acknowledge_grants(self, version: int, pending: Sequence[str], used: Mapping[str, int]) -> None:
        self.acks.append((version, list(pending)))
        self.used.append(used.get(HOST))

    def report_host_note(self, host: str, kind: int, span_ms: int) -> None:
        self.told.append((host, kind, span_ms))


class Crawl:
    def __init__(self, **queued: int) -> None:
        self.pages: dict[str, int] = {HOST: queued.get("pages", 0)}
        self.woken = 0

    def queued(self) -> Mapping[str, int]:
        return self.pages

    def wake(self) -> None:
        self.woken += 1


class Kit:
    def __init__(self) -> None:
        self.link = Link()
        self.gate = GrantedGate(self.link, monotonic)
        self.sent: list[float] = []

    def grant(self, rate: int, concurrency: int = 8, version: int = 1, until: float = FOREVER, **more: float) -> None:
        share = ProcessShare(HOST, rate, concurrency, int(more.get("spacing_ms", 0)), more.get("away_until", 0.0))
        self.gate.apply_grants(version, until, [share])

    async def ask(self, takes_s: float = 0.0, connects_s: float = 0.0) -> None:
        await self.gate.begin_request(HOST)
        if connects_s:
            await asyncio.sleep(connects_s)
        await self.gate.await_departure(HOST)
        self.sent.append(monotonic())
        if takes_s:
            await asyncio.sleep(takes_s)
        self.gate.end_request(HOST)

    def most_in_a_second(self) -> int:
        return max(sum(at <= one < at + 1 for one in self.sent) for at in self.sent)


@virtual
async def test_without_a_grant_nothing_leaves_and_the_agent_hears_at_once() -> None:
    kit = Kit()
    asking = asyncio.create_task(kit.ask())
    await asyncio.sleep(0.01)
    assert (kit.sent, kit.link.uses) == ([], [{HOST: 1}])
    kit.grant(5)
    await asking
    assert len(kit.sent) == 1


@pytest.mark.parametrize(("rate", "count"), [(1, 4), (5, 30), (20, 100), (400, 2_000)])
def test_any_second_has_at_most_the_rate(rate: int, count: int) -> None:
    @virtual
    async def check() -> None:
        kit = Kit()
        kit.grant(rate, 100)
        begun = monotonic()
        await asyncio.gather(*(kit.ask() for _ in range(count)))
        assert kit.most_in_a_second() <= rate
        assert monotonic() - begun < 1.1 * count / rate

    check()


@virtual
async def test_what_was_missed_is_not_made_up_for() -> None:
    kit = Kit()
    kit.grant(10)
    asking = [asyncio.create_task(kit.ask()) for _ in range(40)]
    await asyncio.sleep(0.5)
    stand_still(1.0)
    await asyncio.gather(*asking)
    assert kit.most_in_a_second() <= 10


@pytest.mark.parametrize("rate", [1, 5, 10, 20, 100])
def test_connections_that_take_their_time_bring_no_burst(rate: int) -> None:
    @virtual
    async def check() -> None:
        kit = Kit()
        kit.grant(rate, 100)
        begun = monotonic()
        await asyncio.gather(*(kit.ask(connects_s=(3 * rate - n) / (2 * rate)) for n in range(3 * rate)))
        assert kit.most_in_a_second() <= rate
        assert monotonic() - begun < 6

    check()


@virtual
async def test_turns_taken_before_the_process_stood_still_do_not_leave_together() -> None:
    kit = Kit()
    kit.grant(10)
    asking = [asyncio.create_task(kit.ask(connects_s=0.4 if n < 4 else 0)) for n in range(30)]
    await asyncio.sleep(0.39)
    stand_still(2.0)
    await asyncio.gather(*asking)
    assert kit.most_in_a_second() <= 10


@virtual
async def test_a_cut_and_a_raise_count_from_the_last_request() -> None:
    kit = Kit()
    kit.grant(10)
    await kit.ask()
    kit.grant(1, version=2)
    await kit.ask()
    assert kit.sent[1] - kit.sent[0] >= 1.0
    kit.grant(10, version=3)
    await kit.ask()
    assert 0.1 <= kit.sent[2] - kit.sent[1] < 0.2
    kit.grant(1, version=4, spacing_ms=5_000)
    await kit.ask()
    assert kit.sent[3] - kit.sent[2] >= 5.0
    assert [version for version, _ in kit.link.acks] == [1, 2, 3, 4]


@virtual
async def test_no_more_are_under_way_than_granted_and_a_cut_waits_for_them() -> None:
    kit = Kit()
    kit.grant(100, 3)
    asking = [asyncio.create_task(kit.ask(takes_s=10.0)) for _ in range(5)]
    await asyncio.sleep(1.0)
    assert len(kit.sent) == 3
    kit.grant(100, 1, version=2)
    assert kit.link.acks[-1] == (2, [HOST])
    await asyncio.sleep(9.5)
    assert kit.link.acks[-1] == (2, [])
    assert len(kit.sent) == 4
    await asyncio.gather(*asking)
    assert len(kit.sent) == 5


@virtual
async def test_a_grant_ends_with_its_time_and_is_extended() -> None:
    kit = Kit()
    kit.grant(10, until=monotonic() + 2.0)
    asking = [asyncio.create_task(kit.ask()) for _ in range(40)]
    await asyncio.sleep(5.0)
    sent = len(kit.sent)
    assert 15 < sent <= 20
    assert max(kit.sent) < kit.sent[0] + 2.0
    kit.gate.extend_grants(monotonic() + 100)
    await asyncio.gather(*asking)
    assert kit.most_in_a_second() <= 10


@virtual
async def test_a_process_that_stood_still_sends_nothing_when_it_wakes() -> None:
    kit = Kit()
    kit.grant(10, until=monotonic() + 2.0)
    await kit.gate.begin_request(HOST)
    stand_still(8.0)
    with pytest.raises(NoGrant):
        await kit.gate.await_departure(HOST)
    kit.gate.end_request(HOST)
    await asyncio.sleep(1.0)
    assert kit.link.requests == 0


@virtual
async def test_a_request_that_never_left_is_not_counted() -> None:
    kit = Kit()
    kit.grant(10)
    # No connection was to be had: its turn ends without a departure.
    await kit.gate.begin_request(HOST)
    kit.gate.end_request(HOST)
    await asyncio.sleep(1.0)
    assert kit.link.requests == 0
    await kit.ask()
    await asyncio.sleep(1.0)
    assert kit.link.requests == 1


@virtual
async def test_a_request_that_leaves_again_on_another_connection_is_one_request() -> None:
    kit = Kit()
    kit.grant(10)
    await kit.gate.begin_request(HOST)
    await kit.gate.await_departure(HOST)
    await kit.gate.await_departure(HOST, is_repeat=True)
    kit.gate.end_request(HOST)
    await asyncio.sleep(1.0)
    assert kit.link.requests == 1


@virtual
async def test_a_refusal_is_told_at_once_and_nothing_leaves_meanwhile() -> None:
    kit = Kit()
    kit.grant(10)
    await kit.ask()
    kit.gate.record_answer(HOST, 429, 5.0)
    assert kit.link.told == [(HOST, 429, 5_000)]
    assert not kit.gate.is_ready(HOST)
    assert kit.gate.away_s(HOST) > 4
    asking = asyncio.create_task(kit.ask())
    await asyncio.sleep(4.0)
    assert len(kit.sent) == 1
    await asking
    assert kit.sent[1] - kit.sent[0] >= 5
    kit.gate.record_answer(HOST, 503, 600.0)
    kit.grant(0, version=2)
    kit.grant(5, version=3)
    await asyncio.wait_for(kit.ask(), 10.0)


@virtual
async def test_nobody_stands_in_line_for_a_host_that_is_away_for_long() -> None:
    kit = Kit()
    kit.grant(10)
    await kit.ask()
    kit.gate.record_answer(HOST, 429, 30.0)
    with pytest.raises(HostAway) as caught:
        await kit.ask()
    assert (caught.value.host, round(caught.value.after_s)) == (HOST, 30)


@virtual
async def test_a_host_that_is_left_alone_is_waited_for_until_a_new_grant() -> None:
    kit = Kit()
    kit.grant(0, 0, away_until=monotonic() + 50)
    crawl = Crawl(pages=3)
    kit.gate.add_source(crawl)
    await asyncio.sleep(0.01)
    assert not kit.gate.is_ready(HOST)
    assert kit.gate.away_s(HOST) > 49
    woken = crawl.woken
    kit.grant(4, version=2)
    assert kit.gate.is_ready(HOST)
    assert crawl.woken > woken


@virtual
async def test_a_crawl_delay_holds_at_once_and_is_told_once() -> None:
    kit = Kit()
    kit.grant(10)
    await kit.ask()
    kit.gate.set_crawl_delay(HOST, 2.0)
    kit.gate.set_crawl_delay(HOST, 2.0)
    await kit.ask()
    assert kit.link.told == [(HOST, HostNoteKind.CRAWL_DELAY, 2_000)]
    assert kit.sent[1] - kit.sent[0] >= 2.0


@virtual
async def test_wants_are_told_when_they_change_and_end_with_the_crawl() -> None:
    kit = Kit()
    crawl = Crawl(pages=5)
    kit.gate.add_source(crawl)
    await asyncio.sleep(0.01)
    crawl.pages[HOST] = 6
    await asyncio.sleep(2.0)
    assert kit.link.uses == [{HOST: 8}]
    crawl.pages[HOST] = 500
    await asyncio.sleep(2.0)
    assert kit.link.uses[-1] == {HOST: 64}
    kit.gate.remove_source(crawl)
    await asyncio.sleep(0.01)
    assert kit.link.uses[-1] == {}


@virtual
async def test_whoever_goes_away_makes_room_for_the_next() -> None:
    kit = Kit()
    asking = [asyncio.create_task(kit.ask()) for _ in range(4)]
    await asyncio.sleep(0.1)
    asking[0].cancel()
    asking[2].cancel()
    await asyncio.sleep(0.1)
    kit.grant(10)
    await asyncio.gather(*asking, return_exceptions=True)
    assert len(kit.sent) == 2


@virtual
async def test_a_wall_is_counted_each_time_and_told_once_in_a_while() -> None:
    kit = Kit()
    kit.grant(10)
    for _ in range(3):
        kit.gate.record_block(HOST)
        kit.gate.report_block(HOST)
    assert kit.link.told == [(HOST, HostNoteKind.BLOCKED, 0)]
    assert kit.gate._hosts[HOST].counts[2] == 3


@virtual
async def test_what_was_counted_is_told_once_and_counting_goes_on() -> None:
    kit = Kit()
    told: list[tuple[int, ...]] = []
    kit.link.report_usage = lambda hosts: told.extend(use.figures for use in hosts if use.figures)  # type: ignore[method-assign]
    kit.grant(10)
    await kit.gate.begin_request(HOST)
    figures = kit.gate.host_counts(HOST)
    figures[3] += 100
    await asyncio.sleep(1)
    # The request is still under way: what it adds now is told the next time.
    figures[3] += 7
    kit.gate.end_request(HOST)
    await asyncio.sleep(1)
    assert [row[3] for row in told] == [100, 7]


@virtual
async def test_a_cut_is_acknowledged_with_what_has_left_lately() -> None:
    kit, crawl = Kit(), Crawl(pages=8)
    kit.gate.add_source(crawl)
    kit.grant(10)
    for _ in range(20):
        await kit.ask()
    assert monotonic() - kit.sent[0] > 1.9
    kit.grant(2, version=2)
    lately = [at for at in kit.sent if at > monotonic() - 1.0]
    # Not fewer than in the last second, and no more than in two.
    assert len(lately) <= (kit.link.used[-1] or 0) < len(kit.sent)
    await asyncio.sleep(3.0)
    kit.grant(1, version=3)
    assert kit.link.used[-1] == 0


@virtual
async def test_one_that_was_forgotten_in_between_still_tells_what_has_left() -> None:
    kit = Kit()
    kit.grant(10)
    for _ in range(3):
        await kit.ask()
    kit.gate.apply_grants(2, FOREVER, [])
    kit.gate.send_report()
    kit.grant(10, version=3)
    kit.grant(1, version=4)
    assert kit.link.used[-1] == 3


@virtual
async def test_what_has_more_under_way_than_it_may_says_nothing_of_its_use() -> None:
    kit = Kit()
    kit.grant(10, 2)
    asking = asyncio.create_task(kit.ask(takes_s=1.0))
    await asyncio.sleep(0.1)
    kit.grant(1, 0, version=2)
    assert (kit.link.acks[-1], kit.link.used[-1]) == ((2, [HOST]), None)
    await asking
    assert (kit.link.acks[-1], kit.link.used[-1]) == ((2, []), 1)


@virtual
async def test_the_end_of_a_back_off_ends_the_hold_of_whoever_was_refused() -> None:
    kit = Kit()
    kit.grant(10)
    await kit.ask()
    kit.gate.record_answer(HOST, 429, 3_000)
    kit.grant(0, 0, version=2, away_until=monotonic() + 3_000)
    assert kit.gate.away_s(HOST) > 2_000
    # Nobody wants it at the moment: it is forgiven, and not given yet.
    kit.grant(0, 0, version=3)
    assert kit.gate.away_s(HOST) <= 0


@virtual
async def test_a_host_that_nobody_wants_is_forgotten_once_what_has_left_is_long_ago() -> None:
    kit, crawl = Kit(), Crawl(pages=1)
    kit.gate.add_source(crawl)
    kit.grant(10)
    await kit.ask()
    kit.gate.record_answer(HOST, 429, 3_000)
    crawl.pages[HOST] = 0
    kit.gate.remove_source(crawl)
    kit.grant(0, 0, version=2)
    await asyncio.sleep(5)
    assert kit.gate.away_s(HOST) == 0
    assert kit.link.uses[-1].get(HOST, 0) == 0
