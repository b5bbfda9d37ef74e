"""Idempotency keys: one answer for each, whoever asks and however often."""

import asyncio

from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Accepted, Claim, Submission, SubmissionAnswer
from testkit.factories import PROJECT, Kit, accepted, refused

DAY_MS = 24 * 3_600_000
BAD = Refusal(Code.INVALID_INPUT, "not a number", "parameters.depth")


def _claim(kit: Kit, key: str = "order-1", *, body: bytes = b"body", scope: str = PROJECT) -> Claim:
    return Claim(scope, key, body, kit.now + DAY_MS)


async def a_key_used_again_gives_the_first_answer(store: Store, kit: Kit) -> None:
    first = await kit.add([kit.new_task(), BAD, kit.new_task(due_at=kit.now + 1)], claim=_claim(kit))
    kit.later()
    async with kit.unchanged():
        again = await kit.add([kit.new_task(), BAD, kit.new_task()], claim=_claim(kit))
    assert again.items == first.items
    assert again.is_replay
    assert not first.is_replay


async def a_replay_is_the_first_answer_though_the_task_went_on(store: Store, kit: Kit) -> None:
    first = await kit.add([kit.new_task()], claim=_claim(kit))
    await kit.cancel(accepted(first.items[0]).id)
    again = await kit.add([kit.new_task()], claim=_claim(kit))
    assert again.items == first.items


async def a_replay_hints_at_nothing(store: Store, kit: Kit) -> None:
    await kit.add([kit.new_task()], claim=_claim(kit))
    added = await store.add_tasks([Submission([kit.new_task()], claim=_claim(kit))], kit.now)
    assert added.ready == {}


async def a_kept_answer_can_be_asked_for_without_adding_anything(store: Store, kit: Kit) -> None:
    claim = _claim(kit)
    assert await store.stored_answer(claim, 1, kit.now) is None
    first = await kit.add([kit.new_task()], claim=claim)
    async with kit.unchanged():
        assert await kit.second.stored_answer(claim, 1, kit.now) == SubmissionAnswer(first.items, is_replay=True)
        mismatch = await store.stored_answer(_claim(kit, body=b"other"), 2, kit.now)
        assert mismatch is not None
        assert [refused(item).code for item in mismatch.items] == [Code.IDEMPOTENCY_MISMATCH] * 2
        for other in (_claim(kit, "order-2"), _claim(kit, scope="books")):
            assert await store.stored_answer(other, 1, kit.now) is None
        assert await store.stored_answer(claim, 1, claim.expires_at) is None


async def a_key_is_known_to_every_master(store: Store, kit: Kit) -> None:
    first = await kit.add([kit.new_task()], claim=_claim(kit))
    added = await kit.second.add_tasks([Submission([kit.new_task()], claim=_claim(kit))], kit.now)
    assert added.answers[0] == SubmissionAnswer(first.items, is_replay=True)


async def a_key_with_another_body_is_refused(store: Store, kit: Kit) -> None:
    await kit.add([kit.new_task()], claim=_claim(kit))
    async with kit.unchanged():
        answer = await kit.add([kit.new_task(), kit.new_task()], claim=_claim(kit, body=b"other"))
    assert [refused(item).code for item in answer.items] == [Code.IDEMPOTENCY_MISMATCH] * 2
    assert refused(answer.items[0]).field == "Idempotency-Key"


async def the_same_key_in_another_project_is_another_key(store: Store, kit: Kit) -> None:
    first = await kit.add([kit.new_task()], claim=_claim(kit))
    other = await kit.add([kit.new_task()], claim=_claim(kit, scope="books"))
    assert not other.is_replay
    assert accepted(other.items[0]).id != accepted(first.items[0]).id


async def no_project_and_key_can_be_taken_for_another_pair(store: Store, kit: Kit) -> None:
    await kit.add([kit.new_task()], claim=_claim(kit, "b\x1fc", scope="a"))
    other = await kit.add([kit.new_task()], claim=_claim(kit, "c", scope="a\x1fb"))
    assert not other.is_replay


async def a_key_past_its_time_is_free_again(store: Store, kit: Kit) -> None:
    first = await kit.add([kit.new_task()], claim=_claim(kit))
    kit.later(DAY_MS)
    again = await kit.add([kit.new_task()], claim=_claim(kit, body=b"other"))
    assert not again.is_replay
    assert accepted(again.items[0]).id != accepted(first.items[0]).id


async def a_key_holds_until_its_time(store: Store, kit: Kit) -> None:
    await kit.add([kit.new_task()], claim=_claim(kit))
    claim = _claim(kit)
    kit.later(DAY_MS - 1)
    assert (await kit.add([kit.new_task()], claim=claim)).is_replay


async def the_key_of_a_wholly_refused_request_can_be_used_again(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        await kit.add([BAD], claim=_claim(kit))
    mended = await kit.add([kit.new_task()], claim=_claim(kit, body=b"mended"))
    assert isinstance(mended.items[0], Accepted)


async def the_key_of_a_refused_atomic_batch_can_be_used_again(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        await kit.add([kit.new_task(), kit.new_task(parents=[1])], is_atomic=True, claim=_claim(kit))
    mended = await kit.add([kit.new_task()], is_atomic=True, claim=_claim(kit, body=b"mended"))
    assert isinstance(mended.items[0], Accepted)


async def one_key_from_fifty_callers_at_once_makes_one_task(store: Store, kit: Kit) -> None:
    answers = await asyncio.gather(
        *(
            (store, kit.second)[n % 2].add_tasks([Submission([kit.new_task()], claim=_claim(kit))], kit.now)
            for n in range(50)
        )
    )
    ids = {accepted(added.answers[0].items[0]).id for added in answers}
    assert len(ids) == 1
    assert sum(not added.answers[0].is_replay for added in answers) == 1
    assert sum((await kit.second.count_rows()).values()) == 1


async def one_key_many_times_in_one_call_makes_one_task(store: Store, kit: Kit) -> None:
    added = await store.add_tasks([Submission([kit.new_task()], claim=_claim(kit)) for _ in range(5)], kit.now)
    assert [answer.is_replay for answer in added.answers] == [False, True, True, True, True]
    assert len({accepted(answer.items[0]).id for answer in added.answers}) == 1
    assert sum((await kit.second.count_rows()).values()) == 1


async def another_body_in_the_same_call_is_refused_alone(store: Store, kit: Kit) -> None:
    bodies = [b"body", b"other", b"body"]
    added = await store.add_tasks(
        [Submission([kit.new_task()], claim=_claim(kit, body=body)) for body in bodies], kit.now
    )
    first, other, twin = (answer.items[0] for answer in added.answers)
    assert refused(other).code is Code.IDEMPOTENCY_MISMATCH
    assert accepted(first) == accepted(twin)


async def a_replay_is_not_harmed_by_another_body_in_the_same_call(store: Store, kit: Kit) -> None:
    first = await kit.add([kit.new_task()], claim=_claim(kit))
    bodies = [b"other", b"body", b"other"]
    added = await store.add_tasks(
        [Submission([kit.new_task()], claim=_claim(kit, body=body)) for body in bodies], kit.now
    )
    other, replay, another = added.answers
    assert replay == SubmissionAnswer(first.items, is_replay=True)
    assert [refused(answer.items[0]).code for answer in (other, another)] == [Code.IDEMPOTENCY_MISMATCH] * 2


async def fifty_keys_at_once_do_not_disturb_each_other(store: Store, kit: Kit) -> None:
    calls = [
        store.add_tasks([Submission([kit.new_task()], claim=_claim(kit, f"{n}")), Submission([BAD])], kit.now)
        for n in range(50)
    ]
    answers = await asyncio.gather(*calls)
    assert len({accepted(added.answers[0].items[0]).id for added in answers}) == 50
    assert all(added.answers[1].items == [BAD] for added in answers)


async def keys_in_any_order_from_many_callers_do_not_deadlock(store: Store, kit: Kit) -> None:
    keys = [f"key-{n}" for n in range(12)]

    async def call() -> list[int]:
        mixed = kit.rng.sample(keys, len(keys))
        added = await store.add_tasks([Submission([kit.new_task()], claim=_claim(kit, key)) for key in mixed], kit.now)
        ids = {key: accepted(answer.items[0]).id for key, answer in zip(mixed, added.answers, strict=True)}
        return [ids[key] for key in keys]

    answers = await asyncio.gather(*(call() for _ in range(10)))
    assert all(answer == answers[0] for answer in answers)
    assert sum((await kit.second.count_rows()).values()) == len(keys)
