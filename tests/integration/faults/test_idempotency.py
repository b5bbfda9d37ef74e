"""One idempotency key from many clients at once: one set of tasks, and the same answer for everybody."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from crawlfleet.bootstrap.master import Master
from crawlfleet.model.ids import task_text
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.task_store import SubmissionAnswer
from crawlfleet.wire.tasks import TaskBody
from tests.integration.faults.faults_kit import Fleet, accepted_ids, echo, refusals
from tests.integration.faults.faults_stores import Stores

pytestmark = pytest.mark.integration

CLIENTS = 50
ONLY_POSTGRES = pytest.mark.parametrize(
    "unopened_stores", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)


async def at_once(masters: Sequence[Master], bodies: Sequence[Sequence[TaskBody]]) -> list[SubmissionAnswer]:
    calls = [
        masters[number % len(masters)].submit.submit_tasks(said, scope="shop", key="the key")
        for number, said in enumerate(bodies)
    ]
    return await asyncio.gather(*calls)


def assert_one_set(answers: Sequence[SubmissionAnswer], size: int) -> None:
    assert len({tuple(accepted_ids(answer)) for answer in answers}) == 1
    assert {len(accepted_ids(answer)) for answer in answers} == {size}
    assert [answer.is_replay for answer in answers].count(False) == 1


async def test_fifty_clients_with_one_key_make_one_task(fleet: Fleet) -> None:
    answers = await at_once([fleet.master], [[echo()]] * CLIENTS)
    assert_one_set(answers, 1)
    assert await fleet.store.count_rows() == {TaskStatus.PENDING: 1}


@ONLY_POSTGRES
@pytest.mark.parametrize("size", [1, 30])
async def test_fifty_clients_of_two_masters_with_one_key_make_one_batch(stores: Stores, size: int) -> None:
    fleet = Fleet(await stores.fresh())
    first = await fleet.start()
    second = await fleet.start(await stores.another(), leads=False)
    answers = await at_once([first, second], [[echo()] * size] * CLIENTS)
    assert_one_set(answers, size)
    assert await fleet.store.count_rows() == {TaskStatus.PENDING: size}
    assert await fleet.store.task_totals() == {TaskStatus.PENDING: size}


@ONLY_POSTGRES
async def test_two_masters_that_race_with_two_bodies_agree_on_one(stores: Stores) -> None:
    fleet = Fleet(await stores.fresh())
    masters = [await fleet.start(), await fleet.start(await stores.another(), leads=False)]
    answers = await at_once(masters, [[echo(name="even")], [echo(name="odd")]] * (CLIENTS // 2))
    (task,) = {task for answer in answers for task in accepted_ids(answer)}
    won = (await fleet.record(task)).name == "odd"
    for number, answer in enumerate(answers):
        if number % 2 == won:
            assert accepted_ids(answer) == [task]
        else:
            assert [refusal.code for refusal in refusals(answer)] == [Code.IDEMPOTENCY_MISMATCH]
    assert await fleet.store.count_rows() == {TaskStatus.PENDING: 1}


async def test_another_body_under_the_key_is_refused_whoever_comes_first(fleet: Fleet) -> None:
    bodies = [[echo(name=f"body {number % 5}")] for number in range(CLIENTS)]
    answers = await at_once([fleet.master], bodies)
    (task,) = {task for answer in answers for task in accepted_ids(answer)}
    taken = (await fleet.record(task)).name
    for (body,), answer in zip(bodies, answers, strict=True):
        if body.name == taken:
            assert accepted_ids(answer) == [task]
        else:
            assert [refusal.code for refusal in refusals(answer)] == [Code.IDEMPOTENCY_MISMATCH]


async def test_a_key_of_which_nothing_was_taken_binds_nobody(fleet: Fleet) -> None:
    unknown = [echo(depends_on=[task_text(1)])]
    answers = await at_once([fleet.master], [unknown] * CLIENTS)
    assert {refusals(answer)[0].code for answer in answers} == {Code.UNKNOWN_DEPENDENCY}
    assert await fleet.store.count_rows() == {}
    assert_one_set(await at_once([fleet.master], [[echo()]] * CLIENTS), 1)


async def test_a_key_is_its_scopes_own(fleet: Fleet) -> None:
    pairs = [("a", "bc"), ("ab", "c"), ("", "abc"), ("1:a", "bc"), ("a", "b:c")]
    answers = await asyncio.gather(
        *(fleet.master.submit.submit_tasks([echo()], scope=scope, key=key) for scope, key in pairs * 3)
    )
    assert len({tuple(accepted_ids(answer)) for answer in answers}) == len(pairs)
    assert await fleet.store.count_rows() == {TaskStatus.PENDING: len(pairs)}


async def test_a_replay_says_what_was_answered_first_even_when_the_task_has_ended(fleet: Fleet) -> None:
    await fleet.node()
    first = await fleet.submit(echo(), echo(), batch="b", key="k")
    await fleet.settle()
    again = await fleet.submit(echo(), echo(), batch="b", key="k")
    assert again.items == first.items
    await fleet.judge()
