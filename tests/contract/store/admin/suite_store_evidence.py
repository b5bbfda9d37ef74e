"""Evidence: what ended is folded once, whoever folds it, and found by what it was about."""

import pytest

from crawlfleet.errors import NotLeader
from crawlfleet.model.evidence import HALF_LIFE_MS, KEEP_MS, EvidenceRow, Record, Subject
from crawlfleet.model.execution import End
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import ErrorClass
from crawlfleet.model.task import DecideTransition, RetryPolicy
from crawlfleet.ports.event_store import EndedRun, EndedRuns
from crawlfleet.ports.store import Store
from crawlfleet.scheduling.tasks import task_state_machine
from testkit.factories import PROJECT, Kit, Run

REACT: Subject = ("technology", "react")
SHOP: Subject = ("host", "shop.example")
DAY_MS = 86_400_000


async def _ended(store: Store, kit: Kit) -> EndedRuns:
    await kit.events()
    found = await store.ended_runs(1_000)
    assert found is not None
    return found


def _row(node: int, subject: Subject = REACT, address: str = "", **counts: float) -> EvidenceRow:
    return EvidenceRow(node, subject, address, Record(**counts))  # type: ignore[arg-type]


async def nothing_is_read_before_somebody_wants_to_know(store: Store, kit: Kit) -> None:
    await kit.ended_completed()
    await kit.events()
    assert await store.ended_runs(100) is None
    await store.want_evidence()
    found = await store.ended_runs(100)
    assert found == EndedRuns(found.after, found.after, ()) if found else False
    task = await kit.ended_completed()
    await store.want_evidence()
    assert [run.task for run in (await _ended(store, kit)).runs] == [task]


async def executions_that_ended_are_told_with_node_and_error(store: Store, kit: Kit) -> None:
    await store.want_evidence()
    node, again = await kit.node(), RetryPolicy(5, 1.0, 1.0)
    completed, failed, blocked, late, lost, cancelled = await kit.run(node, 6, retry=again)
    await kit.complete(completed)
    await kit.fail(failed, error=ErrorClass.NETWORK)
    await kit.fail(blocked, error=ErrorClass.BLOCKED)
    await kit.finish(late, End.TIMED_OUT)
    await kit.finish(lost, End.PROCESS_LOST)
    await kit.cancel(cancelled.task)
    await kit.finish(cancelled, End.STOPPED)

    def run(ended: Run, error: ErrorClass | None) -> EndedRun:
        return EndedRun(ended.task, ended.execution, node.id, kit.now, error)

    found = await _ended(store, kit)
    assert sorted(found.runs) == sorted(
        [
            run(completed, None),
            run(failed, ErrorClass.NETWORK),
            run(blocked, ErrorClass.BLOCKED),
            run(late, ErrorClass.TIMEOUT),
        ]
    )
    assert found.up_to == (await kit.events())[-1].number


async def a_final_failure_and_the_long_way_of_completing_are_told_as_well(store: Store, kit: Kit) -> None:
    await store.want_evidence()
    node = await kit.node()
    failed, completed = await kit.run(node, 2)
    await kit.fail(failed, error=ErrorClass.INPUT)
    await kit.finish(completed, End.COMPLETED)
    found = {run.task: run.error for run in (await _ended(store, kit)).runs}
    assert found == {failed.task: ErrorClass.INPUT, completed.task: None}


async def what_was_folded_is_not_read_again(store: Store, kit: Kit) -> None:
    await store.want_evidence()
    await kit.ended_completed()
    found, term = await _ended(store, kit), await kit.term()
    assert await store.fold_evidence(found, [], term) == []
    after = await store.ended_runs(100)
    assert after == EndedRuns(found.up_to, found.up_to, ())
    task = await kit.ended_completed()
    assert [run.task for run in (await _ended(store, kit)).runs] == [task]


async def events_are_folded_once_though_somebody_tries_twice(store: Store, kit: Kit) -> None:
    await store.want_evidence()
    await kit.ended_completed()
    found, term = await _ended(store, kit), await kit.term()
    news = [_row(7, ok=1.0, at=kit.now)]
    assert await store.fold_evidence(found, news, term) == news
    async with kit.unchanged():
        assert await store.fold_evidence(found, news, term) is None
    (row,) = await store.load_evidence([REACT])
    assert row.record.ok == 1.0


async def a_leader_of_the_past_folds_nothing(store: Store, kit: Kit) -> None:
    await store.want_evidence()
    await kit.ended_completed()
    found, term = await _ended(store, kit), await kit.term()
    async with kit.unchanged():
        with pytest.raises(NotLeader):
            await store.fold_evidence(found, [_row(7, ok=1.0)], term + 1)
    assert await store.fold_evidence(found, [_row(7, ok=1.0)], term) is not None


async def the_log_is_read_a_few_rows_at_a_time_and_nothing_is_missed(store: Store, kit: Kit) -> None:
    await store.want_evidence()
    term, tasks = await kit.term(), [await kit.ended_completed() for _ in range(5)]
    await kit.events()
    told: list[int] = []
    while (found := await store.ended_runs(2)) and found.up_to != found.after:
        told += [run.task for run in found.runs]
        await store.fold_evidence(found, [], term)
    assert told == tasks


async def records_of_one_node_and_subject_add_up_and_fade(store: Store, kit: Kit) -> None:
    await store.want_evidence()
    term = await kit.term()
    await kit.ended_completed()
    await store.fold_evidence(await _ended(store, kit), [_row(7, ok=2.0, at=kit.now)] * 2, term)
    now = kit.later(HALF_LIFE_MS)
    await kit.ended_completed()
    blocked = _row(7, failed=2.0, blocked=1.0, at=now, last_blocked_at=now)
    assert await store.fold_evidence(await _ended(store, kit), [blocked], term) == await store.load_evidence([REACT])
    assert await store.load_evidence([REACT]) == [EvidenceRow(7, REACT, "", Record(2.0, 2.0, 1.0, now, now))]


async def evidence_is_found_by_subject_with_the_newest_address(store: Store, kit: Kit) -> None:
    await store.want_evidence()
    term = await kit.term()
    for address in ("198.51.100.1", "198.51.100.2"):
        await kit.ended_completed()
        rows = [_row(7, SHOP, address, ok=1.0, at=kit.now), _row(8, ok=1.0, at=kit.now)]
        await store.fold_evidence(await _ended(store, kit), [*rows, _row(9, ("technology", "shop.example"))], term)
    (row,) = await store.load_evidence([SHOP, ("host", "other.example")])
    assert (row.node, row.subject, row.address, row.record.ok) == (7, SHOP, "198.51.100.2", 2.0)
    assert {row.node for row in await store.load_evidence([SHOP, REACT])} == {7, 8}
    assert await store.load_evidence([]) == []


async def what_a_task_was_about_is_found_while_it_lives_and_when_it_is_over(store: Store, kit: Kit) -> None:
    requirement = Requirement("echo", strategy="anti_crawling", subjects=(SHOP,))
    lane = Lane.with_id("default", PROJECT, 5, requirement)
    await store.ensure_lanes([lane])
    plain = await kit.submit_one()
    fields = {"retry": RetryPolicy(1, 2.0, 3.0), "parameters": b'{"url":"http://shop.example"}'}
    waiting, over = kit.new_task(lane=lane, **fields), kit.new_task(lane=lane, **fields)  # type: ignore[arg-type]
    await kit.add([waiting, over])
    (run,) = await kit.assign([over.id], await kit.node())
    await kit.complete(run)
    found = await store.task_contents([plain, waiting.id, over.id])
    assert found.keys() == {waiting.id, over.id}
    assert {content.requirement for content in found.values()} == {requirement}
    assert found[over.id].spec == over.spec
    assert await store.task_parameters([plain, over.id]) == {plain: b"{}", over.id: over.parameters}


async def where_a_task_failed_last_is_known(store: Store, kit: Kit) -> None:
    first, second, again = await kit.node(), await kit.node(), RetryPolicy(5, 0.0, 0.0)
    failed, moved, fresh = await kit.submit(3, retry=again)
    for node in (first, second):
        for run in await kit.assign([failed, moved], node):
            if run.task == moved and node is second:
                await kit.finish(run, End.RETURNED)
            else:
                await kit.fail(run, error=ErrorClass.NETWORK)
        if node is first:
            await kit.store.change_tasks([failed, moved], _ready(kit), kit.later())
    assert await store.failed_nodes([failed, moved, fresh]) == {failed: second.id}
    assert await store.failed_nodes([]) == {}


def _ready(kit: Kit) -> DecideTransition:
    return task_state_machine.release_due(kit.now + DAY_MS)


async def evidence_that_has_faded_away_is_dropped(store: Store, kit: Kit) -> None:
    await store.want_evidence()
    await kit.ended_completed()
    term = await kit.term()
    await store.fold_evidence(await _ended(store, kit), [_row(7, ok=9.0, at=kit.now)], term)
    await store.prune_rows(term, kit.now + KEEP_MS - 1, 10**12, 10**12, 100)
    assert await store.load_evidence([REACT])
    await store.prune_rows(term, kit.now + KEEP_MS + 1, 10**12, 10**12, 100)
    assert await store.load_evidence([REACT]) == []
