"""Idempotency keys: a request that is repeated under its key changes nothing a second time."""

from __future__ import annotations

from typing import NamedTuple

from crawlfleet.errors import InvalidInput
from crawlfleet.model.instants import Instant


class Claim(NamedTuple):
    """An idempotency key with the hash of its request: the first answer under it is kept and given again."""

    scope: str
    key: str
    body_hash: bytes
    expires_at: Instant
    """Instant until which the key and its answer are kept."""


class IdempotencyMismatch(InvalidInput):
    """Raised for a known idempotency key that comes with another body."""

    code = "idempotency_mismatch"

    def __init__(self) -> None:
        super().__init__("this idempotency key was used with another body", field="Idempotency-Key")
