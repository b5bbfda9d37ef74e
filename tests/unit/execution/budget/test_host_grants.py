"""The agent's part of host grants: dividing the node's over its processes, and what masters hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from crawlfleet.execution.agent.work.lease_guard import NodeLease
from crawlfleet.execution.budget.host_gate import HostUsage, ProcessShare
from crawlfleet.execution.budget.host_grants import IDLE_KEPT_S, HostGrants
from crawlfleet.model.host import HostNoteKind
from crawlfleet.wire.sync import GrantsBody, HostGrantBody, HostNewsBody, HostWantBody
from tests.unit.execution.agent.agent_kit import LoopClock, monotonic, virtual

HOST, OTHER = "a.example", "b.example"


class Process:
    def __init__(self, number: int, grants: HostGrants) -> None:
        self.number = number
        self._grants = grants
        self.version = 0
        self.until = 0.0
        self.shares: dict[str, ProcessShare] = {}
        grants.add_process(number, self)

    def send_grants(self, version: int, until: float, shares: Sequence[ProcessShare]) -> None:
        assert version > self.version
        self.version, self.until = version, until
        self.shares = {share.host: share for share in shares}

    def extend_grants(self, until: float) -> None:
        self.until = until

    def want(self, count: int, host: str = HOST, requests: int = 0) -> None:
        self._grants.record_usage(self.number, [HostUsage(host, count, requests)] if count or requests else [])

    def acknowledge(self, *pending: str, used: int | None = None) -> None:
        self._grants.acknowledge_grants(self.number, self.version, pending, None if used is None else {HOST: used})

    @property
    def rate(self) -> int:
        return self.shares[HOST].rate if HOST in self.shares else 0


class Kit:
    def __init__(self, processes: int = 2) -> None:
        self.grants = HostGrants(LoopClock())
        self.lease = NodeLease(LoopClock())
        self.lease.start(9.0, monotonic())
        self.asked: list[float] = []
        self.grants.attach_sync(self.lease, self.asked.append)
        self.processes = [Process(number, self.grants) for number in range(1, processes + 1)]
        self.number = 0

    def take(self, rate: int, concurrency: int = 8, version: int | None = None, **more: int) -> bool:
        version = self.grants.applied_version + 1 if version is None else version
        return self.grants.apply_grants(GrantsBody(version, [HostGrantBody(HOST, rate, concurrency, **more)]))

    def up(self) -> tuple[dict[str, HostWantBody], list[HostNewsBody]]:
        self.number += 1
        hosts, news = self.grants.build_report(self.number)
        return {want.host: want for want in hosts}, news

    @property
    def rates(self) -> list[int]:
        return [process.rate for process in self.processes]


@virtual
async def test_a_new_host_is_asked_for_at_once_and_more_of_it_soon() -> None:
    kit = Kit()
    kit.processes[0].want(4)
    assert kit.asked == [0.0]
    assert kit.up()[0][HOST].wanted == 4
    kit.processes[1].want(8)
    assert kit.asked[1:] == [0.5]
    assert kit.up()[0][HOST].wanted == 12
    kit.grants.close()


@virtual
async def test_a_grant_is_divided_and_good_as_long_as_the_lease() -> None:
    kit = Kit()
    for process in kit.processes:
        process.want(8)
    assert kit.take(7)
    assert sorted(kit.rates) == [3, 4]
    assert {process.until for process in kit.processes} == {kit.lease.stop_at}
    kit.lease.renew(monotonic() + 3)
    kit.grants.sync_answered(1)
    assert {process.until for process in kit.processes} == {kit.lease.stop_at}
    assert not kit.take(7, version=1)
    kit.grants.close()


@virtual
async def test_a_cut_is_in_effect_when_every_process_has_said_so() -> None:
    kit = Kit()
    for process in kit.processes:
        process.want(8)
    kit.take(8)
    kit.take(2)
    assert kit.rates == [1, 1]
    assert kit.up()[0][HOST].is_pending
    kit.asked.clear()
    kit.processes[0].acknowledge()
    kit.processes[1].acknowledge(HOST)
    assert kit.asked == []
    assert kit.up()[0][HOST].is_pending
    kit.processes[1].acknowledge()
    assert kit.asked == [0.0]
    assert not kit.up()[0][HOST].is_pending
    kit.grants.close()


@virtual
async def test_a_unit_goes_from_process_to_process_after_its_window() -> None:
    kit = Kit()
    first, second = kit.processes
    first.want(8)
    kit.take(6)
    second.want(8)
    assert kit.rates == [3, 0]
    first.acknowledge()
    await asyncio.sleep(0.9)
    assert kit.rates == [3, 0]
    await asyncio.sleep(0.2)
    assert kit.rates == [3, 3]
    kit.grants.close()


@virtual
async def test_what_a_process_has_not_used_is_the_others_at_once() -> None:
    kit = Kit()
    first, second = kit.processes
    first.want(8)
    kit.take(100, 8)
    second.want(8)
    assert (kit.rates, second.shares[HOST].concurrency) == ([50, 0], 0)
    first.acknowledge(used=20)
    # Twenty have left within the window: the first may use 70 in it.
    assert (kit.rates, second.shares[HOST].concurrency) == ([50, 30], 4)
    await asyncio.sleep(1.1)
    assert kit.rates == [50, 50]
    kit.grants.close()


@virtual
async def test_what_was_used_before_a_cut_comes_on_top_of_what_is_given_after_it() -> None:
    kit = Kit()
    first, second = kit.processes
    first.want(8)
    kit.take(100)
    kit.take(10)
    first.acknowledge(used=30)
    assert kit.up()[0][HOST].in_use == 40
    kit.take(60)
    # Thirty and sixty would be more than sixty in one second.
    assert kit.rates == [30, 0]
    await asyncio.sleep(1.1)
    assert kit.rates == [60, 0]
    second.want(0)
    kit.grants.close()


@virtual
async def test_what_a_dead_process_had_is_the_others() -> None:
    kit = Kit()
    for process in kit.processes:
        process.want(8)
    kit.take(6)
    kit.grants.remove_process(1)
    await asyncio.sleep(1.1)
    assert kit.processes[1].rate == 6
    kit.grants.close()


@virtual
async def test_one_unit_goes_around() -> None:
    kit = Kit()
    for process in kit.processes:
        process.want(8)
    kit.take(1, 1, spacing_ms=2_000)
    seen = set()
    for _ in range(60):
        await asyncio.sleep(0.5)
        for process in kit.processes:
            process.acknowledge()
        assert sum(kit.rates) <= 1
        seen.add(tuple(kit.rates))
    assert {(1, 0), (0, 1)} <= seen
    kit.grants.close()


@virtual
async def test_a_host_is_kept_for_a_while_and_then_let_go() -> None:
    kit = Kit(1)
    (process,) = kit.processes
    process.want(8)
    kit.take(6)
    process.want(0, requests=3)
    assert kit.up()[0][HOST] == HostWantBody(HOST, 0, requests=3, in_use=6)
    assert process.rate == 6
    await asyncio.sleep(IDLE_KEPT_S + 0.1)
    assert kit.up()[0][HOST].wanted is None
    assert process.rate == 0
    process.acknowledge()
    await asyncio.sleep(1.1)
    assert kit.up()[0][HOST].wanted is None
    kit.take(0, 0)
    assert kit.up() == ({}, [])
    kit.grants.close()


@virtual
async def test_one_that_is_wanted_again_before_it_was_taken_back_is_still_given() -> None:
    kit = Kit(1)
    (process,) = kit.processes
    process.want(8)
    kit.take(6)
    process.want(0)
    await asyncio.sleep(IDLE_KEPT_S + 0.1)
    process.acknowledge(used=0)
    assert (process.rate, kit.asked[-1]) == (0, 0.5)
    # No master has heard of it, and so none would give it again.
    process.want(4)
    assert process.rate == 6
    assert kit.up()[0][HOST].wanted == 4
    kit.grants.close()


@virtual
async def test_a_refusal_stops_all_processes_and_is_told_until_it_was_heard() -> None:
    kit = Kit()
    for process in kit.processes:
        process.want(8)
    kit.take(8)
    kit.asked.clear()
    kit.grants.record_host_note(HOST, HostNoteKind.TOO_MANY, 30_000)
    assert (kit.rates, kit.asked) == ([0, 0], [0.0])
    assert kit.processes[1].shares[HOST].away_until >= monotonic() + 30
    told = [HostNewsBody(HOST, 429, 30_000)]
    assert (kit.up()[1], kit.up()[1]) == (told, told)
    kit.grants.sync_answered(1)
    assert kit.up()[1] == told
    kit.grants.sync_answered(3)
    assert kit.up()[1] == []
    # What each may still be using it can have again at once.
    assert kit.take(4)
    assert kit.rates == [2, 2]
    kit.grants.close()


@virtual
async def test_a_new_session_has_no_grants() -> None:
    kit = Kit()
    kit.processes[0].want(8)
    kit.take(8)
    kit.lease.clear()
    kit.grants.start_session()
    assert (kit.rates, kit.grants.applied_version, kit.processes[0].until) == ([0, 0], 0, 0.0)
    kit.lease.start(9.0, monotonic())
    assert kit.take(8)
    kit.grants.close()


@virtual
async def test_nonsense_of_a_strangers_code_is_passed_over() -> None:
    kit = Kit()
    kit.grants.record_usage(99, [HostUsage(HOST, 5)])
    kit.grants.record_usage(1, [HostUsage("x" * 10_000, 5), HostUsage("", 1), HostUsage(OTHER, -5, -7)])
    kit.grants.record_host_note("unknown.example", 429, 5)
    kit.grants.record_host_note(OTHER, 77, 5)
    kit.grants.acknowledge_grants(99, 5, [])
    hosts, news = kit.up()
    assert (set(hosts), news, hosts[OTHER].requests) == ({OTHER}, [], 0)
    kit.grants.record_usage(1, [HostUsage(f"h{number}", 1) for number in range(1_000)])
    assert len(kit.up()[0]) == 200
    kit.grants.close()
