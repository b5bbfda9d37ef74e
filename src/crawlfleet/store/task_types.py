"""Task types: one row each, whose version rises when its schema changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from crawlfleet.model.instants import Instant
from crawlfleet.ports.identity import TypeRecord
from crawlfleet.store import codec, tables
from crawlfleet.store.tx import Engine, Tx

# In one order, so that the same schema is the same bytes whoever sends it.
_encode = msgspec.json.Encoder(order="sorted").encode
RAISE_TYPE = "UPDATE task_type SET version = version + 1, body = $2, changed_at = $3 WHERE name = $1 AND body <> $2"


class TypeTables:
    _engine: Engine

    async def put_task_types(
        self, schemas: Mapping[str, Mapping[str, Any]], now: Instant, *, is_only_new: bool = False
    ) -> None:
        # By name: whoever puts the same ones at the same moment locks them in the same order.
        rows = [(name, 1, _encode(schema), now) for name, schema in sorted(schemas.items())]

        async def work(tx: Tx) -> None:
            await tx.insert_new(tables.task_type, ("name", "version", "body", "changed_at"), rows)
            if not is_only_new:
                for name, _, body, _ in rows:
                    await tx.execute(RAISE_TYPE, name, body, now)

        if rows:
            await self._engine.write(work)

    async def task_types(self) -> list[TypeRecord]:
        sql = "SELECT name, version, body, changed_at FROM task_type"
        rows = await self._engine.read(lambda tx: tx.fetch(sql))
        return sorted(TypeRecord(name, version, codec.details(body), at) for name, version, body, at in rows)
