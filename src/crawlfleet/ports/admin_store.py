"""The store of access control and configuration: tokens, the audit log, task types, run-time configuration.

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
from crawlfleet.ports.task_store import Claim

BACKUP_FACT = "backup"
"""Key of the fact about the newest backup: a JSON object with `made_at` (an instant), `file` and `bytes`."""


class NewToken(NamedTuple):
    """A token that is to be added."""

    role: Role
    name: str
    secret_hash: str
    created_by: str
    expires_at: Instant | None = None
    uses: int | None = None
    """Number of times the token may be used; None for any number."""


class TokenAnswer(NamedTuple):
    """The answer to an idempotent request for a token."""

    record: TokenRecord
    is_replay: bool = False
    """Whether an earlier request under the same idempotency key made the token."""


class NewAuditEntry(NamedTuple):
    """An entry that is to be added to the audit log."""

    at: Instant
    role: Role | None
    name: str
    token: int | None
    node: NodeId | None
    address: str
    action: str
    target: str
    details: bytes
    """Further details of the change, as JSON."""


class AccessStore(Protocol):
    """Access to tokens, to the nodes that secrets belong to, and to the audit log."""

    async def add_token(self, token: NewToken, now: Instant) -> TokenRecord: ...

    async def add_token_once(self, token: NewToken, claim: Claim, now: Instant) -> TokenAnswer:
        """Add a token; the same key and body again make no second token. Raises IdempotencyMismatch."""
        ...

    async def add_first_admin(self, token: NewToken, now: Instant) -> TokenRecord | None:
        """Add a token if no admin token is usable; None when one is. Of many concurrent calls, one adds its token."""
        ...

    async def token_by_secret(self, secret_hash: str) -> TokenRecord | None:
        """Return the token with this secret in any state, expired and revoked ones too."""
        ...

    async def touch_token(self, token: int, now: Instant, every_ms: int) -> None:
        """Record the token's use, unless that was done less than `every_ms` ago."""
        ...

    async def list_tokens(self) -> list[TokenRecord]:
        """Return all tokens, newest first."""
        ...

    async def rotate_token(self, token: int, secret_hash: str, by: str, now: Instant) -> TokenRecord:
        """Replace the secret of a usable token; the old secret is invalid from then on.

        Raises NotFound, or Conflict for a token that is out of use.
        """
        ...

    async def revoke_token(self, token: int, now: Instant) -> TokenRecord:
        """Revoke a token; doing it again changes nothing. Raises NotFound."""
        ...

    async def node_by_secret(self, secret_hash: str) -> NodeId | None: ...

    async def add_audit_entry(self, entry: NewAuditEntry) -> None: ...

    async def audit_page(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        """Return a page of the audit log, newest first; `before` is the last id seen."""
        ...


MASTERS = -1
"""Owner of the built-in task types."""
NO_OWNER = 0
"""Owner of a task type that belongs to no node."""
REVISION_MOST = (1 << 53) - 1
"""Largest revision of a schema; a larger number counts as none."""
OWNER_AWAY_MS = 600_000
"""Span after which another node may take over the task type of a node that is away."""


class TypeIgnored(StrEnum):
    """Why the schema of a node is not the one that tasks are checked by."""

    BUILT_IN = "built into the masters: theirs is used"
    OTHER_NODE = "belongs to another node: its schema is used, until that node brings a newer one or is removed"
    OLDER = "older than the schema in use: its version is lower"


class TypeRecord(NamedTuple):
    """A task type as it is stored."""

    name: str
    version: int
    schema: Mapping[str, Any]
    changed_at: Instant
    owner: int = NO_OWNER
    """Id of the node that may change the schema, `MASTERS` for a built-in type, or `NO_OWNER`."""
    revision: int = 0
    """Number by which the owner orders its schemas; for a built-in type, the release of the master."""


def schema_revision(schema: Mapping[str, Any]) -> int:
    """Return the number under `version` at the top of a schema, which a validator ignores; 0 without one."""
    revision = schema.get("version")
    if isinstance(revision, bool) or not isinstance(revision, int):
        return 0
    return revision if 0 <= revision <= REVISION_MOST else 0


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """One version of a cluster's own configuration; a key that is not in `values` has its default."""

    cluster: str
    version: int
    values: Mapping[str, Any]
    changed_by: str = ""
    changed_at: Instant | None = None


class ConfigStore(Protocol):
    """Access to task types, to the run-time configuration of clusters and to facts of the installation.

    A type whose schema changes gets the next version.
    """

    async def put_built_in_types(self, schemas: Mapping[str, Mapping[str, Any]], release: int, now: Instant) -> None:
        """Store the types of a master. From then on they belong to masters.

        An older release changes none of the types of a newer one.
        """
        ...

    async def put_task_types(
        self, schemas: Mapping[str, Mapping[str, Any]], node: NodeId, now: Instant
    ) -> dict[str, TypeIgnored]:
        """Store the types of a node, and return those that were left unchanged although the node's schema differs.

        A new type, and one whose owner was removed, becomes the node's own. The node changes only its own types, and
        none to a lower revision; it takes over the type of a node that has been away for `OWNER_AWAY_MS` with a higher
        one.
        """
        ...

    async def put_type_names(self, names: Sequence[str], now: Instant) -> None:
        """Store types without a schema; known types are left as they are."""
        ...

    async def task_types(self) -> list[TypeRecord]:
        """Return the task types by name."""
        ...

    async def installation_id(self) -> str:
        """Return the id of the whole installation: 32 hex digits, made at the first call."""
        ...

    async def find_fact(self, key: str) -> str | None:
        """Return a value of which the whole installation has one."""
        ...

    async def keep_fact(self, key: str, value: str) -> str:
        """Store the value unless the key has one already; returns the stored value."""
        ...

    async def cluster_config(self, cluster: str) -> ClusterConfig:
        """Return the newest version; version 0, with no values, when there is none. Raises NotFound if unknown."""
        ...

    async def cluster_configs(self) -> list[ClusterConfig]:
        """Return the newest version of every cluster that has one."""
        ...

    async def put_config(
        self, cluster: str, values: Mapping[str, Any], by: str, now: Instant, expected_version: int | None = None
    ) -> ClusterConfig:
        """Write the next version. Raises NotFound, or Conflict when the newest is not the expected one."""
        ...

    async def config_history(self, cluster: str, limit: int) -> Sequence[ClusterConfig]:
        """Return the versions of a configuration, newest first. Raises NotFound."""
        ...
