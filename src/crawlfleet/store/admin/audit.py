"""The audit log: written once, read from its end."""

from __future__ import annotations

from crawlfleet.model.principal import AuditEntry, Role
from crawlfleet.ports.identity import NewAuditEntry
from crawlfleet.store import row_codec
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Row

_COLUMNS = "at, role, name, token, node, address, action, target, details"
_INSERT = f"INSERT INTO audit ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
AUDIT_PAGE = f"SELECT id, {_COLUMNS} FROM audit WHERE id < $1 ORDER BY id DESC LIMIT $2"
# Ids are in order of time: looking at the oldest ones is enough, and costs the same however long the log is.
OLD_AUDIT = "DELETE FROM audit WHERE id < (SELECT id FROM audit ORDER BY id LIMIT 1) + $2 AND at < $1"
_AFTER_ALL = (1 << 63) - 1


class AuditTables:
    _engine: QueryEngine

    async def note_change(self, entry: NewAuditEntry) -> None:
        row = (entry.at, None if entry.role is None else int(entry.role), *entry[2:])
        await self._engine.write(lambda tx: tx.execute(_INSERT, *row))

    async def audit_page(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        last = _AFTER_ALL if before is None else before
        return [_entry(row) for row in await self._engine.browse(lambda tx: tx.fetch(AUDIT_PAGE, last, limit))]


def _entry(row: Row) -> AuditEntry:
    id_, at, role, name, token, node, address, action, target, details = row
    who = None if role is None else Role(role)
    return AuditEntry(id_, at, who, name, token, node, address, action, target, row_codec.details(details))
