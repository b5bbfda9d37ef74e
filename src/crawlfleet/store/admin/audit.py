"""The audit log: entries are written once, and read from the end of the log."""

from __future__ import annotations

from crawlfleet.model.principal import AuditEntry
from crawlfleet.ports.admin_store import NewAuditEntry
from crawlfleet.store import schema
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.row_codec import JSON_OBJECT, RecordReader, RowCodec

_ENTRIES = RecordReader(AuditEntry, {"details": JSON_OBJECT})
_NEW = RowCodec(schema.audit, NewAuditEntry)
AUDIT_PAGE = f"SELECT {', '.join(_ENTRIES.names)} FROM audit WHERE id < $1 ORDER BY id DESC LIMIT $2"
# Ids are in order of time: reading the oldest ones is enough, and costs the same however long the log is.
OLD_AUDIT = "DELETE FROM audit WHERE id < (SELECT id FROM audit ORDER BY id LIMIT 1) + $2 AND at < $1"
_AFTER_ALL = (1 << 63) - 1


class AuditTables:
    _engine: QueryEngine

    async def add_audit_entry(self, entry: NewAuditEntry) -> None:
        await self._engine.write(lambda tx: tx.insert(schema.audit, _NEW.columns, [_NEW.to_row(entry)]))

    async def audit_page(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        last = _AFTER_ALL if before is None else before
        return _ENTRIES.from_rows(await self._engine.browse_rows(lambda tx: tx.fetch(AUDIT_PAGE, last, limit)))
