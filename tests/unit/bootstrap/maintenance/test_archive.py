"""The file of a backup: whole or refused, with the name of what is damaged."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.bootstrap.maintenance.archive import (
    FILE_LIST,
    FORMAT,
    MANIFEST,
    MANIFEST_HASH,
    ArchiveWriter,
    BackupManifest,
    read_members,
    verify_archive,
)
from crawlfleet.errors import InvalidInput

FILES = {"store/crawlfleet.dump": b"database" * 1_000, "admin.token": b"secret\n", "results/installation": b"mark\n"}


def manifest(files_sha256: str, **other: object) -> BackupManifest:
    fields = {
        "format": FORMAT,
        "made_at": 1,
        "version": "0.1.0",
        "installation": "abc",
        "store": "sqlite",
        "store_version": "3",
        "revision": "0001",
        "tables": {"task": 1},
        "tasks": {"pending": 1},
        "result_files": 0,
        "result_bytes": 0,
    }
    return msgspec.convert({**fields, **other, "files_sha256": files_sha256}, BackupManifest)


def write(file: Path, **other: object) -> BackupManifest:
    writer = ArchiveWriter(file)
    for name, body in FILES.items():
        writer.add_bytes(name, body)
    return writer.finish(lambda files_sha256: manifest(files_sha256, **other))


def rewrite(file: Path, without: str = "", **replaced: bytes) -> None:
    """Write the archive anew, as one who knows tar and forgets the hashes."""
    members = [(name, content.read()) for name, content in read_members(file) if name != without]
    with tarfile.open(file, "w") as tar:
        for name, body in members:
            new_body = replaced.get(name.rpartition("/")[2].replace(".", "_"), body)
            member = tarfile.TarInfo(name)
            member.size = len(new_body)
            tar.addfile(member, io.BytesIO(new_body))


def test_what_was_written_is_read_and_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.tar"
    made = write(file)
    sizes: list[int] = []
    assert verify_archive(file, sizes.append) == made
    assert sum(sizes) > sum(map(len, FILES.values()))
    bodies = {name: content.read() for name, content in read_members(file)}
    assert {name: bodies[name] for name in FILES} == FILES
    assert list(bodies)[-3:] == [FILE_LIST, MANIFEST, MANIFEST_HASH]
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


def test_a_discarded_archive_leaves_nothing(tmp_path: Path) -> None:
    writer = ArchiveWriter(tmp_path / "a.tar")
    writer.add_bytes("admin.token", b"secret")
    writer.discard()
    assert list(tmp_path.iterdir()) == []


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_no_flipped_bit_of_a_file_or_of_the_lists_passes(
    tmp_path_factory: pytest.TempPathFactory, place: float, bit: int
) -> None:
    file = tmp_path_factory.mktemp("archive") / "a.tar"
    made = write(file)
    body = bytearray(file.read_bytes())
    index = int(place * len(body))
    body[index] ^= 1 << bit
    file.write_bytes(body)
    try:
        found = verify_archive(file)
    except InvalidInput as exc:
        assert str(file) in str(exc)
        return
    # What is left are bits that hold nothing: times and modes in headers, and padding.
    assert found == made
    kept = {name: content.read() for name, content in read_members(file)}
    assert {name: kept.get(name) for name in FILES} == FILES


@pytest.mark.parametrize("part", [0, 0.3, 0.7, 0.999])
def test_a_cut_archive_is_not_whole(tmp_path: Path, part: float) -> None:
    file = tmp_path / "a.tar"
    write(file)
    body = file.read_bytes().rstrip(b"\0")
    file.write_bytes(body[: int(len(body) * part)])
    with pytest.raises(InvalidInput, match="no whole backup"):
        verify_archive(file)


@pytest.mark.parametrize(
    ("without", "message"),
    [
        (MANIFEST, "its end is missing"),
        (MANIFEST_HASH, "its end is missing"),
        (FILE_LIST, "its end is missing"),
        ("admin.token", "admin.token is damaged"),
        ("results/installation", "results/installation is missing"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, without: str, message: str) -> None:
    file = tmp_path / "a.tar"
    write(file)
    rewrite(file, without)
    with pytest.raises(InvalidInput, match=message):
        verify_archive(file)


def test_a_changed_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.tar"
    write(file)
    rewrite(file, crawlfleet_dump=b"another database")
    with pytest.raises(InvalidInput, match=r"store/crawlfleet\.dump is damaged"):
        verify_archive(file)


def test_a_manifest_that_is_none_and_another_format_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.tar"
    write(file)
    rewrite(file, manifest_json=b"{}")
    with pytest.raises(InvalidInput, match=r"manifest\.json is damaged"):
        verify_archive(file)
    rewrite(file, manifest_json=b"{}", manifest_sha256=hashlib.sha256(b"{}").hexdigest().encode())
    with pytest.raises(InvalidInput, match="its manifest cannot be read"):
        verify_archive(file)
    write(tmp_path / "b.tar", format=2, version="9.9")
    with pytest.raises(InvalidInput, match=r"format 2, and this program reads format 1: use crawlfleet 9\.9"):
        verify_archive(tmp_path / "b.tar")


def test_what_is_no_archive_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.tar"
    file.write_bytes(b"hello" * 1_000)
    with pytest.raises(InvalidInput, match="no whole backup"):
        verify_archive(file)
    with pytest.raises(InvalidInput, match="cannot be read: Is a directory"):
        verify_archive(tmp_path)
    with tarfile.open(file, "w") as tar:
        link = tarfile.TarInfo("admin.token")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(InvalidInput, match="is no file"):
        verify_archive(file)
