"""What is learned from ended executions, and what the leader's memory of it may forget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import msgspec
import pytest

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.leader.evidence_cache import MAX_SUBJECTS, EvidenceCache
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.evidence_aggregator import EvidenceAggregator
from crawlfleet.control.loops.granter import Granter
from crawlfleet.model.evidence import EvidenceRow, Record, Subject
from crawlfleet.model.host import HostNoteKind
from crawlfleet.model.ids import TaskId
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import ErrorClass
from crawlfleet.ports.event_store import EvidenceStore
from crawlfleet.ports.host_store import HostNote
from crawlfleet.scheduling.placement.evidence_subjects import host_bucket
from testkit.clock import FakeClock
from testkit.factories import Kit
from tests.unit.store.store_kit import sqlite_kit

REACT: Subject = ("technology", "react")
SHOP: Subject = ("host", "shop.example")
ON_SHOP = Requirement("echo", subjects=(SHOP,))


class Desk:
    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        clock = FakeClock()
        self.knowing = EvidenceCache(store=kit.store, configure=Configure(store=kit.store, clock=clock))
        self.learner = EvidenceAggregator(
            store=kit.store, clock=clock, leadership=LeadershipState(), evidence=self.knowing
        )

    async def learn(self) -> None:
        await self.kit.events()
        while await self.learner.run_term(await self.kit.term(), self.kit.now):
            pass

    async def task(self, spec: dict[str, Any] | None) -> TaskId:
        task = self.kit.new_task(parameters=b'{"url":"http://shop.example/a"}')
        await self.kit.add([task._replace(spec=None if spec is None else msgspec.json.encode(spec))])
        return task.id

    async def records(self, *subjects: Subject) -> dict[Subject, Record]:
        return {row.subject: row.record for row in await self.kit.store.load_evidence(subjects)}

    async def known(self, *subjects: Subject) -> list[float]:
        """What the leader's memory has of node 7: how often it did well."""
        requirement = Requirement("echo", subjects=subjects)
        knowledge = await self.knowing.for_pass([requirement], await self.kit.term(), self.kit.now)
        return [knowledge.evidence.of(7, subject).ok for subject in subjects]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with sqlite_kit(tmp_path) as kit:
        await kit.store.want_evidence()
        yield Desk(kit)


async def test_outcomes_count_for_content_host_and_bucket(desk: Desk) -> None:
    kit, node = desk.kit, await desk.kit.node(egress="198.51.100.7")
    tasks = [await desk.task({"content_features": {"technology": "React"}}) for _ in range(4)]
    first, second, third, fourth = await kit.assign(tasks, node)
    await kit.complete(first)
    await kit.fail(second, error=ErrorClass.PARSE)
    await kit.fail(third, error=ErrorClass.BLOCKED)
    await kit.fail(fourth, error=ErrorClass.INPUT)
    await desk.learn()
    found = await desk.records(REACT, SHOP, host_bucket("shop.example"))
    assert found.keys() == {REACT, SHOP, host_bucket("shop.example")}
    assert set(found.values()) == {Record(1.0, 1.0, 1.0, kit.now, kit.now)}
    assert {row.address for row in await kit.store.load_evidence([SHOP])} == {"198.51.100.7"}


async def test_tasks_that_say_nothing_of_their_content_leave_no_evidence(desk: Desk) -> None:
    kit, node = desk.kit, await desk.kit.node()
    tasks = [await desk.task(None), await desk.task({"retry": {"max_retries": 1}})]
    await kit.complete(*await kit.assign(tasks, node))
    await desk.learn()
    assert await desk.records(SHOP) == {}


async def test_memory_follows_what_is_folded(desk: Desk) -> None:
    assert await desk.known(REACT, SHOP) == [0.0, 0.0]
    row = EvidenceRow(7, REACT, "", Record(ok=3.0, at=desk.kit.now))
    desk.knowing.apply_folded([row, row._replace(subject=("technology", "vue"))], await desk.kit.term())
    assert await desk.known(REACT) == [3.0]
    assert await desk.known(("technology", "vue")) == [0.0], "not asked for then: the store is, now"


async def test_memory_is_of_one_term(desk: Desk) -> None:
    term = await desk.kit.term()
    await desk.known(REACT)
    desk.knowing.apply_folded([EvidenceRow(7, REACT, "", Record(ok=3.0, at=1))], term)
    other = await desk.knowing.for_pass([Requirement("echo", subjects=(REACT,))], term + 1, desk.kit.now)
    assert other.evidence.of(7, REACT).ok == 0.0


async def test_memory_is_bounded(desk: Desk) -> None:
    for number in range(3):
        await desk.known(*((str(number), str(key)) for key in range(MAX_SUBJECTS - 1)))
        assert len(desk.knowing._rows) <= MAX_SUBJECTS


async def test_rows_read_while_others_are_folded_are_read_again(desk: Desk) -> None:
    class Slow:
        reads = 0
        may_answer = asyncio.Event()

        async def load_evidence(self, subjects: Sequence[Subject]) -> list[EvidenceRow]:
            Slow.reads += 1
            await self.may_answer.wait()
            return []

    configure = Configure(store=desk.kit.store, clock=FakeClock())
    knowing = EvidenceCache(store=cast("EvidenceStore", Slow()), configure=configure)
    asked = [Requirement("echo", subjects=(REACT,))]
    reading = asyncio.create_task(knowing.for_pass(asked, 1, 0))
    await asyncio.sleep(0)
    knowing.apply_folded([EvidenceRow(7, REACT, "", Record(ok=1.0))], 1)
    Slow.may_answer.set()
    await reading
    await knowing.for_pass(asked, 1, 0)
    await knowing.for_pass(asked, 1, 0)
    assert Slow.reads == 2


async def test_a_block_that_an_execution_outlived_is_evidence_on_its_node(desk: Desk) -> None:
    kit, node = desk.kit, await desk.kit.node(egress="198.51.100.7")
    clock = FakeClock()
    granter = Granter(
        store=kit.store,
        broker=MemoryBroker(),
        clock=clock,
        leadership=LeadershipState(),
        rng=Random(1),
        configure=Configure(store=kit.store, clock=clock),
        evidence=desk.knowing,
    )
    assert (await desk.knowing.for_pass([ON_SHOP], await kit.term(), kit.now)).evidence.of(node.id, SHOP).total == 0
    await kit.store.add_host_notes([HostNote("shop.example:8080", HostNoteKind.BLOCKED, 0, node.id)])
    for _ in range(2):
        await granter.run_term(await kit.term(), kit.now)
    found = await desk.records(SHOP, host_bucket("shop.example"))
    assert set(found.values()) == {Record(blocked=1.0, at=kit.now, last_blocked_at=kit.now)}
    known = await desk.knowing.for_pass([ON_SHOP], await kit.term(), kit.now)
    assert known.evidence.of(node.id, SHOP).blocked == 1.0
