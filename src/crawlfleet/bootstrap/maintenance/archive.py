"""The file of a backup: a tar archive that carries the hash of everything in it.

    store/crawlfleet.db.zst or store/crawlfleet.dump     the database
    admin.token                                          the first admin token, where there is one
    results/installation, results/<chunk> ...            the mark of the results, then their files
    files.txt                                            SHA-256, size and name of each of those, in their order
    manifest.json                                        versions, counts, and the SHA-256 of files.txt
    manifest.sha256                                      the SHA-256 of manifest.json

An archive without its last member is not whole. An archive is written and checked in one pass, with
a memory that does not depend on its size.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Literal

import msgspec

from crawlfleet.errors import InvalidInput
from crawlfleet.settings.private_files import open_private

FORMAT = 1
FILE_LIST, MANIFEST, MANIFEST_HASH = "files.txt", "manifest.json", "manifest.sha256"
SQLITE_MEMBER, POSTGRES_MEMBER = "store/crawlfleet.db.zst", "store/crawlfleet.dump"
TOKEN_MEMBER, RESULTS_FOLDER = "admin.token", "results/"
_BLOCK = 1 << 20
_MANIFEST_MAX_BYTES = 1 << 20

OnBytes = Callable[[int], None]
"""Receives the number of bytes that were read since the last call."""


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What a backup holds, and what made it."""

    format: int
    made_at: int
    """The instant of the copy of the database: later changes are not in the backup."""
    version: str
    """Version of crawlfleet that made the backup."""
    installation: str
    store: Literal["sqlite", "postgresql"]
    store_version: str
    """Version of the database program."""
    revision: str
    """Revision of the tables."""
    tables: dict[str, int]
    """Rows by table."""
    tasks: dict[str, int]
    """Tasks by status."""
    result_files: int
    result_bytes: int
    files_sha256: str


class ArchiveWriter:
    """Writes an archive under a temporary name, which `finish` changes to its own; `discard` leaves nothing."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._part = file.with_name(f"{file.name}.{os.getpid()}.part")
        self._raw = open(self._part, "xb", opener=open_private)  # noqa: SIM115 - closed by finish or discard
        self._tar = tarfile.open(fileobj=self._raw, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._list = tempfile.TemporaryFile(dir=file.parent)  # noqa: SIM115
        self._list_hash = hashlib.sha256()

    def add_file(self, name: str, path: Path, on_bytes: OnBytes | None = None) -> None:
        with path.open("rb") as source:
            self._add_member(name, source, path.stat().st_size, on_bytes)

    def add_bytes(self, name: str, body: bytes) -> None:
        self._add_member(name, io.BytesIO(body), len(body), None)

    def finish(self, manifest: Callable[[str], BackupManifest]) -> BackupManifest:
        """Write the list of files and the manifest, which is made from the hash of that list, and name the archive."""
        size = self._list.tell()
        self._list.seek(0)
        self._tar.addfile(_member(FILE_LIST, size), self._list)
        made = manifest(self._list_hash.hexdigest())
        body = msgspec.json.format(msgspec.json.encode(made), indent=2)
        self._tar.addfile(_member(MANIFEST, len(body)), io.BytesIO(body))
        own_hash = hashlib.sha256(body).hexdigest().encode()
        self._tar.addfile(_member(MANIFEST_HASH, len(own_hash)), io.BytesIO(own_hash))
        self._tar.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._close()
        self._part.rename(self._file)
        _sync_folder(self._file.parent)
        return made

    def discard(self) -> None:
        self._close()
        self._part.unlink(missing_ok=True)

    def _close(self) -> None:
        self._raw.close()
        self._list.close()

    def _add_member(self, name: str, source: IO[bytes], size: int, on_bytes: OnBytes | None) -> None:
        hashing = HashingReader(source, on_bytes)
        self._tar.addfile(_member(name, size), hashing)
        self._tar.members.clear()  # type: ignore[attr-defined]
        line = _file_line(hashing.sha256.hexdigest(), size, name)
        self._list.write(line)
        self._list_hash.update(line)


class HashingReader:
    """A file whose content is hashed while it is read."""

    def __init__(self, source: IO[bytes], on_bytes: OnBytes | None = None, archive: Path | None = None) -> None:
        self._source = source
        self._on_bytes = on_bytes
        self._archive = archive
        self.sha256 = hashlib.sha256()
        self.size_bytes = 0

    def read(self, size: int = -1) -> bytes:
        try:
            block = self._source.read(size)
        except (tarfile.TarError, OSError) as exc:
            if self._archive is None:
                raise
            raise _damaged(self._archive, str(exc)) from exc
        self.sha256.update(block)
        self.size_bytes += len(block)
        if self._on_bytes is not None:
            self._on_bytes(len(block))
        return block

    def drain(self) -> None:
        while self.read(_BLOCK):
            pass


def verify_archive(file: Path, on_bytes: OnBytes | None = None) -> BackupManifest:
    """Read all of an archive, compare every hash, and return its manifest. Raises InvalidInput, which names what is
    damaged."""
    with tempfile.TemporaryFile() as seen:
        seen_hash = hashlib.sha256()
        manifest_body: bytes | None = None
        manifest_hash: bytes | None = None
        listed_sha256: str | None = None
        for name, content in read_members(file, on_bytes):
            if name == MANIFEST:
                manifest_body = content.read(_MANIFEST_MAX_BYTES)
            elif name == MANIFEST_HASH:
                manifest_hash = content.read(_MANIFEST_MAX_BYTES)
            elif name == FILE_LIST:
                seen.seek(0)
                listed_sha256 = _compare_lists(file, seen, content)
            elif listed_sha256 is not None:
                raise _damaged(file, f"{name} stands behind its list of files")
            else:
                content.drain()
                line = _file_line(content.sha256.hexdigest(), content.size_bytes, name)
                seen.write(line)
                seen_hash.update(line)
    if manifest_body is None or manifest_hash is None or listed_sha256 is None:
        raise _damaged(file, "its end is missing")
    if hashlib.sha256(manifest_body).hexdigest().encode() != manifest_hash:
        raise _damaged(file, f"{MANIFEST} is damaged")
    manifest = _decode_manifest(file, manifest_body)
    if manifest.files_sha256 != seen_hash.hexdigest() or listed_sha256 != manifest.files_sha256:
        raise _damaged(file, "its list of files does not match its manifest")
    return manifest


def read_members(file: Path, on_bytes: OnBytes | None = None) -> Iterator[tuple[str, HashingReader]]:
    """Yield each member of an archive with its content, which is to be read before the next one. Raises InvalidInput
    for a file that is no archive of a backup."""
    try:
        with file.open("rb") as raw, tarfile.open(fileobj=raw, mode="r|") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if content is None:
                    raise _damaged(file, f"{member.name!r} is no file")
                yield member.name, HashingReader(content, on_bytes, file)
                tar.members.clear()  # type: ignore[attr-defined]
    except tarfile.TarError as exc:
        raise _damaged(file, str(exc)) from exc
    except OSError as exc:
        raise InvalidInput(f"{file} cannot be read: {exc.strerror or exc}") from exc


def _decode_manifest(file: Path, body: bytes) -> BackupManifest:
    try:
        manifest = msgspec.json.decode(body, type=BackupManifest)
    except msgspec.DecodeError as exc:
        raise _damaged(file, f"its manifest cannot be read: {exc}") from exc
    if manifest.format != FORMAT:
        raise InvalidInput(
            f"{file} is a backup of format {manifest.format}, and this program reads format {FORMAT}: use crawlfleet "
            f"{manifest.version}"
        )
    return manifest


def _compare_lists(file: Path, seen: IO[bytes], listed: HashingReader) -> str:
    """Compare the members that were read with the archive's own list, and return the hash of that list."""
    expected = io.BufferedReader(_RawReader(listed))
    for line in seen:
        if (expected_line := expected.readline()) != line:
            name = (expected_line or line).split(b" ", 2)[-1].decode(errors="replace").strip()
            raise _damaged(file, f"{name} is damaged")
    if missing := expected.readline():
        raise _damaged(file, f"{missing.split(b' ', 2)[-1].decode(errors='replace').strip()} is missing")
    return listed.sha256.hexdigest()


class _RawReader(io.RawIOBase):
    def __init__(self, source: HashingReader) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self._source.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)


def _damaged(file: Path, why: str) -> InvalidInput:
    return InvalidInput(f"{file} is no whole backup: {why}")


def _file_line(sha256: str, size: int, name: str) -> bytes:
    return f"{sha256} {size} {name}\n".encode()


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o600
    return member


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
