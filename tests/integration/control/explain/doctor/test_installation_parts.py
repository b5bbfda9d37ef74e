"""Parts of the snapshot about the installation, read from real stores."""

from __future__ import annotations

import msgspec

from crawlfleet.control.explain.doctor.installation_parts import InstallationParts
from crawlfleet.model.installation.master import MasterFigures, MasterIdentity
from crawlfleet.model.principal import Role
from crawlfleet.ports.admin_store import BACKUP_FACT, NewToken
from crawlfleet.store.engine.migrate import known_revisions
from crawlfleet.store.store import SqlStore
from testkit.factories import Kit


def parts(store: SqlStore, kit: Kit, *revisions: str) -> InstallationParts:
    return InstallationParts(store, kit.now, revisions or tuple(known_revisions()))


async def test_masters_and_their_leader_are_read(store: SqlStore) -> None:
    kit = await Kit.open(store, store)
    identity = MasterIdentity(await store.register_master("m", kit.now), "m", kit.now, "1.0")
    await store.record_master_beat(identity, MasterFigures(memory_bytes=5), kit.now)
    await store.campaign(identity.holder, await store.read_leader(), kit.now)
    part = await parts(store, kit).read_masters()
    assert part.leader == identity.holder
    assert identity in [record.identity for record in part.alive]


async def test_the_revision_of_the_tables_is_compared(store: SqlStore) -> None:
    kit = await Kit.open(store, store)
    newest = known_revisions()[0]
    part = await parts(store, kit).read_database()
    assert (part.revision, part.is_known_revision, part.is_newest_revision) == (newest, True, True)
    older = await parts(store, kit, "later", newest).read_database()
    assert (older.is_known_revision, older.is_newest_revision) == (True, False)
    assert not (await parts(store, kit, "another").read_database()).is_known_revision


async def test_tokens_that_can_be_used_are_read(store: SqlStore) -> None:
    kit = await Kit.open(store, store)
    good = await store.add_token(NewToken(Role.ADMIN, "ann", "hash", "ann"), kit.now)
    gone = await store.add_token(NewToken(Role.ADMIN, "bob", "other", "ann"), kit.now)
    await store.revoke_token(gone.id, kit.now)
    assert [token.id for token in (await parts(store, kit).read_access()).tokens] == [good.id]


async def test_the_newest_backup_is_read_from_its_fact(store: SqlStore) -> None:
    kit = await Kit.open(store, store)
    part = await parts(store, kit).read_backups()
    assert (part.newest_at, part.installed_at) == (None, None)
    await store.add_token(NewToken(Role.ADMIN, "ann", "hash", "ann"), kit.now)
    await store.keep_fact(BACKUP_FACT, msgspec.json.encode({"made_at": 5, "file": "f", "bytes": 1}).decode())
    part = await parts(store, kit).read_backups()
    assert (part.newest_at, part.installed_at) == (5, kit.now)


async def test_no_channel_is_no_channel(store: SqlStore) -> None:
    kit = await Kit.open(store, store)
    assert list((await parts(store, kit).read_alerts()).channels) == []
