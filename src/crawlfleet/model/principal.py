"""Principals: roles, tokens, and the audit log of what callers did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import Word


class Role(Word):
    """The role of a caller. The first three are people's, each may do what the one before may. A node acts for itself,
    an enrol token only lets nodes join, and a metrics token only reads the metrics."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3
    ENROL = 4
    NODE = 5
    METRICS = 6


TOKEN_ROLES = (Role.VIEWER, Role.OPERATOR, Role.ADMIN, Role.ENROL, Role.METRICS)
"""Roles that a token can have; a node's secret is in its own record."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller."""

    role: Role
    name: str
    token: int | None = None
    """Id of the token it used; None for a node's secret."""
    node: NodeId | None = None
    """Id of the node, for the role of a node."""

    def is_at_least(self, role: Role) -> bool:
        """Return whether a person's role covers another one; never true for nodes and enrolments."""
        return role <= self.role <= Role.ADMIN


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as people see it: its secret is shown once, and only its hash is kept."""

    id: int
    role: Role
    name: str
    created_at: Instant
    created_by: str
    expires_at: Instant | None = None
    uses_left: int | None = None
    """Number of uses left; None for any number."""
    last_used_at: Instant | None = None
    """Instant of the last use, accurate to the minute."""
    rotated_at: Instant | None = None
    rotated_by: str | None = None
    revoked_at: Instant | None = None

    def is_in_force(self, now: Instant) -> bool:
        """Return whether it is neither expired nor revoked, though it may be used up."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def is_usable(self, now: Instant) -> bool:
        return self.is_in_force(now) and self.uses_left != 0


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change that a person made, or tried to make."""

    id: int
    at: Instant
    role: Role | None
    name: str
    token: int | None
    node: NodeId | None
    address: str
    action: str
    target: str
    details: Mapping[str, Any] = field(default_factory=dict)
