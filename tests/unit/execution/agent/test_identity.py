"""The file a node keeps itself in."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from crawlfleet.errors import ConfigError
from crawlfleet.execution.agent.identity import Identity, IdentityFile, lock_directory, short_hash
from crawlfleet.model.ids import node_text


def test_a_new_node_has_a_join_key_and_nothing_else(tmp_path: Path) -> None:
    first, second = IdentityFile(tmp_path).load(), IdentityFile(tmp_path).load()
    assert not first.is_known
    assert first.join_key != second.join_key, "not on disk yet"


def test_what_is_saved_is_loaded_and_nobody_else_reads_it(tmp_path: Path) -> None:
    file = IdentityFile(tmp_path)
    identity = Identity("key", node_text(77), "secret", ["http://a"], description_hash="x")
    file.save(identity)
    assert IdentityFile(tmp_path).load() == identity
    assert identity.node == 77
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["node.json"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"join_key": 5}', '{"join_key": "k", "node_id": "node-1", "secret": "s"}']
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "node.json").write_text(text)
    with pytest.raises(ConfigError, match=r"node\.json is damaged"):
        IdentityFile(tmp_path).load()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="data_dir"), lock_directory(tmp_path / "file" / "below"):
        pass
    with pytest.raises(ConfigError, match="data_dir"):
        IdentityFile(tmp_path / "gone").save(Identity("key"))


def test_one_directory_one_agent(tmp_path: Path) -> None:
    in_use = pytest.raises(ConfigError, match="in use by another agent")
    with lock_directory(tmp_path / "node"), in_use, lock_directory(tmp_path / "node"):
        pass
    with lock_directory(tmp_path / "node"):
        pass


def test_a_hash_of_nothing_is_nothing() -> None:
    assert short_hash("") == ""
    assert short_hash("a") != short_hash("b")
