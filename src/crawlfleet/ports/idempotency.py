"""Idempotency keys: a request that comes again under its key changes nothing a second time."""

from __future__ import annotations

from typing import NamedTuple

from crawlfleet.errors import InvalidInput
from crawlfleet.model.instants import Instant


class Claim(NamedTuple):
    """An idempotency key: the first answer under it is kept and given again."""

    scope: str
    key: str
    body_hash: bytes
    expires_at: Instant


class IdempotencyMismatch(InvalidInput):
    code = "idempotency_mismatch"

    def __init__(self) -> None:
        super().__init__("this idempotency key was used with another body", field="Idempotency-Key")
