"""Looks at the files and the address of a master for the checks of an installation; nothing is changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from crawlfleet.bootstrap.certificate_end import CertificateUnreadable, read_certificate_end
from crawlfleet.bootstrap.maintenance.sole_access import sqlite_path
from crawlfleet.bootstrap.master_settings import watched_folders
from crawlfleet.bootstrap.process_figures import measure_disks
from crawlfleet.model.instants import Instant
from crawlfleet.scheduling.doctor.snapshot import FilePart, OpenFile
from crawlfleet.settings.master import MasterSettings

OTHERS = 0o077
_MOUNTS = Path("/proc/self/mountinfo")
_SECRETS = ("admin.token", "admin.token.new")
_MAX_NODES = 100


def read_installation_files(settings: MasterSettings, mounts: Path = _MOUNTS) -> FilePart:
    store_file = sqlite_path(settings.store)
    ends_at, trouble = _read_certificate(settings)
    return FilePart(
        store_file="" if store_file is None else str(store_file),
        file_system="" if store_file is None else find_file_system(store_file, mounts),
        disks=measure_disks(watched_folders(settings)),
        open_files=[
            OpenFile(str(path), path.stat().st_mode & 0o777)
            for path in _secret_files(settings)
            if path.is_file() and path.stat().st_mode & OTHERS
        ],
        listens_on=settings.host,
        has_tls=settings.tls_cert is not None,
        is_behind_tls=(settings.advertise_url or "").startswith("https://"),
        certificate=str(settings.tls_cert or ""),
        certificate_ends_at=ends_at,
        certificate_trouble=trouble,
    )


def _secret_files(settings: MasterSettings) -> Iterator[Path]:
    yield from (settings.data_dir / name for name in _SECRETS)
    if (store_file := sqlite_path(settings.store)) is not None:
        yield from (store_file, store_file.with_name(f"{store_file.name}-wal"))
    if settings.tls_key is not None:
        yield settings.tls_key
    nodes = settings.data_dir / "nodes"
    with contextlib.suppress(FileNotFoundError):
        for folder in sorted(nodes.iterdir())[:_MAX_NODES]:
            yield folder / "node.json"


def _read_certificate(settings: MasterSettings) -> tuple[Instant | None, str]:
    if settings.tls_cert is None:
        return None, ""
    try:
        return read_certificate_end(settings.tls_cert), ""
    except (OSError, CertificateUnreadable) as exc:
        return None, str(exc)


def find_file_system(file: Path, mounts: Path = _MOUNTS) -> str:
    """Return the type of the file system that a file is on, by the longest mount point above it; empty where the
    system does not tell."""
    path = Path(file).resolve()
    longest, kind = -1, ""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        # 36 35 98:0 /root /mount/point options - type source more: the mount point is the fifth, the type behind " - ".
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4].replace("\\040", " "))
        if (path == point or point in path.parents) and len(point.parts) >= longest:
            longest, kind = len(point.parts), after.split()[0]
    return kind
