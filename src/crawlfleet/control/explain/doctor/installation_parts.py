"""Parts of the snapshot about the installation: masters, database, tokens, alert channels and backups."""

from __future__ import annotations

from typing import Protocol

import msgspec

from crawlfleet.control.admin.tokens import FIRST_ADMIN
from crawlfleet.model.installation.master import present_masters
from crawlfleet.model.instants import Instant
from crawlfleet.ports.admin_store import BACKUP_FACT, AccessStore, ConfigStore
from crawlfleet.ports.alert_store import AlertStore
from crawlfleet.ports.doctor_store import DoctorStore
from crawlfleet.ports.leadership_store import LeadershipStore
from crawlfleet.ports.maintenance_store import RetentionStore
from crawlfleet.scheduling.doctor.snapshot import (
    AccessPart,
    AlertPart,
    BackupPart,
    DatabasePart,
    MasterPart,
    Standby,
)


class InstallationPartStore(
    LeadershipStore, RetentionStore, AccessStore, ConfigStore, AlertStore, DoctorStore, Protocol
):
    """The part of the store that these parts are read from."""


class BackupFact(msgspec.Struct, frozen=True):
    """The fact about the newest backup, as far as it is needed."""

    made_at: Instant


class InstallationParts:
    def __init__(self, store: InstallationPartStore, now: Instant, revisions: tuple[str, ...]) -> None:
        self._store = store
        self._now = now
        self._revisions = revisions

    async def read_masters(self) -> MasterPart:
        records = present_masters(await self._store.list_masters(self._now))
        return MasterPart(records, (await self._store.read_leader()).holder)

    async def read_database(self) -> DatabasePart:
        condition = await self._store.database_condition()
        return DatabasePart(
            kind=condition.kind,
            revision=condition.revision,
            is_known_revision=condition.revision in self._revisions,
            is_newest_revision=condition.revision == self._revisions[0],
            settings=condition.settings,
            standbys=[Standby(name, state) for name, state in condition.standbys],
        )

    async def read_access(self) -> AccessPart:
        tokens = [token for token in await self._store.list_tokens() if token.is_usable(self._now)]
        return AccessPart(tokens, FIRST_ADMIN)

    async def read_alerts(self) -> AlertPart:
        return AlertPart((await self._store.load_alerts(self._now)).channels)

    async def read_backups(self) -> BackupPart:
        fact = await self._store.find_fact(BACKUP_FACT)
        newest_at = None if fact is None else msgspec.json.decode(fact, type=BackupFact).made_at
        created = [token.created_at for token in await self._store.list_tokens()]
        return BackupPart(newest_at, min(created, default=None))
