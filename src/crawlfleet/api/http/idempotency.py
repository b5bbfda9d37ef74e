"""`Idempotency-Key` of the routes that create one object; submitting tasks has its own, by project."""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from fastapi import Header

from crawlfleet.api.http.parameters import Body, Text
from crawlfleet.model import limits
from crawlfleet.model.instants import Instant
from crawlfleet.model.principal import Principal
from crawlfleet.ports.task_store import Claim

IdempotencyKey = Annotated[
    Text | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=limits.IDEMPOTENCY_KEY_CHARS,
        description="The same key and body again, within a day, make no second one; another body is refused (422).",
    ),
]


def make_body_claim(noun: str, principal: Principal, key: str | None, body: Body, now: Instant) -> Claim | None:
    """Return the claim of an idempotency key for a request body. It belongs to the token of the request: two callers
    that choose the same key do not affect each other."""
    return make_claim(noun, principal, key, body.model_dump(), now)


def make_claim(noun: str, principal: Principal, key: str | None, value: Any, now: Instant) -> Claim | None:
    """Return the claim of an idempotency key for any JSON value."""
    if key is None:
        return None
    digest = blake2b(msgspec.json.encode(value, order="deterministic"), digest_size=16).digest()
    return Claim(f"{noun}:{principal.token}", key, digest, now + limits.IDEMPOTENCY_KEEP_MS)
