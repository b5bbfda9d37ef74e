"""Registers nodes: each gets an id and a secret of its own, of which only a hash is stored."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from crawlfleet.control.admin.tokens import hash_secret
from crawlfleet.control.nodes.heartbeat import LEASE_UNSET_MS, SimpleClients
from crawlfleet.control.tasks.task_types import KnownTypes, check_name, check_types
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.ids import IdFactory, NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import ANY_TYPE, NodeDescription
from crawlfleet.model.status import NodeStatus
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import NewNode
from crawlfleet.ports.store import NodeCallStore
from crawlfleet.ports.task_store import Claim
from crawlfleet.wire.tasks import storage_problem

LEASE_MS_MIN, LEASE_MS_MAX = 1_000, 3_600_000
WEIGHT_MAX = 1e6
AMOUNT_MAX = 1e12
PORT_MAX = 65_535
_NO_KEY = "known by its secret"


@dataclass(frozen=True, slots=True)
class RegistrationResult:
    """The answer to a registration: the node's id and secret, and its lease."""

    node: NodeId
    secret: str
    registered_at: Instant
    status: NodeStatus
    lease_ms: int
    """Length of the lease: as the node asked, or the default."""
    ignored_types: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Task types whose schemas the node may not change, with the reason."""


@dataclass(frozen=True, slots=True)
class AnnouncementResult:
    """The answer to a registered node that announced a new description; its secret stays the same."""

    node: NodeId
    announced_at: Instant
    status: NodeStatus
    lease_ms: int
    ignored_types: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Register:
    def __init__(
        self,
        *,
        store: NodeCallStore,
        id_factory: IdFactory,
        clock: Clock,
        make_secret: Callable[[], str],
        known_types: KnownTypes,
        simple: SimpleClients | None = None,
    ) -> None:
        self._store = store
        self._ids = id_factory
        self._clock = clock
        self._make_secret = make_secret
        self._known_types = known_types
        self._simple_clients = simple or SimpleClients()

    async def register_node(
        self,
        description: NodeDescription,
        join_key: str,
        task_types: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        enrolment: str | None = None,
        claim: Claim | None = None,
    ) -> RegistrationResult:
        """Register a node and return its id and secret.

        `join_key` is made and kept by the node: the same key again, after a lost answer, is the same node.
        `task_types` are the types the node runs, each with the schema of its parameters. `enrolment` is the secret of
        an enrol token: one use of it is spent with the registration or not at all; NotAllowed when none is left.
        """
        await self._check_registration(description, join_key, task_types)
        description = self._complete_description(description, task_types)
        secret, now = self._make_secret(), self._clock.now()
        enrolment_hash = None if enrolment is None else hash_secret(enrolment)
        node = await self._store.register_node(
            NewNode(self._ids.new_id(), join_key, hash_secret(secret), description, enrolment_hash, claim), now
        )
        # After the node: one that may not join must not change types. It opens no session before it has its answer.
        ignored = await self._store_types(node, description, task_types)
        return RegistrationResult(node, secret, now, NodeStatus.PENDING, description.lease_ms, ignored)

    async def announce_node(
        self,
        node: NodeId,
        description: NodeDescription,
        join_key: str | None = None,
        task_types: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> AnnouncementResult:
        """Store a new description of a registered node; its secret and its session stay as they are.
        Raises NotAllowed for a `join_key` that is not its own."""
        await self._check_registration(description, join_key or _NO_KEY, task_types)
        description = self._complete_description(description, task_types)
        now = self._clock.now()
        await self._store.replace_description(node, description, now, join_key)
        ignored = await self._store_types(node, description, task_types)
        (record,) = await self._store.load_nodes([node])
        return AnnouncementResult(node, now, record.status, description.lease_ms, ignored)

    def _complete_description(
        self, description: NodeDescription, task_types: Mapping[str, Mapping[str, Any]] | None
    ) -> NodeDescription:
        if task_types:
            description = replace(description, task_types=tuple(sorted({*description.task_types, *task_types})))
        return (
            replace(description, lease_ms=self._simple_clients.lease_ms)
            if _is_lease_unset(description)
            else description
        )

    async def _store_types(
        self, node: NodeId, description: NodeDescription, task_types: Mapping[str, Mapping[str, Any]] | None
    ) -> Mapping[str, str]:
        ignored = await self._known_types.put_types(task_types, node) if task_types else {}
        if description.is_pull_only:
            # A node with an agent names its types when it opens a session; a simple client never opens one itself.
            await self._known_types.put_names(name for name in description.task_types if name != ANY_TYPE)
        return ignored

    async def _check_registration(
        self, description: NodeDescription, join_key: str, task_types: Mapping[str, Mapping[str, Any]] | None
    ) -> None:
        """Check the registration before an enrolment is used up for it. Raises InvalidInput with the field named."""
        _check_texts(description, join_key)
        _check_numbers(description)
        _check_labels(description)
        for name in description.task_types:
            check_name(name)
        if own := self._known_types.own_types(task_types or {}):
            # A node brings hundreds of them at most, and each may take a few hundredths of a second.
            await asyncio.to_thread(check_types, own)


def _is_lease_unset(description: NodeDescription) -> bool:
    return description.is_pull_only and description.lease_ms == LEASE_UNSET_MS


def _check_texts(description: NodeDescription, join_key: str) -> None:
    required = {
        "join_key": join_key,
        "name": description.name,
        "cluster": description.cluster,
        "node_type": description.node_type,
    }
    for field, text in required.items():
        _check_text(field, text)
    if description.device_id is not None:
        _check_text("device_id", description.device_id)
    _check_text("region", description.region, min_chars=0, max_chars=limits.LABEL_CHARS)
    _check_text("machine_id", description.machine, min_chars=0, max_chars=limits.LABEL_CHARS)
    _check_text("description", description.description, min_chars=0, max_chars=limits.MESSAGE_CHARS)
    _check_text("host", description.dns_name, min_chars=0, max_chars=limits.NAME_CHARS)
    if description.ip_address:
        try:
            ipaddress.ip_address(description.ip_address)
        except ValueError as exc:
            raise InvalidInput("must be an IP address", field="ip_address") from exc


def _check_text(field: str, text: str, *, min_chars: int = 1, max_chars: int = limits.NAME_CHARS) -> None:
    if not min_chars <= len(text) <= max_chars or storage_problem(text):
        raise InvalidInput(f"{min_chars} to {max_chars} characters, no NUL", field=field)


def _check_numbers(description: NodeDescription) -> None:
    if not 0 <= description.port <= PORT_MAX:
        raise InvalidInput(f"0 to {PORT_MAX}", field="port")
    if not 0 < description.slots <= limits.SLOTS_MAX:
        raise InvalidInput(f"1 to {limits.SLOTS_MAX}", field="slots")
    if not 0 < description.weight <= WEIGHT_MAX:
        raise InvalidInput(f"above 0, at most {WEIGHT_MAX:g}", field="weight")
    if not LEASE_MS_MIN <= description.lease_ms <= LEASE_MS_MAX and not _is_lease_unset(description):
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
    listed = list(names)
    if len(listed) > limits.LABELS:
        raise InvalidInput(f"at most {limits.LABELS}", field=field)
    for name in listed:
        _check_text(field, name, max_chars=limits.LABEL_CHARS)


def _check_amount(field: str, amount: float) -> None:
    if not math.isfinite(amount) or not 0 <= amount <= AMOUNT_MAX:
        raise InvalidInput(f"a number from 0 to {AMOUNT_MAX:g}", field=field)
