"""Files and addresses of a master, as the checks see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlfleet.bootstrap.maintenance.installation_files import find_file_system, read_installation_files
from crawlfleet.settings.master import MasterSettings

MOUNTS = """\
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:25 / /data rw shared:2 - nfs4 server:/export rw
31 30 0:26 / /data/local\\040disk rw - xfs /dev/sdb1 rw
32 22 0:27 / /database rw - btrfs /dev/sdc1 rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/fleet/crawlfleet.db", "ext4"),
        ("/data/crawlfleet.db", "nfs4"),
        ("/data/local disk/crawlfleet.db", "xfs"),
        ("/database/crawlfleet.db", "btrfs"),
    ],
)
def test_the_file_system_is_that_of_the_longest_mount_point(tmp_path: Path, path: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert find_file_system(Path(path), mounts) == kind


def test_where_the_system_does_not_tell_it_is_not_known(tmp_path: Path) -> None:
    assert find_file_system(tmp_path, tmp_path / "none") == ""


def test_the_files_of_a_folder_are_looked_at(tmp_path: Path) -> None:
    settings = MasterSettings(data_dir=tmp_path, host="0.0.0.0", advertise_url="https://m1")
    for name, mode in (("admin.token", 0o644), ("crawlfleet.db", 0o600), ("nodes/local-1/node.json", 0o640)):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        file.chmod(mode)
    part = read_installation_files(settings)
    assert {(Path(file.path).name, file.mode) for file in part.open_files} == {
        ("admin.token", 0o644),
        ("node.json", 0o640),
    }
    assert part.store_file == str(tmp_path / "crawlfleet.db")
    assert (part.listens_on, part.has_tls, part.is_behind_tls) == ("0.0.0.0", False, True)
    assert part.disks["data"].total_bytes > 0
    assert (part.certificate_ends_at, part.certificate_trouble) == (None, "")


def test_a_store_of_postgresql_has_no_file(tmp_path: Path) -> None:
    part = read_installation_files(MasterSettings(data_dir=tmp_path, store="postgresql://fleet@db/fleet"))
    assert (part.store_file, part.file_system) == ("", "")


def test_a_certificate_that_is_none_is_told(tmp_path: Path) -> None:
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("nothing")
        (tmp_path / name).chmod(0o600)
    settings = MasterSettings(data_dir=tmp_path, tls_cert=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem")
    part = read_installation_files(settings)
    assert part.has_tls
    assert part.certificate_ends_at is None
    assert part.certificate_trouble
