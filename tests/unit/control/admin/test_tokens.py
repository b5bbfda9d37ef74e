"""Tokens: who gets in, who does not, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.control.admin.tokens import SECRET_DIGITS, TRUSTED_S, USES_MAX, Tokens, hash_secret, is_secret
from crawlfleet.errors import InvalidInput, NotAllowed, NotFound, StoreUnavailable
from crawlfleet.model import limits
from crawlfleet.model.ids import node_text
from crawlfleet.model.node import NodeDescription
from crawlfleet.model.principal import TOKEN_ROLES, Principal, Role, TokenRecord
from crawlfleet.ports.node_store import NewNode
from crawlfleet.store.store import SqlStore
from testkit.clock import FakeClock
from testkit.factories import Kit
from tests.unit.store.store_kit import sqlite_kit

UNKNOWN = "0" * SECRET_DIGITS


class CountingStore:
    """The store, with what is asked of it counted."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.calls: list[str] = []
        self.is_full = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if name == "touch_token" and self.is_full:
                raise StoreUnavailable("the disk is full")
            return await method(*args, **kwargs)

        return call


class Desk:
    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.clock = FakeClock(kit.now)
        self.store = CountingStore(kit.second)
        self.made = 0
        self.tokens = self.another()

    def another(self) -> Tokens:
        """The same installation through another master."""
        return Tokens(store=self.store, clock=self.clock, make_secret=self._secret)

    def _secret(self) -> str:
        self.made += 1
        return f"{self.made:064x}"

    async def secret(self, role: Role = Role.OPERATOR, **fields: Any) -> str:
        return (await self.tokens.create_token(role, name="ann", by="root", **fields)).secret

    async def record(self) -> TokenRecord:
        return (await self.tokens.list_tokens())[0]

    async def node(self, secret: str, enrolment: str | None = None) -> int:
        """Its secret is its join key, too. `enrolment` is what it joins with."""
        spent = None if enrolment is None else hash_secret(enrolment)
        new = NewNode(self.kit.ids.new_id(), secret, hash_secret(secret), NodeDescription("worker"), spent)
        return await self.kit.store.register_node(new, self.clock.now())


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with sqlite_kit(tmp_path) as kit:
        yield Desk(kit)


async def refused(tokens: Tokens, secret: str) -> bool:
    try:
        await tokens.authenticate(secret)
    except NotAllowed as exc:
        assert str(exc) == "this token is not valid"
        return True
    return False


@pytest.mark.parametrize("role", TOKEN_ROLES)
async def test_a_token_tells_who_calls(desk: Desk, role: Role) -> None:
    issued = await desk.tokens.create_token(role, name="the night shift", by=Principal(Role.ADMIN, "root"))
    assert issued.record.created_by == "root"
    principal = await desk.tokens.authenticate(issued.secret)
    assert principal == Principal(role, "the night shift", token=issued.record.id)


async def test_the_secret_is_neither_kept_nor_shown(desk: Desk) -> None:
    issued = await desk.tokens.create_token(Role.ADMIN, name="root", by="root")
    assert issued.secret not in repr(issued)
    assert issued.secret not in repr(await desk.tokens.list_tokens())
    assert issued.secret not in repr(await desk.kit.dump())
    assert is_secret(issued.secret, hash_secret(issued.secret))
    assert not is_secret(issued.secret, hash_secret(UNKNOWN))


@pytest.mark.parametrize("secret", ["", "x", UNKNOWN, UNKNOWN.replace("0", "A"), UNKNOWN[1:] + "\ud800", "0" * 10_000])
async def test_what_is_no_token_is_refused(desk: Desk, secret: str) -> None:
    assert await refused(desk.tokens, secret)


async def test_what_cannot_be_a_token_is_not_looked_up(desk: Desk) -> None:
    for secret in ("", "x" * SECRET_DIGITS, "0" * (SECRET_DIGITS + 1)):
        assert await refused(desk.tokens, secret)
    assert desk.store.calls == []


async def test_a_token_expires_to_the_moment_also_when_it_is_remembered(desk: Desk) -> None:
    secret = await desk.secret(expires_at=desk.clock.now() + 1_000)
    assert not await refused(desk.tokens, secret)
    desk.clock.advance(0.999)
    assert not await refused(desk.tokens, secret)
    desk.clock.advance(0.001)
    assert await refused(desk.tokens, secret)


async def test_a_revoked_token_is_over_here_at_once_and_elsewhere_soon(desk: Desk) -> None:
    secret, other = await desk.secret(), desk.another()
    for tokens in (desk.tokens, other):
        assert not await refused(tokens, secret)
    await desk.tokens.revoke_token((await desk.record()).id)
    assert await refused(desk.tokens, secret)
    assert not await refused(other, secret)
    desk.clock.advance(TRUSTED_S)
    assert await refused(other, secret)


async def test_a_look_that_began_before_a_revocation_is_not_remembered(desk: Desk) -> None:
    secret = await desk.secret()
    token = (await desk.record()).id
    await asyncio.gather(desk.tokens.authenticate(secret), desk.tokens.revoke_token(token), return_exceptions=True)
    assert await refused(desk.tokens, secret)


async def test_a_rotated_token_has_a_new_secret_and_the_old_one_stops_at_once(desk: Desk) -> None:
    secret = await desk.secret()
    assert not await refused(desk.tokens, secret)
    issued = await desk.tokens.rotate_token((await desk.record()).id, by=Principal(Role.ADMIN, "bob"))
    assert await refused(desk.tokens, secret)
    assert (await desk.tokens.authenticate(issued.secret)).token == issued.record.id
    assert issued.record.rotated_by == "bob"


@pytest.mark.parametrize("token", [0, -1, 12_345, 1 << 70])
async def test_a_token_that_is_not_there_is_said_so(desk: Desk, token: int) -> None:
    with pytest.raises(NotFound):
        await desk.tokens.revoke_token(token)
    with pytest.raises(NotFound):
        await desk.tokens.rotate_token(token, by="root")


# -- how often the store is asked


async def test_a_secret_is_looked_up_once_in_a_while(desk: Desk) -> None:
    secret = await desk.secret()
    for _ in range(5):
        await desk.tokens.authenticate(secret)
    assert desk.store.calls.count("token_by_secret") == 1
    desk.clock.advance(TRUSTED_S)
    await desk.tokens.authenticate(secret)
    assert desk.store.calls.count("token_by_secret") == 2


async def test_a_wrong_secret_is_never_remembered_as_wrong(desk: Desk) -> None:
    assert await refused(desk.tokens, f"{1:064x}")
    assert await desk.secret() == f"{1:064x}"
    assert not await refused(desk.tokens, f"{1:064x}")


async def test_the_last_use_is_noted_once_a_minute(desk: Desk) -> None:
    secret, began = await desk.secret(), desk.clock.now()
    for _ in range(20):
        await desk.tokens.authenticate(secret)
        desk.clock.advance(3.1)
    assert desk.store.calls.count("touch_token") == 1
    assert (await desk.record()).last_used_at == began
    await desk.tokens.authenticate(secret)
    assert (await desk.record()).last_used_at == desk.clock.now()


async def test_a_full_disk_locks_nobody_out(desk: Desk) -> None:
    secret = await desk.secret()
    desk.store.is_full = True
    assert not await refused(desk.tokens, secret)


# -- nodes


async def test_a_node_is_known_by_its_secret_until_it_is_removed(desk: Desk) -> None:
    secret = "a" * SECRET_DIGITS
    node = await desk.node(secret)
    assert await desk.tokens.authenticate(secret) == Principal(Role.NODE, node_text(node), node=node)
    await desk.kit.store.unregister_node(node, desk.clock.now())
    desk.clock.advance(TRUSTED_S)
    assert await refused(desk.tokens, secret)


async def test_a_node_that_comes_again_is_looked_for_among_the_nodes_only(desk: Desk) -> None:
    secret = "a" * SECRET_DIGITS
    await desk.node(secret)
    await desk.tokens.authenticate(secret)
    desk.store.calls.clear()
    desk.clock.advance(TRUSTED_S)
    await desk.tokens.authenticate(secret)
    assert desk.store.calls == ["node_by_secret"]


# -- enrolment


async def test_an_enrolment_serves_until_it_is_used_up(desk: Desk) -> None:
    secret = await desk.secret(Role.ENROL, uses=2)
    for join_key in ("one", "two"):
        assert (await desk.another().authenticate(secret)).role is Role.ENROL
        await desk.node(join_key, secret)
    with pytest.raises(NotAllowed):
        await desk.node("three", secret)
    assert await refused(desk.tokens, secret)


async def test_only_an_enrolment_enrols(desk: Desk) -> None:
    for secret in (await desk.secret(Role.ADMIN), UNKNOWN, "x", ""):
        with pytest.raises(NotAllowed):
            await desk.node("its key", secret)


async def test_a_node_whose_answer_was_lost_asks_again_with_a_used_up_enrolment(desk: Desk) -> None:
    secret = await desk.secret(Role.ENROL, uses=1)
    node = await desk.node("its key", secret)
    assert await refused(desk.tokens, secret)
    assert (await desk.tokens.authenticate(secret, is_joining=True)).role is Role.ENROL
    assert await refused(desk.tokens, secret), "it passes at the gate only, and is not remembered"
    assert await desk.node("its key", secret) == node
    with pytest.raises(NotAllowed):
        await desk.node("another key", secret)


async def test_who_joins_passes_only_with_an_enrolment_that_is_in_force(desk: Desk) -> None:
    revoked = await desk.tokens.create_token(Role.ENROL, name="a", by="root", uses=1)
    await desk.tokens.revoke_token(revoked.record.id)
    expired = await desk.secret(Role.ENROL, uses=1, expires_at=desk.clock.now() + 1)
    desk.clock.advance(1)
    for secret in (revoked.secret, expired, UNKNOWN, ""):
        with pytest.raises(NotAllowed):
            await desk.tokens.authenticate(secret, is_joining=True)


# -- the first admin


async def test_the_first_admin_is_made_once(desk: Desk) -> None:
    secrets = await asyncio.gather(*(desk.another().ensure_admin() for _ in range(5)))
    (secret,) = [each for each in secrets if each is not None]
    principal = await desk.tokens.authenticate(secret)
    assert principal.role is Role.ADMIN
    assert await desk.tokens.ensure_admin() is None
    assert principal.token is not None
    await desk.tokens.revoke_token(principal.token)
    assert await desk.tokens.ensure_admin() is not None


# -- what is wrong


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"role": Role.NODE}, "role"),
        ({"name": ""}, "name"),
        ({"name": "n" * (limits.NAME_CHARS + 1)}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"expires_at": 0}, "expires_at"),
        ({"expires_at": 1 << 70}, "expires_at"),
        ({"uses": 1}, "uses"),
        ({"role": Role.ENROL, "uses": 0}, "uses"),
        ({"role": Role.ENROL, "uses": USES_MAX + 1}, "uses"),
    ],
)
async def test_a_token_that_cannot_be_is_refused_by_field(desk: Desk, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        await desk.tokens.create_token(**{"role": Role.VIEWER, "name": "ann", "by": "root", **fields})
    assert raised.value.field == field
    assert await desk.tokens.list_tokens() == []


def test_roles_cover_those_below_and_nodes_cover_none() -> None:
    may = {role: [need for need in TOKEN_ROLES if Principal(role, "x").is_at_least(need)] for role in Role}
    assert may == {
        Role.VIEWER: [Role.VIEWER],
        Role.OPERATOR: [Role.VIEWER, Role.OPERATOR],
        Role.ADMIN: [Role.VIEWER, Role.OPERATOR, Role.ADMIN],
        Role.ENROL: [],
        Role.NODE: [],
        Role.METRICS: [],
    }
