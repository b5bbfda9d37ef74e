"""Tokens and the audit log."""

import asyncio
from typing import Any

import pytest

from crawlfleet.errors import Conflict, NotAllowed, NotFound
from crawlfleet.model.node import NodeDescription
from crawlfleet.model.principal import AuditEntry, Role
from crawlfleet.ports.admin_store import NewAuditEntry, NewToken
from crawlfleet.ports.node_store import NewNode
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Claim, IdempotencyMismatch
from testkit.factories import Kit

ROUNDS = 10
MINUTE_MS = 60_000


async def a_token_is_kept_as_it_was_made(store: Store, kit: Kit) -> None:
    made = await store.add_token(NewToken(Role.ENROL, "for the rack", "hash", "ann", kit.now + 5, 3), kit.now)
    assert (made.role, made.name, made.created_at, made.created_by) == (Role.ENROL, "for the rack", kit.now, "ann")
    assert (made.expires_at, made.uses_left) == (kit.now + 5, 3)
    assert (made.last_used_at, made.rotated_at, made.rotated_by, made.revoked_at) == (None, None, None, None)
    assert await kit.second.token_by_secret("hash") == made
    assert await kit.second.list_tokens() == [made]


async def an_unknown_secret_has_no_token(store: Store, kit: Kit) -> None:
    await store.add_token(_new("hash"), kit.now)
    assert await kit.second.token_by_secret("other") is None


async def tokens_are_listed_newest_first_whatever_their_state(store: Store, kit: Kit) -> None:
    made = [await store.add_token(_new(f"hash {n}", expires_at=kit.now + n), kit.now) for n in range(1, 4)]
    await store.revoke_token(made[1].id, kit.later())
    assert [token.id for token in await kit.second.list_tokens()] == [token.id for token in reversed(made)]


async def a_revoked_token_says_since_when_and_is_revoked_once(store: Store, kit: Kit) -> None:
    made = await store.add_token(_new("hash"), kit.now)
    at = kit.later()
    assert (await store.revoke_token(made.id, at)).revoked_at == at
    async with kit.unchanged():
        await store.revoke_token(made.id, kit.later())
    found = await kit.second.token_by_secret("hash")
    assert found is not None
    assert (found.revoked_at, found.is_usable(kit.now)) == (at, False)


async def a_rotated_token_has_only_its_new_secret(store: Store, kit: Kit) -> None:
    made = await store.add_token(_new("old", Role.ENROL, uses=7), kit.now)
    await store.touch_token(made.id, kit.now, MINUTE_MS)
    rotated = await store.rotate_token(made.id, "new", "bob", kit.later())
    assert (rotated.id, rotated.uses_left, rotated.created_by) == (made.id, 7, made.created_by)
    assert (rotated.rotated_at, rotated.rotated_by, rotated.last_used_at) == (kit.now, "bob", None)
    assert await kit.second.token_by_secret("old") is None
    assert await kit.second.token_by_secret("new") == rotated


async def a_token_out_of_use_is_not_rotated(store: Store, kit: Kit) -> None:
    revoked = await store.add_token(_new("revoked"), kit.now)
    await store.revoke_token(revoked.id, kit.now)
    expired = await store.add_token(_new("expired", expires_at=kit.now + 1), kit.now)
    kit.later(1)
    async with kit.unchanged():
        for token in (revoked, expired):
            with pytest.raises(Conflict):
                await store.rotate_token(token.id, "new", "bob", kit.now)


async def a_token_that_is_not_there_is_neither_rotated_nor_revoked(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        with pytest.raises(NotFound):
            await store.rotate_token(12_345, "new", "bob", kit.now)
        with pytest.raises(NotFound):
            await store.revoke_token(12_345, kit.now)


async def the_use_of_a_token_is_noted_once_in_a_while(store: Store, kit: Kit) -> None:
    made = await store.add_token(_new("hash"), kit.now)
    first = kit.now
    for ms, expected in ((0, first), (MINUTE_MS - 1, first), (1, first + MINUTE_MS)):
        await store.touch_token(made.id, kit.later(ms), MINUTE_MS)
        assert [token.last_used_at for token in await kit.second.list_tokens()] == [expected]


# -- enrolment


async def an_enrolment_is_used_as_often_as_it_says(store: Store, kit: Kit) -> None:
    made = await store.add_token(_new("hash", Role.ENROL, uses=2), kit.now)
    for uses_left in (1, 0):
        await store.register_node(_joining(kit, f"key {uses_left}", enrolment="hash"), kit.later())
        token = await kit.second.token_by_secret("hash")
        assert token is not None
        assert (token.id, token.uses_left, token.last_used_at) == (made.id, uses_left, kit.now)
    async with kit.unchanged():
        assert not await _may_join(store, kit, "a third", "hash")


async def of_many_that_use_an_enrolment_at_once_as_many_get_in_as_it_says(store: Store, kit: Kit) -> None:
    for n in range(ROUNDS):
        await store.add_token(_new(f"hash {n}", Role.ENROL, uses=3), kit.now)
        calls = [_may_join((store, kit.second)[m % 2], kit, f"key {n} {m}", f"hash {n}") for m in range(8)]
        assert (await asyncio.gather(*calls)).count(True) == 3
        assert [token.uses_left for token in await kit.second.list_tokens()] == [0] * (n + 1)
        assert len(await kit.second.load_nodes()) == 3 * (n + 1)


async def an_enrolment_without_a_number_is_used_for_ever(store: Store, kit: Kit) -> None:
    await store.add_token(_new("hash", Role.ENROL), kit.now)
    for n in range(5):
        await store.register_node(_joining(kit, f"key {n}", enrolment="hash"), kit.later())
        token = await kit.second.token_by_secret("hash")
        assert token is not None
        assert (token.uses_left, token.last_used_at) == (None, kit.now)


async def an_enrolment_that_is_over_is_not_used(store: Store, kit: Kit) -> None:
    await store.add_token(_new("expired", Role.ENROL, expires_at=kit.now + 1), kit.now)
    revoked = await store.add_token(_new("revoked", Role.ENROL), kit.now)
    await store.revoke_token(revoked.id, kit.now)
    await store.add_token(_new("admin", Role.ADMIN), kit.now)
    kit.later(1)
    async with kit.unchanged():
        for secret in ("expired", "revoked", "admin", "unknown"):
            assert not await _may_join(store, kit, "key", secret)


async def a_node_that_asks_again_uses_nothing_up(store: Store, kit: Kit) -> None:
    await store.add_token(_new("hash", Role.ENROL, uses=1), kit.now)
    node = await store.register_node(_joining(kit, "key"), kit.now)
    assert await _may_join(store, kit, "somebody else's", "hash")
    async with kit.unchanged():
        assert not await _may_join(store, kit, "a third's", "hash")
        assert await _may_join(store, kit, "key", "hash")
        assert not await _may_join(store, kit, "key", "other")
    await store.unregister_node(node, kit.now)
    assert not await _may_join(store, kit, "key", "hash")


async def a_node_that_asks_again_needs_an_enrolment_that_is_in_force(store: Store, kit: Kit) -> None:
    token = await store.add_token(_new("hash", Role.ENROL, expires_at=kit.now + 1_000), kit.now)
    await store.register_node(_joining(kit, "key"), kit.now)
    with pytest.raises(NotAllowed):
        await store.register_node(_joining(kit, "key", enrolment="hash"), kit.now + 1_000)
    assert await _may_join(store, kit, "key", "hash")
    await store.revoke_token(token.id, kit.now)
    assert not await _may_join(store, kit, "key", "hash")


async def registering_spends_an_enrolment_or_changes_nothing(store: Store, kit: Kit) -> None:
    made = await store.add_token(_new("hash", Role.ENROL, uses=1), kit.now)
    known = await store.register_node(_joining(kit, "known", "worker-001"), kit.now)
    async with kit.unchanged():
        with pytest.raises(Conflict):
            await store.register_node(_joining(kit, "one", "worker-001", enrolment="hash"), kit.now)
        for secret in ("unknown", ""):
            with pytest.raises(NotAllowed):
                await store.register_node(_joining(kit, "one", enrolment=secret), kit.now)
    node = await store.register_node(_joining(kit, "one", enrolment="hash"), kit.now)
    assert [token.uses_left for token in await kit.second.list_tokens() if token.id == made.id] == [0]
    assert await kit.second.register_node(_joining(kit, "one", enrolment="hash"), kit.now) == node
    assert await kit.second.register_node(_joining(kit, "known", enrolment="hash"), kit.now) == known
    async with kit.unchanged():
        with pytest.raises(NotAllowed):
            await store.register_node(_joining(kit, "two", enrolment="hash"), kit.now)


async def one_node_that_joins_many_times_at_once_needs_one_use(store: Store, kit: Kit) -> None:
    for n in range(ROUNDS):
        await store.add_token(_new(f"hash {n}", Role.ENROL, uses=1), kit.now)
        calls = [
            (store, kit.second)[m % 2].register_node(_joining(kit, f"key {n}", enrolment=f"hash {n}"), kit.now)
            for m in range(4)
        ]
        assert len(set(await asyncio.gather(*calls))) == 1


# -- idempotency keys


async def a_token_is_made_once_under_a_key(store: Store, kit: Kit) -> None:
    first = await store.add_token_once(_new("first"), _claim(kit), kit.now)
    assert not first.is_replay
    async with kit.unchanged():
        again = await kit.second.add_token_once(_new("second"), _claim(kit), kit.now)
        assert (again.record, again.is_replay) == (first.record, True)
        with pytest.raises(IdempotencyMismatch):
            await store.add_token_once(_new("third"), _claim(kit, body=b"other"), kit.now)
    assert not (await store.add_token_once(_new("fourth"), _claim(kit, scope="other"), kit.now)).is_replay
    kit.later(2_000)
    assert not (await store.add_token_once(_new("fifth"), _claim(kit, body=b"other"), kit.now)).is_replay


async def of_many_under_one_key_one_makes_a_token(store: Store, kit: Kit) -> None:
    for n in range(ROUNDS):
        calls = [
            (store, kit.second)[m % 2].add_token_once(_new(f"hash {n} {m}"), _claim(kit, scope=f"{n}"), kit.now)
            for m in range(6)
        ]
        answers = await asyncio.gather(*calls)
        assert len({answer.record.id for answer in answers}) == 1
        assert [answer.is_replay for answer in answers].count(False) == 1


async def a_node_registers_under_a_key_with_one_body(store: Store, kit: Kit) -> None:
    await store.register_node(_joining(kit, "taken", "worker-001"), kit.now)
    with pytest.raises(Conflict):
        await store.register_node(_joining(kit, "one", "worker-001", claim=_claim(kit, body=b"refused")), kit.now)
    node = await store.register_node(_joining(kit, "one", claim=_claim(kit)), kit.now)
    assert await kit.second.register_node(_joining(kit, "one", claim=_claim(kit)), kit.now) == node
    async with kit.unchanged():
        with pytest.raises(IdempotencyMismatch):
            await store.register_node(_joining(kit, "one", claim=_claim(kit, body=b"other")), kit.now)


async def _may_join(store: Store, kit: Kit, join_key: str, enrolment: str) -> bool:
    try:
        await store.register_node(_joining(kit, join_key, enrolment=enrolment), kit.now)
    except NotAllowed:
        return False
    return True


def _joining(kit: Kit, join_key: str, device_id: str | None = None, **fields: Any) -> NewNode:
    return NewNode(kit.ids.new_id(), join_key, "secret", NodeDescription("worker", device_id=device_id), **fields)


def _claim(kit: Kit, scope: str = "scope", body: bytes = b"body") -> Claim:
    return Claim(scope, "key", body, kit.now + 1_000)


# -- the first admin


async def the_first_admin_is_added_once(store: Store, kit: Kit) -> None:
    assert await store.add_first_admin(_new("first", Role.ADMIN), kit.now) is not None
    async with kit.unchanged():
        assert await store.add_first_admin(_new("second", Role.ADMIN), kit.now) is None


async def of_many_that_add_the_first_admin_at_once_one_does(store: Store, kit: Kit) -> None:
    for n in range(ROUNDS):
        calls = [(store, kit.second)[m % 2].add_first_admin(_new(f"{n} {m}", Role.ADMIN), kit.now) for m in range(6)]
        (added,) = [token for token in await asyncio.gather(*calls) if token is not None]
        await store.revoke_token(added.id, kit.now)


async def an_admin_is_missing_when_none_is_usable(store: Store, kit: Kit) -> None:
    await store.add_token(_new("operator", Role.OPERATOR), kit.now)
    revoked = await store.add_first_admin(_new("revoked", Role.ADMIN), kit.now)
    assert revoked is not None
    await store.revoke_token(revoked.id, kit.now)
    assert await store.add_first_admin(_new("expiring", Role.ADMIN, expires_at=kit.now + 10), kit.now) is not None
    assert await store.add_first_admin(_new("early", Role.ADMIN), kit.now) is None
    assert await store.add_first_admin(_new("third", Role.ADMIN), kit.later(10)) is not None


# -- audit


async def what_was_done_is_read_from_the_newest_on(store: Store, kit: Kit) -> None:
    for n in range(5):
        await store.add_audit_entry(_entry(kit, target=f"task {n}"))
    first = await kit.second.audit_page(2)
    rest = await kit.second.audit_page(10, before=first[-1].id)
    assert [entry.target for entry in first] == ["task 4", "task 3"]
    assert [entry.target for entry in rest] == ["task 2", "task 1", "task 0"]
    assert await kit.second.audit_page(10, before=rest[-1].id) == []


async def an_entry_is_kept_whole(store: Store, kit: Kit) -> None:
    await store.add_audit_entry(_entry(kit, details=b'{"priority":[5,9]}'))
    await store.add_audit_entry(_entry(kit, role=None, name="", token=None, node=77, action="token.refused"))
    nobody, ann = await kit.second.audit_page(10)
    assert ann == AuditEntry(
        ann.id, kit.now, Role.OPERATOR, "ann", 3, None, "10.0.0.9", "task.cancel", "task-1", {"priority": [5, 9]}
    )
    assert (nobody.role, nobody.name, nobody.token, nobody.node) == (None, "", None, 77)


def _new(secret_hash: str, role: Role = Role.VIEWER, **fields: Any) -> NewToken:
    return NewToken(role, "a token", secret_hash, "ann", **fields)


def _entry(kit: Kit, **fields: Any) -> NewAuditEntry:
    usual = NewAuditEntry(kit.now, Role.OPERATOR, "ann", 3, None, "10.0.0.9", "task.cancel", "task-1", b"{}")
    return usual._replace(**fields)
