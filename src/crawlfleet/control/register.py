"""A node joins: it gets its id and its own secret, of which only a hash is kept."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from crawlfleet.control.task_types import KnownTypes, check_name, check_types
from crawlfleet.control.tokens import hash_secret
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.ids import IdFactory, NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import NodeDescription
from crawlfleet.model.status import NodeStatus
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import NewNode, NodeStore
from crawlfleet.wire.tasks import unstorable

LEASE_MS_MIN, LEASE_MS_MAX = 1_000, 3_600_000
WEIGHT_MAX = 1e6
AMOUNT_MAX = 1e12
PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class Registration:
    node: NodeId
    secret: str
    registered_at: Instant
    status: NodeStatus


class Register:
    def __init__(
        self, *, store: NodeStore, id_factory: IdFactory, clock: Clock, make_secret: Callable[[], str],
        known_types: KnownTypes,
    ) -> None:  # fmt: skip
        self._store = store
        self._ids = id_factory
        self._clock = clock
        self._make_secret = make_secret
        self._known_types = known_types

    async def register(
        self, description: NodeDescription, join_key: str, task_types: Mapping[str, Mapping[str, Any]] | None = None
    ) -> Registration:
        """`join_key` is made and kept by the node: saying it again, after a lost answer, is the same node.

        `task_types` are what the node runs, each with the schema of its parameters.
        """
        schemas = task_types or {}
        self.check(description, join_key, schemas)
        if schemas:
            names = tuple(sorted({*description.task_types, *schemas}))
            description = replace(description, task_types=names)
            # Before the node: it must not be there to run what nobody can submit.
            await self._known_types.put(schemas)
        secret, now = self._make_secret(), self._clock.now()
        node = await self._store.register(NewNode(self._ids.one(), join_key, hash_secret(secret), description), now)
        return Registration(node, secret, now, NodeStatus.PENDING)

    @staticmethod
    def check(
        description: NodeDescription, join_key: str, task_types: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Raises InvalidInput with the field named; to be asked before an enrolment is used up for it."""
        _check_texts(description, join_key)
        _check_numbers(description)
        _check_labels(description)
        for name in description.task_types:
            check_name(name)
        check_types(task_types or {})


def _check_texts(description: NodeDescription, join_key: str) -> None:
    needed = {
        "join_key": join_key, "name": description.name, "cluster": description.cluster,
        "node_type": description.node_type,
    }  # fmt: skip
    for field, text in needed.items():
        _check_text(field, text)
    if description.device_id is not None:
        _check_text("device_id", description.device_id)
    _check_text("region", description.region, least=0, most=limits.LABEL_CHARS)
    _check_text("description", description.description, least=0, most=limits.MESSAGE_CHARS)
    if description.ip_address:
        try:
            ipaddress.ip_address(description.ip_address)
        except ValueError as exc:
            raise InvalidInput("must be an IP address", field="ip_address") from exc


def _check_text(field: str, text: str, *, least: int = 1, most: int = limits.NAME_CHARS) -> None:
    if not least <= len(text) <= most or unstorable(text):
        raise InvalidInput(f"{least} to {most} characters, no NUL", field=field)


def _check_numbers(description: NodeDescription) -> None:
    if not 0 <= description.port <= PORT_MAX:
        raise InvalidInput(f"0 to {PORT_MAX}", field="port")
    if not 0 < description.slots <= limits.SLOTS_MAX:
        raise InvalidInput(f"1 to {limits.SLOTS_MAX}", field="slots")
    if not 0 < description.weight <= WEIGHT_MAX:
        raise InvalidInput(f"above 0, at most {WEIGHT_MAX:g}", field="weight")
    if not LEASE_MS_MIN <= description.lease_ms <= LEASE_MS_MAX:
        raise InvalidInput(f"{LEASE_MS_MIN} to {LEASE_MS_MAX}", field="lease_ms")


def _check_labels(description: NodeDescription) -> None:
    _check_names("resources", [name for name, _ in description.resources])
    for name, amount in description.resources:
        _check_amount(f"resources.{name}", amount)
    _check_names("capabilities", [name for name, _ in description.capabilities])
    for name, capability in description.capabilities:
        field = f"capabilities.{name}"
        if isinstance(capability, int | float):
            _check_amount(field, capability)
        else:
            _check_names(field, capability)


def _check_names(field: str, names: Iterable[str]) -> None:
    found = list(names)
    if len(found) > limits.LABELS:
        raise InvalidInput(f"at most {limits.LABELS}", field=field)
    for name in found:
        _check_text(field, name, most=limits.LABEL_CHARS)


def _check_amount(field: str, amount: float) -> None:
    if not math.isfinite(amount) or not 0 <= amount <= AMOUNT_MAX:
        raise InvalidInput(f"a number from 0 to {AMOUNT_MAX:g}", field=field)
