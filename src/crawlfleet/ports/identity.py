"""The durable side of who may do what: tokens, the audit log, task types, run-time configuration.

The rules of `ports.store` hold here too: one transaction each, answered after the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.principal import AuditEntry, Role, TokenRecord
from crawlfleet.ports.idempotency import Claim


class NewToken(NamedTuple):
    role: Role
    name: str
    secret_hash: str
    created_by: str
    expires_at: Instant | None = None
    uses: int | None = None


class TokenAnswer(NamedTuple):
    record: TokenRecord
    is_replay: bool = False
    """It was made by an earlier request under the same key."""


class TokenStore(Protocol):
    async def add_token(self, token: NewToken, now: Instant) -> TokenRecord: ...

    async def add_token_once(self, token: NewToken, claim: Claim, now: Instant) -> TokenAnswer:
        """The same key and body again make no second token. Raises IdempotencyMismatch."""
        ...

    async def add_first_admin(self, token: NewToken, now: Instant) -> TokenRecord | None:
        """Add it if no admin token is usable; None when one is. Of many that try at once, one adds."""
        ...

    async def token_by_secret(self, secret_hash: str) -> TokenRecord | None:
        """Whatever its state: expired and revoked ones too."""
        ...

    async def touch_token(self, token: int, now: Instant, every_ms: int) -> None:
        """Note its use, unless that was done less than `every_ms` ago."""
        ...

    async def tokens(self) -> list[TokenRecord]:
        """All of them, newest first."""
        ...

    async def rotate_token(self, token: int, secret_hash: str, by: str, now: Instant) -> TokenRecord:
        """Another secret for a usable token; the old one is over. Raises NotFound, or Conflict for one out of use."""
        ...

    async def revoke_token(self, token: int, now: Instant) -> TokenRecord:
        """Doing it again changes nothing. Raises NotFound."""
        ...


class NewAuditEntry(NamedTuple):
    at: Instant
    role: Role | None
    name: str
    token: int | None
    node: NodeId | None
    address: str
    action: str
    target: str
    details: bytes


class AuditStore(Protocol):
    async def note_change(self, entry: NewAuditEntry) -> None: ...

    async def audit_page(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        """Newest first; `before` is the last id seen."""
        ...


MASTERS = -1
NO_OWNER = 0
REVISION_MOST = (1 << 53) - 1
OWNER_AWAY_MS = 600_000


class TypeIgnored(StrEnum):
    """Why the schema of a node is not the one that tasks are checked by."""

    BUILT_IN = "built into the masters: theirs is used"
    OTHER_NODE = "belongs to another node: its schema is used, until that node brings a newer one or is removed"
    OLDER = "older than the schema in use: its version is lower"


class TypeRecord(NamedTuple):
    name: str
    version: int
    schema: Mapping[str, Any]
    changed_at: Instant
    owner: int = NO_OWNER
    """The node that may change the schema, `MASTERS` for a built-in type, or `NO_OWNER`."""
    revision: int = 0
    """The order that the owner gives its schemas; for a built-in type, the release of the master."""


def schema_revision(schema: Mapping[str, Any]) -> int:
    """The number under `version` at the top of a schema, which a validator ignores; 0 without one."""
    revision = schema.get("version")
    if isinstance(revision, bool) or not isinstance(revision, int):
        return 0
    return revision if 0 <= revision <= REVISION_MOST else 0


class TypeStore(Protocol):
    """A type whose schema changes gets the next version."""

    async def put_built_in_types(self, schemas: Mapping[str, Mapping[str, Any]], release: int, now: Instant) -> None:
        """Keep the types of a master. They belong to masters from then on; an older release changes none of a newer."""
        ...

    async def put_task_types(
        self, schemas: Mapping[str, Mapping[str, Any]], node: NodeId, now: Instant
    ) -> dict[str, TypeIgnored]:
        """Keep the types of a node. A new type, and one whose owner was removed, becomes the node's own. The node
        changes only its own types, and none to a lower revision; the type of a node that has been away for
        `OWNER_AWAY_MS` it takes over with a higher one. Returns what was left as it was although the node's schema is
        another."""
        ...

    async def put_type_names(self, names: Sequence[str], now: Instant) -> None:
        """Keep types without a schema; known ones are left alone."""
        ...

    async def task_types(self) -> list[TypeRecord]:
        """By name."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """One version of what a cluster has of its own; what is not in `values` has its default."""

    cluster: str
    version: int
    values: Mapping[str, Any]
    changed_by: str = ""
    changed_at: Instant | None = None


class ConfigStore(Protocol):
    async def installation(self) -> str:
        """The id of the whole installation: 32 hex digits, made when it is first asked for."""
        ...

    async def fact(self, key: str) -> str | None:
        """What there is one of in the whole installation."""
        ...

    async def keep_fact(self, key: str, value: str) -> str:
        """Keep it, unless one is kept under this key; the one that is."""
        ...

    async def config(self, cluster: str) -> ClusterConfig:
        """The newest version; version 0, with no values, when there is none. Raises NotFound for an unknown cluster."""
        ...

    async def configs(self) -> list[ClusterConfig]:
        """The newest version of every cluster that has one."""
        ...

    async def put_config(
        self, cluster: str, values: Mapping[str, Any], by: str, now: Instant, expected_version: int | None = None
    ) -> ClusterConfig:
        """The next version. Raises NotFound, or Conflict when the newest is not the expected one."""
        ...

    async def config_history(self, cluster: str, limit: int) -> Sequence[ClusterConfig]:
        """Newest first. Raises NotFound."""
        ...
