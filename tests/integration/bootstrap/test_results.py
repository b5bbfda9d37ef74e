"""Whose the place of the results is: a master that brings another one is told, and nothing is lost in silence."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from crawlfleet.bootstrap.results import FACT, open_results
from crawlfleet.bootstrap.stores import open_store
from crawlfleet.errors import ConfigError
from crawlfleet.results import chunk_bucket
from crawlfleet.settings.master import MasterSettings
from crawlfleet.store.store import SqlStore
from testkit.servers import S3Server

pytestmark = pytest.mark.integration

REDIS = "redis://127.0.0.1:6379/0"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    opened = await open_store(f"sqlite:///{tmp_path}/crawlfleet.db")
    yield opened
    await opened.close()


def settings(folder: Path, place: Path | str, broker: str = REDIS) -> MasterSettings:
    return MasterSettings(data_dir=folder, results=str(place), broker=broker)


def events(said: list[Any]) -> list[str]:
    return [line["event"] for line in said]


async def test_masters_with_one_place_agree_whatever_they_call_it(store: SqlStore, tmp_path: Path) -> None:
    await open_results(settings(tmp_path / "a", tmp_path / "shared"), store)
    (tmp_path / "mounted").symlink_to(tmp_path / "shared")
    with capture_logs() as said:
        await open_results(settings(tmp_path / "b", tmp_path / "mounted"), store)
        await open_results(settings(tmp_path / "a", tmp_path / "shared"), store)
    assert events(said) == []


@pytest.mark.parametrize("broker", ["memory:", REDIS])
async def test_another_place_is_refused_and_left_as_it_was(store: SqlStore, tmp_path: Path, broker: str) -> None:
    await open_results(settings(tmp_path, tmp_path / "first"), store)
    with pytest.raises(ConfigError, match=r"results: .*/second is not where .*/first"):
        await open_results(settings(tmp_path, tmp_path / "second", broker), store)
    assert not (tmp_path / "second").exists()


async def test_the_same_name_on_another_machine_is_another_place(store: SqlStore, tmp_path: Path) -> None:
    await open_results(settings(tmp_path, tmp_path / "results"), store)
    (tmp_path / "results").rename(tmp_path / "of the first machine")
    with pytest.raises(ConfigError, match=r"results: .* is not where"):
        await open_results(settings(tmp_path, tmp_path / "results"), store)


async def test_the_only_master_may_begin_anew_where_its_results_were(store: SqlStore, tmp_path: Path) -> None:
    await open_results(settings(tmp_path, tmp_path / "results", "memory:"), store)
    shutil.rmtree(tmp_path / "results")
    with capture_logs() as said:
        await open_results(settings(tmp_path, tmp_path / "results", "memory:"), store)
        await open_results(settings(tmp_path, tmp_path / "results", "memory:"), store)
    assert events(said) == ["results_are_gone"]


async def test_results_may_move_with_their_mark(store: SqlStore, tmp_path: Path) -> None:
    await open_results(settings(tmp_path, tmp_path / "old"), store)
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    await open_results(settings(tmp_path, tmp_path / "new"), store)


async def test_the_place_of_another_installation_is_refused(store: SqlStore, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = await open_store(f"sqlite:///{tmp_path}/other/crawlfleet.db")
    try:
        await open_results(settings(tmp_path, tmp_path / "results"), other)
        with pytest.raises(ConfigError, match=f"belongs to the installation {await other.installation_id()}"):
            await open_results(settings(tmp_path, tmp_path / "results"), store)
    finally:
        await other.close()


async def test_a_place_that_cannot_be_used_is_named(store: SqlStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"results: .*/file"):
        await open_results(settings(tmp_path, tmp_path / "file"), store)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "installation").write_text("")
    with pytest.raises(ConfigError, match=r"results: the mark installation in .* is damaged"):
        await open_results(settings(tmp_path, tmp_path / "damaged"), store)


async def test_results_in_the_data_dir_are_warned_of_where_masters_may_be_many(store: SqlStore, tmp_path: Path) -> None:
    for broker, expected in ((REDIS, ["results_in_data_dir"]), ("memory:", [])):
        with capture_logs() as said:
            await open_results(MasterSettings(data_dir=tmp_path, broker=broker), store)
        assert events(said) == expected


async def test_a_bucket_that_is_away_is_waited_for_unless_it_is_known(
    store: SqlStore, tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    address = f"{s3_server.create_bucket('places')}/one"
    monkeypatch.setattr(chunk_bucket, "CALL_S", 0.2)

    async def is_back(_pause_s: float) -> None:
        monkeypatch.setattr(chunk_bucket, "CALL_S", 20.0)
        s3_server.resume()

    monkeypatch.setattr("crawlfleet.bootstrap.results.asyncio.sleep", is_back)
    s3_server.pause()
    try:
        with capture_logs() as said:
            await open_results(settings(tmp_path, address), store)
        assert said[0]["again_in_s"] == 0.5
        assert (await store.find_fact(FACT) or "").endswith(f" {address}")
        monkeypatch.setattr(chunk_bucket, "CALL_S", 0.2)
        s3_server.pause()
        with capture_logs() as said:
            await open_results(settings(tmp_path, address), store)
        assert [(line["event"], "again_in_s" in line) for line in said] == [("results_away", False)]
    finally:
        s3_server.resume()
