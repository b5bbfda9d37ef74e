"""The run-time configuration of clusters, in versions, and the values that identify the whole installation."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from crawlfleet.errors import Conflict, NotFound
from crawlfleet.model.instants import Instant
from crawlfleet.ports.admin_store import ClusterConfig
from crawlfleet.store import row_codec, schema
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.row_codec import RowCodec

_CONFIGS = RowCodec(
    schema.cluster_config, ClusterConfig, columns={"values": "body"}, formats={"values": row_codec.JSON_OBJECT}
)
NEWEST_CONFIGS = (
    f"SELECT {', '.join(f'k.{name}' for name in _CONFIGS.columns)} FROM cluster c JOIN cluster_config k "
    "ON k.cluster = c.name AND k.version = (SELECT MAX(version) FROM cluster_config WHERE cluster = c.name) "
    "ORDER BY c.name"
)
CONFIG_HISTORY = f"SELECT {_CONFIGS.select} FROM cluster_config WHERE cluster = $1 ORDER BY version DESC LIMIT $2"
_HAS_CLUSTER = "SELECT name FROM cluster WHERE name = $1"
_INSTALLATION = "SELECT value FROM installation WHERE key = 'id'"
_FACT = "SELECT value FROM installation WHERE key = $1"


class ConfigTables:
    _engine: Engine

    async def installation_id(self) -> str:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(_INSTALLATION))
        return str(rows[0][0]) if rows else await self._engine.write(lock_installation)

    async def find_fact(self, key: str) -> str | None:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(_FACT, key))
        return str(rows[0][0]) if rows else None

    async def keep_fact(self, key: str, value: str) -> str:
        async def insert_fact(tx: Tx) -> str:
            await tx.insert_new(schema.installation, ("key", "value"), [(key, value)])
            return str((await tx.fetch(_FACT, key))[0][0])

        return await self._engine.write(insert_fact)

    async def cluster_config(self, cluster: str) -> ClusterConfig:
        history = await self.config_history(cluster, 1)
        return history[0] if history else ClusterConfig(cluster, 0, {})

    async def cluster_configs(self) -> list[ClusterConfig]:
        return _CONFIGS.from_rows(await self._engine.read_by_key(lambda tx: tx.fetch(NEWEST_CONFIGS)))

    async def put_config(
        self, cluster: str, values: Mapping[str, Any], by: str, now: Instant, expected_version: int | None = None
    ) -> ClusterConfig:
        async def insert_config(tx: Tx) -> ClusterConfig:
            await _require_cluster(tx, cluster, f"{_HAS_CLUSTER} LOCK_ROWS(cluster)")
            newest = _CONFIGS.from_rows(await tx.fetch(CONFIG_HISTORY, cluster, 1))
            version = newest[0].version if newest else 0
            if expected_version is not None and expected_version != version:
                raise Conflict(f"the configuration of {cluster} is at version {version}, not {expected_version}")
            row = _CONFIGS.to_row(ClusterConfig(cluster, version + 1, values, by, now))
            await tx.insert(schema.cluster_config, _CONFIGS.columns, [row])
            return _CONFIGS.from_row(row)

        return await self._engine.write(insert_config)

    async def config_history(self, cluster: str, limit: int) -> Sequence[ClusterConfig]:
        async def read_history(tx: Tx) -> Sequence[ClusterConfig]:
            await _require_cluster(tx, cluster, _HAS_CLUSTER)
            return _CONFIGS.from_rows(await tx.fetch(CONFIG_HISTORY, cluster, limit))

        return await self._engine.read(read_history)


async def lock_installation(tx: Tx) -> str:
    """Make sure that the installation's row exists, and lock it: transactions that must be alone in the whole
    installation wait here."""
    await tx.insert_new(schema.installation, ("key", "value"), [("id", secrets.token_hex(16))])
    return str((await tx.fetch(f"{_INSTALLATION} LOCK_ROWS(installation)"))[0][0])


async def _require_cluster(tx: Tx, cluster: str, sql: str) -> None:
    if not await tx.fetch(sql, cluster):
        raise NotFound(f"no cluster {cluster}")
