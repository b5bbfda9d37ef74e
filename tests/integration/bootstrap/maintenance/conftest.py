"""An installation on each store, made by a real master, with tasks and results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlfleet.settings.master import MasterSettings
from testkit.servers import PostgresServer


class Places:
    """Settings of installations: each with a folder, and a database where the store is PostgreSQL."""

    def __init__(self, folder: Path, server: PostgresServer | None) -> None:
        self._folder = folder
        self._server = server
        self._databases: list[str] = []

    def settings(self, name: str) -> MasterSettings:
        data_dir = self._folder / name
        if self._server is None:
            return MasterSettings(data_dir=data_dir, port=0)
        self._databases.append(self._server.create_database())
        return MasterSettings(data_dir=data_dir, port=0, store=self._databases[-1])

    def close(self) -> None:
        for database in self._databases:
            assert self._server is not None
            self._server.drop_database(database)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def places(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    server: PostgresServer | None = None
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        assert server is not None
        monkeypatch.setenv("PATH", f"{server.program('pg_dump').parent}:{Path('/usr/bin')}:{Path('/bin')}")
    made = Places(tmp_path, server)
    yield made
    made.close()
