"""Sole access excludes masters, in both directions."""

from __future__ import annotations

import pytest

from crawlfleet.bootstrap.maintenance.sole_access import sole_access, sqlite_path
from crawlfleet.bootstrap.stores import open_store
from crawlfleet.errors import ConfigError, Conflict
from tests.integration.bootstrap.maintenance.conftest import Places


async def test_a_master_and_sole_access_exclude_each_other(places: Places) -> None:
    settings = places.settings("first")
    settings.data_dir.mkdir()
    store = await open_store(settings.store)
    with pytest.raises(Conflict, match="a master works with"):
        async with sole_access(settings.store):
            pass
    await store.close()
    async with sole_access(settings.store):
        with pytest.raises(ConfigError, match=r"in use|runs on this store"):
            await open_store(settings.store)
    await (await open_store(settings.store)).close()


async def test_an_address_of_neither_kind_is_told() -> None:
    with pytest.raises(ConfigError, match=r"neither sqlite:///FILE nor postgresql://"):
        async with sole_access("mysql://somewhere"):
            pass
    assert sqlite_path("postgresql://somewhere/else") is None
