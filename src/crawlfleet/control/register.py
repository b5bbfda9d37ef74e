"""A node joins: it gets its id and its own secret, of which only a hash is kept."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.ids import IdFactory, NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import NodeDescription
from crawlfleet.model.status import NodeStatus
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import NewNode, NodeStore
from crawlfleet.wire.tasks import unstorable


@dataclass(frozen=True, slots=True)
class Registration:
    node: NodeId
    secret: str
    registered_at: Instant
    status: NodeStatus


class Register:
    def __init__(
        self, *, store: NodeStore, id_factory: IdFactory, clock: Clock, make_secret: Callable[[], str]
    ) -> None:
        self._store = store
        self._ids = id_factory
        self._clock = clock
        self._make_secret = make_secret

    async def register(self, description: NodeDescription, join_key: str) -> Registration:
        """`join_key` is made and kept by the node: saying it again, after a lost answer, is the same node."""
        _check(description, join_key)
        secret, now = self._make_secret(), self._clock.now()
        node = await self._store.register(NewNode(self._ids.one(), join_key, hash_secret(secret), description), now)
        return Registration(node, secret, now, NodeStatus.PENDING)


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def is_secret(secret: str, kept_hash: str) -> bool:
    return hmac.compare_digest(hash_secret(secret), kept_hash)


def _check(description: NodeDescription, join_key: str) -> None:
    texts = {
        "join_key": join_key, "name": description.name, "cluster": description.cluster,
        "node_type": description.node_type,
    }  # fmt: skip
    for field, text in texts.items():
        if not 0 < len(text) <= limits.NAME_CHARS or unstorable(text):
            raise InvalidInput(f"1 to {limits.NAME_CHARS} characters, no NUL", field=field)
    if not 0 < description.slots <= limits.SLOTS_MAX:
        raise InvalidInput(f"1 to {limits.SLOTS_MAX}", field="slots")
    if not description.weight > 0:
        raise InvalidInput("above 0", field="weight")
