"""Evidence: how executions ended, by node and by subject, with less weight for what is older.

A *subject* is something that tasks have in common: a type of content, a technology, a host. Old evidence counts less:
half as much with every half-life, so that a node that was repaired, or a site that changed, is soon judged anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant

Subject = tuple[str, str]
"""Kind and key of a subject, such as ("technology", "react")."""

CONTENT_TYPE, TECHNOLOGY, HOST, BYPASS = "content_type", "technology", "host", "bypass"
CONTENT_KINDS = (CONTENT_TYPE, TECHNOLOGY)

HALF_LIFE_MS = 3 * 86_400_000
"""Span in which the weight of evidence halves."""
KEEP_MS = 20 * HALF_LIFE_MS
"""Span for which evidence is kept: after that, a million outcomes are worth less than one."""


class Record(NamedTuple):
    """Weighted numbers of executions by their end, as they count at the instant `at`."""

    ok: float = 0.0
    failed: float = 0.0
    blocked: float = 0.0
    at: Instant = 0
    last_blocked_at: Instant | None = None

    @property
    def total(self) -> float:
        return self.ok + self.failed + self.blocked

    def decayed_to(self, now: Instant) -> Record:
        """Return the record as it counts at a later instant; a clock that was set back makes nothing younger."""
        if now <= self.at:
            return self
        left = 0.5 ** ((now - self.at) / HALF_LIFE_MS)
        return Record(self.ok * left, self.failed * left, self.blocked * left, now, self.last_blocked_at)

    def plus(self, other: Record) -> Record:
        """Return the sum of two records, as it counts at the later of their instants."""
        at = max(self.at, other.at)
        mine, others = self.decayed_to(at), other.decayed_to(at)
        blocks = [block for block in (self.last_blocked_at, other.last_blocked_at) if block is not None]
        return Record(
            mine.ok + others.ok,
            mine.failed + others.failed,
            mine.blocked + others.blocked,
            at,
            max(blocks, default=None),
        )


NO_RECORD = Record()


def sum_records(records: Iterable[Record]) -> Record:
    """Return the sum of the records."""
    found = NO_RECORD
    for record in records:
        found = found.plus(record)
    return found


class EvidenceRow(NamedTuple):
    """The evidence of one node about one subject."""

    node: NodeId
    subject: Subject
    address: str
    """Address from which the node's requests came, as far as it is known: sites block addresses, not nodes."""
    record: Record

    @property
    def id(self) -> int:
        return evidence_id(self.node, self.subject)


def evidence_id(node: NodeId, subject: Subject) -> int:
    text = "\x00".join((str(node), *subject))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
