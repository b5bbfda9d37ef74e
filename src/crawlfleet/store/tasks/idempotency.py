"""Idempotency keys of single requests: the first answer under a key is stored, and repeated for the same body."""

from __future__ import annotations

from crawlfleet.model.instants import Instant
from crawlfleet.ports.task_store import Claim, IdempotencyMismatch
from crawlfleet.store import schema
from crawlfleet.store.engine.transaction import Tx

KNOWN_KEYS = "SELECT key, body_hash, answer FROM idempotency WHERE key AMONG($1)"
EXPIRED_KEYS = "DELETE FROM idempotency WHERE key AMONG($1) AND expires_at <= $2"


async def claim_key(tx: Tx, claim: Claim, now: Instant) -> bytes | None:
    """Claim the key, and return the answer stored under it; None for the first caller, which has to store one in the
    same transaction.

    Other callers with the same key wait for that. Raises IdempotencyMismatch when the body was another one.
    """
    key = stored_key(claim)
    await tx.execute(EXPIRED_KEYS, [key], now)
    columns = ("key", "body_hash", "answer", "expires_at")
    await tx.insert_new(schema.idempotency, columns, [(key, claim.body_hash, None, claim.expires_at)])
    ((_, body_hash, answer),) = await tx.fetch(KNOWN_KEYS, [key])
    if bytes(body_hash) != claim.body_hash:
        raise IdempotencyMismatch
    return None if answer is None else bytes(answer)


async def store_answer(tx: Tx, claim: Claim, answer: bytes) -> None:
    await tx.update(schema.idempotency, ("key", "answer"), [(stored_key(claim), answer)])


def stored_key(claim: Claim) -> str:
    # With the length of the scope, so that no scope and key can be taken for another pair.
    return f"{len(claim.scope)}:{claim.scope}:{claim.key}"
