"""Task types: one row each, whose version rises when its schema changes, and which only its owner changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.ports.admin_store import MASTERS, NO_OWNER, OWNER_AWAY_MS, TypeIgnored, TypeRecord, schema_revision
from crawlfleet.store import row_codec
from crawlfleet.store import schema as tables
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.row_codec import Format, RowCodec

# Encoded with sorted keys, so that the same schema is the same bytes whichever sender it comes from.
_encode = msgspec.json.Encoder(order="sorted").encode
_TYPES = RowCodec(
    tables.task_type,
    TypeRecord,
    columns={"schema": "body"},
    formats={"schema": Format(_encode, row_codec.decode_details)},
)
_HAS_OWNER = "EXISTS (SELECT 1 FROM node n WHERE n.id = task_type.owner AND n.removed_at IS NULL)"
_OWNER_IS_THERE = (
    "EXISTS (SELECT 1 FROM node n LEFT JOIN lease l ON l.node = n.id WHERE n.id = task_type.owner "
    "AND n.removed_at IS NULL AND (l.is_open = 1 OR n.created_at > $6 OR l.renewed_at > $6))"
)
CHANGE_TYPE = (
    "UPDATE task_type SET version = version + 1, body = $2, changed_at = $3, owner = $4, revision = $5 "
    f"WHERE name = $1 AND body <> $2 AND owner <> {MASTERS} AND "
    f"((revision <= $5 AND (owner = $4 OR NOT {_HAS_OWNER})) OR (revision < $5 AND NOT {_OWNER_IS_THERE}))"
)
ADOPT_TYPE = (
    f"UPDATE task_type SET owner = $3 WHERE name = $1 AND body = $2 AND owner <> {MASTERS} AND NOT {_HAS_OWNER}"
)
CHANGE_BUILT_IN = (
    "UPDATE task_type SET version = version + 1, body = $2, changed_at = $3 "
    f"WHERE name = $1 AND body <> $2 AND (owner <> {MASTERS} OR revision <= $4)"
)
CLAIM_BUILT_IN = (
    f"UPDATE task_type SET owner = {MASTERS}, revision = $3 "
    f"WHERE name = $1 AND body = $2 AND (owner <> {MASTERS} OR revision < $3)"
)
FIND_TYPES = "SELECT name, body, owner FROM task_type WHERE name AMONG($1)"


class TypeTables:
    _engine: Engine

    async def put_built_in_types(self, schemas: Mapping[str, Mapping[str, Any]], release: int, now: Instant) -> None:
        bodies = _encode_schemas(schemas)
        rows = _TYPES.to_rows(TypeRecord(name, 1, schemas[name], now, MASTERS, release) for name, _ in bodies)

        async def write_built_ins(tx: Tx) -> None:
            await tx.insert_new(tables.task_type, _TYPES.columns, rows)
            for name, body in bodies:
                await tx.execute(CHANGE_BUILT_IN, name, body, now, release)
                await tx.execute(CLAIM_BUILT_IN, name, body, release)

        if rows:
            await self._engine.write(write_built_ins)

    async def put_task_types(
        self, schemas: Mapping[str, Mapping[str, Any]], node: NodeId, now: Instant
    ) -> dict[str, TypeIgnored]:
        bodies = dict(_encode_schemas(schemas))
        revisions = {name: schema_revision(schema) for name, schema in schemas.items()}

        async def write_types(tx: Tx) -> dict[str, TypeIgnored]:
            rows = _TYPES.to_rows(TypeRecord(name, 1, schemas[name], now, node, revisions[name]) for name in bodies)
            await tx.insert_new(tables.task_type, _TYPES.columns, rows)
            for name, body in bodies.items():
                await tx.execute(CHANGE_TYPE, name, body, now, node, revisions[name], now - OWNER_AWAY_MS)
                await tx.execute(ADOPT_TYPE, name, body, node)
            stored = await tx.fetch(FIND_TYPES, list(bodies))
            return {name: _ignore_reason(owner, node) for name, body, owner in stored if bytes(body) != bodies[name]}

        return await self._engine.write(write_types) if bodies else {}

    async def put_type_names(self, names: Sequence[str], now: Instant) -> None:
        rows = _TYPES.to_rows(TypeRecord(name, 1, {"type": "object"}, now, NO_OWNER) for name in sorted(names))
        if rows:
            await self._engine.write(lambda tx: tx.insert_new(tables.task_type, _TYPES.columns, rows))

    async def task_types(self) -> list[TypeRecord]:
        rows = await self._engine.read(lambda tx: tx.fetch(f"SELECT {_TYPES.select} FROM task_type"))
        return sorted(_TYPES.from_rows(rows))


def _encode_schemas(schemas: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, bytes]]:
    """Encode schemas in order of name: concurrent writers of the same task types lock them in the same order."""
    return [(name, _encode(schema)) for name, schema in sorted(schemas.items())]


def _ignore_reason(owner: int, node: NodeId) -> TypeIgnored:
    if owner == MASTERS:
        return TypeIgnored.BUILT_IN
    return TypeIgnored.OLDER if owner == node else TypeIgnored.OTHER_NODE
