"""Tokens. Whether a token may be used is decided by the statement that uses it."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.errors import Conflict, NotFound
from crawlfleet.model.instants import Instant
from crawlfleet.model.principal import Role, TokenRecord
from crawlfleet.ports.admin_store import NewToken, TokenAnswer
from crawlfleet.ports.task_store import Claim
from crawlfleet.store import schema
from crawlfleet.store.admin.cluster_config import lock_installation
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.row_codec import RowCodec
from crawlfleet.store.tasks.idempotency import claim_key, store_answer

_TOKENS = RowCodec(schema.token, TokenRecord)
_COLUMNS = _TOKENS.select
_NEW_COLUMNS = ("role", "name", "secret_hash", "created_at", "created_by", "expires_at", "uses_left")
_INSERT = (
    f"INSERT INTO token ({', '.join(_NEW_COLUMNS)}) "
    f"VALUES ({', '.join(f'${n}' for n, _ in enumerate(_NEW_COLUMNS, 1))}) RETURNING {_COLUMNS}"
)
TOKEN_BY_SECRET = f"SELECT {_COLUMNS} FROM token WHERE secret_hash = $1"
_LOCK = f"SELECT {_COLUMNS} FROM token WHERE id = $1 LOCK_ROWS(token)"
_IN_FORCE = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)"
USABLE_ADMIN = f"SELECT id FROM token WHERE role = $1 AND {_IN_FORCE} LIMIT 1"
# NULL means any number of uses, and stays NULL.
USE_ENROLMENT = (
    "UPDATE token SET uses_left = uses_left - 1, last_used_at = $2 WHERE secret_hash = $1 AND role = $3 "
    f"AND {_IN_FORCE} AND (uses_left IS NULL OR uses_left > 0) RETURNING id"
)
ENROLMENT_IN_FORCE = f"SELECT id FROM token WHERE secret_hash = $1 AND role = $3 AND {_IN_FORCE}"
# A node has its own secret: an enrol token that is over is not needed any more.
OLD_ENROLMENTS = (
    "DELETE FROM token WHERE id IN (SELECT id FROM token WHERE role = $1 AND (expires_at < $2 OR revoked_at < $2 "
    "OR (uses_left = 0 AND last_used_at < $2)) ORDER BY id LIMIT $3)"
)
HAS_JOINED = "SELECT 1 FROM node WHERE join_key = $1"
TOUCH = "UPDATE token SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $3)"


class TokenTables:
    _engine: QueryEngine

    async def add_token(self, token: NewToken, now: Instant) -> TokenRecord:
        return await self._engine.write(lambda tx: _insert_token(tx, token, now))

    async def add_token_once(self, token: NewToken, claim: Claim, now: Instant) -> TokenAnswer:
        async def insert_once(tx: Tx) -> TokenAnswer:
            if (stored_id := await claim_key(tx, claim, now)) is not None:
                return TokenAnswer((await _lock_token(tx, int(stored_id))), is_replay=True)
            record = await _insert_token(tx, token, now)
            await store_answer(tx, claim, str(record.id).encode())
            return TokenAnswer(record)

        return await self._engine.write(insert_once)

    async def add_first_admin(self, token: NewToken, now: Instant) -> TokenRecord | None:
        async def insert_first(tx: Tx) -> TokenRecord | None:
            # Two concurrent transactions would both find no admin token: they wait for each other at the
            # installation's row.
            await lock_installation(tx)
            if await tx.fetch(USABLE_ADMIN, int(Role.ADMIN), now):
                return None
            return await _insert_token(tx, token, now)

        return await self._engine.write(insert_first)

    async def token_by_secret(self, secret_hash: str) -> TokenRecord | None:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(TOKEN_BY_SECRET, secret_hash))
        return _TOKENS.from_row(rows[0]) if rows else None

    async def touch_token(self, token: int, now: Instant, every_ms: int) -> None:
        await self._engine.write(lambda tx: tx.execute(TOUCH, token, now, now - every_ms))

    async def list_tokens(self) -> list[TokenRecord]:
        sql = f"SELECT {_COLUMNS} FROM token ORDER BY id DESC"
        return _TOKENS.from_rows(await self._engine.browse_rows(lambda tx: tx.fetch(sql)))

    async def rotate_token(self, token: int, secret_hash: str, by: str, now: Instant) -> TokenRecord:
        async def replace_secret(tx: Tx) -> TokenRecord:
            record = await _lock_token(tx, token)
            if not record.is_usable(now):
                raise Conflict(f"token {token} is expired, used up or revoked")
            sql = (
                "UPDATE token SET secret_hash = $2, rotated_at = $3, rotated_by = $4, last_used_at = NULL "
                f"WHERE id = $1 RETURNING {_COLUMNS}"
            )
            return _TOKENS.from_row((await tx.fetch(sql, token, secret_hash, now, by))[0])

        return await self._engine.write(replace_secret)

    async def revoke_token(self, token: int, now: Instant) -> TokenRecord:
        async def mark_revoked(tx: Tx) -> TokenRecord:
            await _lock_token(tx, token)
            sql = f"UPDATE token SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1 RETURNING {_COLUMNS}"
            return _TOKENS.from_row((await tx.fetch(sql, token, now))[0])

        return await self._engine.write(mark_revoked)


async def spend_enrolment(tx: Tx, secret_hash: str, now: Instant, join_key: str) -> bool:
    """Spend one use of an enrol token; return False when there is none. A node that has this `join_key` already spends
    none: it asks again because its first answer was lost."""
    rows: Sequence[Row] = []
    if not await tx.fetch(HAS_JOINED, join_key):
        rows = await tx.fetch(USE_ENROLMENT, secret_hash, now, int(Role.ENROL))
    # Read again: the last use may have gone, concurrently, to the same node.
    if not rows and await tx.fetch(HAS_JOINED, join_key):
        rows = await tx.fetch(ENROLMENT_IN_FORCE, secret_hash, now, int(Role.ENROL))
    return bool(rows)


async def forget_enrolments(tx: Tx, before: Instant, limit: int) -> int:
    """Delete enrol tokens that expired, were revoked or were used up before the given instant."""
    return await tx.execute(OLD_ENROLMENTS, int(Role.ENROL), before, limit)


async def _insert_token(tx: Tx, token: NewToken, now: Instant) -> TokenRecord:
    row = {
        "role": int(token.role),
        "name": token.name,
        "secret_hash": token.secret_hash,
        "created_at": now,
        "created_by": token.created_by,
        "expires_at": token.expires_at,
        "uses_left": token.uses,
    }
    return _TOKENS.from_row((await tx.fetch(_INSERT, *(row[name] for name in _NEW_COLUMNS)))[0])


async def _lock_token(tx: Tx, token: int) -> TokenRecord:
    rows = await tx.fetch(_LOCK, token)
    if not rows:
        raise NotFound(f"no token {token}")
    return _TOKENS.from_row(rows[0])
