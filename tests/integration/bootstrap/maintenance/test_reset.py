"""Reset on each store: everything is gone, and nothing while a master runs or when the results are another's."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlfleet.bootstrap.maintenance.reset import describe_installation, installation_name, reset_installation
from crawlfleet.bootstrap.results import open_place
from crawlfleet.errors import ConfigError, Conflict
from crawlfleet.settings.master import MasterSettings
from testkit.servers import S3Server
from tests.integration.bootstrap.maintenance.conftest import Places
from tests.integration.bootstrap.maintenance.installations import fill, names_below, serving

pytestmark = pytest.mark.integration


async def test_a_reset_leaves_nothing_and_the_next_start_begins_anew(places: Places) -> None:
    settings = places.settings("fleet")
    await fill(settings, 3)
    (settings.data_dir / "nodes" / "local-1").mkdir(parents=True)
    assert installation_name(settings) == ("fleet" if "sqlite" in settings.store else settings.store.rpartition("/")[2])
    removed = await reset_installation(settings)
    assert removed.tasks == {"pending": 3}
    assert names_below(settings.data_dir) == set()
    with pytest.raises(ConfigError, match=r"there is no database|has no tables"):
        await describe_installation(settings)
    async with serving(settings) as client:
        assert (await client.stats()).total == 0


async def test_a_reset_is_refused_while_a_master_runs(places: Places) -> None:
    settings = places.settings("fleet")
    await fill(settings, 3)
    async with serving(settings) as client:
        before = names_below(settings.data_dir)
        with pytest.raises(Conflict, match="a master works with"):
            await reset_installation(settings)
        assert (names_below(settings.data_dir), (await client.stats()).total) == (before, 3)


async def test_results_of_another_installation_stay(tmp_path: Path) -> None:
    first = MasterSettings(data_dir=tmp_path / "first", port=0)
    second = MasterSettings(data_dir=tmp_path / "second", port=0)
    await fill(first, 1)
    await fill(second, 1)
    mixed = MasterSettings(data_dir=tmp_path / "first", results=second.results)
    before = names_below(tmp_path)
    (tmp_path / "second" / "results" / "mine.txt").write_text("not of crawlfleet")
    with pytest.raises(Conflict, match="belongs to another installation"):
        await reset_installation(mixed)
    assert names_below(tmp_path) == before | {"second/results/mine.txt"}
    await reset_installation(second)
    assert names_below(tmp_path / "second") == {"results", "results/mine.txt"}


async def test_a_bucket_is_emptied(tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    settings = MasterSettings(data_dir=tmp_path / "fleet", port=0, results=f"{s3_server.create_bucket('resets')}/fleet")
    await fill(settings, 3)
    await reset_installation(settings)
    place = open_place(settings.results)
    assert await place.mark() is None
    assert [page async for page in place.list_files()] == []
