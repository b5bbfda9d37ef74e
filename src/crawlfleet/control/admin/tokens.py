"""Tokens: issued once, stored as hashes, and looked up by them. The bearer of one is a `Principal`."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from crawlfleet.errors import Conflict, InvalidInput, NotAllowed, NotFound, Unavailable
from crawlfleet.model import limits
from crawlfleet.model.ids import node_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.principal import TOKEN_ROLES, Principal, Role, TokenRecord
from crawlfleet.ports.admin_store import AccessStore, NewToken
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.task_store import Claim
from crawlfleet.wire.tasks import storage_problem

SECRET_DIGITS = 64
USES_MAX = 1_000_000
TRUSTED_S = 2.0
"""Time in seconds for which a master trusts a secret that it has looked up; a token that was revoked on another master
may still work for that long."""
_TOUCH_EVERY_MS = 60_000
_REMEMBERED_MOST = 20_000
_HEX = frozenset("0123456789abcdef")
# One sentence for all cases: an unauthenticated caller learns nothing about which tokens exist.
_REFUSED = "this token is not valid"
FIRST_ADMIN = "first admin"
INSTALLER = "installation"


@dataclass(frozen=True, slots=True)
class IssuedToken:
    secret: str = field(repr=False)
    """Secret of the token, which is shown only this once."""
    record: TokenRecord


class TokenAlreadyMade(Conflict):
    """A request came again after its answer, with the secret in it, was lost: the secret cannot be shown again."""

    code = "token_already_made"

    def __init__(self, token: int) -> None:
        super().__init__(f"token {token} was made by this request before, and its secret was told then")
        self.token = token


class _Trusted(NamedTuple):
    principal: Principal
    until: float
    """Time, by the monotonic clock, until which the secret is trusted."""
    expires_at: Instant | None


class Tokens:
    def __init__(self, *, store: AccessStore, clock: Clock, make_secret: Callable[[], str]) -> None:
        self._store = store
        self._clock = clock
        self._make_secret = make_secret
        self._trusted: dict[str, _Trusted] = {}
        self._distrusts = 0

    async def create_token(
        self,
        role: Role,
        *,
        name: str,
        by: Principal | str,
        expires_at: Instant | None = None,
        uses: int | None = None,
        claim: Claim | None = None,
    ) -> IssuedToken:
        """Create a token. With a `claim` the same request again makes no second token: it raises TokenAlreadyMade."""
        now = self._clock.now()
        _check_new_token(role, name, expires_at, uses, now)
        secret = self._make_secret()
        new = NewToken(role, name, hash_secret(secret), actor_name(by), expires_at, uses)
        if claim is None:
            return IssuedToken(secret, await self._store.add_token(new, now))
        made = await self._store.add_token_once(new, claim, now)
        if made.is_replay:
            raise TokenAlreadyMade(made.record.id)
        return IssuedToken(secret, made.record)

    async def ensure_admin(self, secret: str | None = None) -> str | None:
        """Return the secret of a new admin token when none is usable (at the very first start, or when all are expired,
        used up or revoked), or None when there is a usable one.

        Of several masters that start at once, one gets it. A caller that must not lose the secret passes it in, already
        kept somewhere safe.
        """
        secret = secret or self._make_secret()
        new = NewToken(Role.ADMIN, FIRST_ADMIN, hash_secret(secret), INSTALLER)
        added = await self._store.add_first_admin(new, self._clock.now())
        return None if added is None else secret

    def find_trusted(self, secret_hash: str) -> Principal | None:
        """Return the principal of a secret that was looked up less than `TRUSTED_S` ago."""
        trusted = self._trusted.get(secret_hash)
        if trusted is None or self._clock.monotonic() >= trusted.until:
            return None
        is_over = trusted.expires_at is not None and self._clock.now() >= trusted.expires_at
        return None if is_over else trusted.principal

    async def authenticate(self, secret: str, *, is_joining: bool = False) -> Principal:
        """Return the principal of a secret. Raises NotAllowed for a secret that is unknown, expired, used up or
        revoked.

        With `is_joining` a used up enrol token passes here: `Register` decides whether its bearer may join, as it knows
        a node that asks again after a lost answer.
        """
        if not has_secret_form(secret):
            raise NotAllowed(_REFUSED)
        secret_hash = hash_secret(secret)
        if (principal := self.find_trusted(secret_hash)) is not None:
            return principal
        now, now_mono = self._clock.now(), self._clock.monotonic()
        return await self._look_up_secret(
            secret_hash, now, now_mono, was=self._trusted.get(secret_hash), is_joining=is_joining
        )

    async def list_tokens(self) -> Sequence[TokenRecord]:
        return await self._store.list_tokens()

    async def revoke_token(self, token: int) -> TokenRecord:
        _check_id(token)
        try:
            return await self._store.revoke_token(token, self._clock.now())
        finally:
            self._distrust_token(token)

    async def rotate_token(self, token: int, by: Principal | str) -> IssuedToken:
        """Give the token a new secret; the old one stops working at once."""
        _check_id(token)
        secret = self._make_secret()
        try:
            record = await self._store.rotate_token(token, hash_secret(secret), actor_name(by), self._clock.now())
        finally:
            self._distrust_token(token)
        return IssuedToken(secret, record)

    async def _look_up_secret(
        self, secret_hash: str, now: Instant, now_mono: float, *, was: _Trusted | None, is_joining: bool
    ) -> Principal:
        # The kind of a secret never changes: a node, which calls every few seconds, is searched among the nodes first.
        is_node = was is not None and was.principal.node is not None
        distrusts = self._distrusts
        principal = await self._find_node(secret_hash) if is_node else None
        record = None if principal else await self._store.token_by_secret(secret_hash)
        if record is not None and record.is_usable(now):
            await self._touch_token(record, now)
            principal = _principal_from_token(record)
        elif principal is None and not is_node:
            principal = await self._find_node(secret_hash)
        if principal is None:
            self._trusted.pop(secret_hash, None)
            if is_joining and record is not None and record.role is Role.ENROL and record.is_in_force(now):
                return _principal_from_token(record)
            raise NotAllowed(_REFUSED)
        # A result that was read before a token was revoked here is not remembered beyond this call.
        if distrusts == self._distrusts:
            self._trust_secret(
                secret_hash, _Trusted(principal, now_mono + TRUSTED_S, None if record is None else record.expires_at)
            )
        return principal

    def _trust_secret(self, secret_hash: str, trusted: _Trusted) -> None:
        if len(self._trusted) >= _REMEMBERED_MOST:
            self._trusted.clear()
        self._trusted[secret_hash] = trusted

    async def _find_node(self, secret_hash: str) -> Principal | None:
        node = await self._store.node_by_secret(secret_hash)
        return None if node is None else Principal(Role.NODE, node_text(node), node=node)

    async def _touch_token(self, record: TokenRecord, now: Instant) -> None:
        if record.last_used_at is not None and 0 <= now - record.last_used_at < _TOUCH_EVERY_MS:
            return
        # A full disk must not lock out the operators who come to repair it.
        with contextlib.suppress(Unavailable):
            await self._store.touch_token(record.id, now, _TOUCH_EVERY_MS)

    def _distrust_token(self, token: int) -> None:
        self._distrusts += 1
        for secret_hash in [key for key, trusted in self._trusted.items() if trusted.principal.token == token]:
            del self._trusted[secret_hash]


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def is_secret(secret: str, stored_hash: str) -> bool:
    return hmac.compare_digest(hash_secret(secret), stored_hash)


def has_secret_form(secret: str) -> bool:
    """Return whether the text has the form of a secret; other texts are not worth a read of the store."""
    return len(secret) == SECRET_DIGITS and _HEX.issuperset(secret)


def actor_name(by: Principal | str) -> str:
    return by if isinstance(by, str) else by.name


def _principal_from_token(record: TokenRecord) -> Principal:
    return Principal(record.role, record.name, token=record.id)


def _check_id(token: int) -> None:
    if not 0 < token < 1 << limits.INTEGER_BITS:
        raise NotFound("no token of this number")


def _check_new_token(role: Role, name: str, expires_at: Instant | None, uses: int | None, now: Instant) -> None:
    if role not in TOKEN_ROLES:
        raise InvalidInput(f"one of {', '.join(each.word for each in TOKEN_ROLES)}", field="role")
    if not 0 < len(name) <= limits.NAME_CHARS or storage_problem(name):
        raise InvalidInput(f"1 to {limits.NAME_CHARS} characters, no NUL", field="name")
    if expires_at is not None and not now < expires_at < 1 << limits.INTEGER_BITS:
        raise InvalidInput("must be in the future", field="expires_at")
    if uses is not None and role is not Role.ENROL:
        raise InvalidInput("only an enrol token counts its uses", field="uses")
    if uses is not None and not 0 < uses <= USES_MAX:
        raise InvalidInput(f"1 to {USES_MAX}", field="uses")
