"""The check of the database on each store: sound, contradictory, damaged; beside a running master."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import asyncpg
import pytest

from crawlfleet.bootstrap.maintenance.sole_access import sqlite_path
from crawlfleet.bootstrap.maintenance.store_check import CONTRADICTIONS, check_store
from crawlfleet.errors import ConfigError
from crawlfleet.settings.master import MasterSettings
from tests.integration.bootstrap.maintenance.conftest import Places
from tests.integration.bootstrap.maintenance.installations import fill, serving

pytestmark = pytest.mark.integration


async def execute(settings: MasterSettings, sql: str) -> None:
    path = sqlite_path(settings.store)
    if path is None:
        connection = await asyncpg.connect(settings.store)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()
        return
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(sql)


async def test_a_sound_store_beside_a_running_master(places: Places) -> None:
    settings = places.settings("fleet")
    await fill(settings, 5)
    async with serving(settings):
        report = await check_store(settings.store)
    assert report.is_sound
    assert (report.note is None) == (report.store == "sqlite")


async def test_rows_that_contradict_each_other_are_counted(places: Places) -> None:
    settings = places.settings("fleet")
    await fill(settings, 5)
    await execute(settings, "DELETE FROM task WHERE id IN (SELECT id FROM task ORDER BY id LIMIT 2)")
    await execute(settings, "DELETE FROM live WHERE id = (SELECT MAX(id) FROM live)")
    await execute(settings, "UPDATE live SET node = 4711 WHERE id = (SELECT MIN(id) FROM live)")
    report = await check_store(settings.store)
    assert report.contradictions == {
        "open rows without their task": 2,
        "tasks that are neither open nor final": 1,
        "tasks held by nodes that do not exist": 1,
    }
    assert not report.is_sound
    assert set(report.contradictions) < set(CONTRADICTIONS)


async def test_indexes_are_checked_where_the_database_can(places: Places) -> None:
    settings = places.settings("fleet")
    await fill(settings, 1)
    path = sqlite_path(settings.store)
    if path is None:
        try:
            await execute(settings, "CREATE EXTENSION amcheck")
        except asyncpg.PostgresError as exc:
            pytest.skip(f"the server has no amcheck: {exc}")
        assert (await check_store(settings.store)).note is None
        return
    body = bytearray(path.read_bytes())
    body[8192:65536] = bytes(57344)
    path.write_bytes(body)
    assert (await check_store(settings.store)).damage


async def test_a_place_without_an_installation_is_told(places: Places) -> None:
    settings = places.settings("nothing")
    with pytest.raises(ConfigError, match=r"there is no database|has no tables"):
        await check_store(settings.store)
