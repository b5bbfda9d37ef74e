"""The audit log: the changes that people made, with who, when and from where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.principal import AuditEntry, Principal
from crawlfleet.ports.admin_store import AccessStore, NewAuditEntry
from crawlfleet.ports.clock import Clock
from crawlfleet.wire.schema_errors import shorten_text

PAGE_MOST = 1_000
DETAILS_BYTES = 4 << 10


class Audit:
    def __init__(self, *, store: AccessStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def write_entry(
        self,
        principal: Principal | None,
        address: str,
        action: str,
        target: str,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Write an entry, whatever its texts contain. A principal of None stands for a caller that could not
        authenticate."""
        role, name, token, node = (
            (None, "", None, None)
            if principal is None
            else (principal.role, principal.name, principal.token, principal.node)
        )
        await self._store.add_audit_entry(
            NewAuditEntry(
                self._clock.now(),
                role,
                _storable_text(name),
                token,
                node,
                _storable_text(address),
                _storable_text(action),
                _storable_text(target),
                _encode_details(details or {}),
            )
        )

    async def list_entries(self, limit: int = 100, before: int | None = None) -> list[AuditEntry]:
        """Return a page of entries, newest first; `before` is the id of the last entry of the page before."""
        if not 0 < limit <= PAGE_MOST:
            raise InvalidInput(f"1 to {PAGE_MOST}", field="limit")
        if before is not None and not 0 < before < 1 << limits.INTEGER_BITS:
            raise InvalidInput("the id of an entry", field="before")
        return await self._store.audit_page(limit, before)


def _storable_text(text: str) -> str:
    """Return as much of the text as a database can keep: an entry is never lost for what a caller wrote into it."""
    return shorten_text(text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode())


def _encode_details(details: Mapping[str, Any]) -> bytes:
    body = json.dumps(details, default=str, ensure_ascii=False).encode("utf-8", "replace")
    if len(body) > DETAILS_BYTES:
        body = json.dumps({"cut": len(body), "fields": [_storable_text(str(key)) for key in details][:20]}).encode()
    return body
