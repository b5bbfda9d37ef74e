"""The log file through rotations and faults: no line is lost without a word, and no fault reaches the process."""

import errno
import gzip
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from crawlfleet.observe.log_file import FILE_MODE, LogFile


class Watched:
    """A log file whose reports are kept."""

    def __init__(self, path: Path) -> None:
        self.faults: list[int | None] = []
        self.recoveries: list[int] = []
        self.file = LogFile(path, lambda exc: self.faults.append(exc.errno), self.recoveries.append)

    def write_lines(self, *lines: str) -> list[bool]:
        return [self.file.write_line(line) for line in lines]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "master.log"


@pytest.fixture
def watched(path: Path) -> Watched:
    return Watched(path)


def test_lines_are_appended_to_what_is_there(path: Path, watched: Watched) -> None:
    path.write_text("earlier\n")
    assert watched.write_lines("one", "zwei ü", "half \ud83d") == [True, True, True]
    assert path.read_text() == "earlier\none\nzwei ü\nhalf \\ud83d\n"


def test_a_new_file_is_for_its_owner_and_its_group(path: Path, watched: Watched) -> None:
    had = os.umask(0)
    try:
        watched.write_lines("one")
    finally:
        os.umask(had)
    assert path.stat().st_mode & 0o777 == FILE_MODE


def test_the_first_line_after_a_move_is_in_the_new_file(path: Path, watched: Watched) -> None:
    watched.write_lines("one")
    moved = path.rename(path.with_suffix(".log.1"))
    assert watched.write_lines("two") == [True]
    # logrotate may make the next file itself.
    moved_again = path.rename(path.with_suffix(".log.2"))
    path.touch()
    watched.write_lines("three")
    assert (moved.read_text(), moved_again.read_text(), path.read_text()) == ("one\n", "two\n", "three\n")
    assert not watched.faults


def test_a_removed_file_is_made_again(path: Path, watched: Watched) -> None:
    watched.write_lines("one")
    path.unlink()
    watched.write_lines("two")
    assert path.read_text() == "two\n"


def test_a_file_that_is_copied_and_cut_off_goes_on_from_its_start(path: Path, watched: Watched) -> None:
    watched.write_lines("one")
    shutil.copy(path, path.with_suffix(".log.1"))
    os.truncate(path, 0)
    watched.write_lines("two")
    assert path.read_bytes() == b"two\n"


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="logrotate is not installed")
@pytest.mark.parametrize("mode", ["create", "copytruncate"])
def test_with_the_real_program(path: Path, watched: Watched, mode: str) -> None:
    config, state = path.with_suffix(".conf"), path.with_suffix(".state")
    config.write_text(f"{path} {{\n rotate 3\n {mode}\n compress\n}}\n")
    config.chmod(0o600)
    watched.write_lines("one")
    subprocess.run(["logrotate", "--force", "--state", state, config], check=True)
    watched.write_lines("two")
    assert gzip.decompress((path.parent / "master.log.1.gz").read_bytes()) == b"one\n"
    assert path.read_bytes() == b"two\n"


def test_a_reopened_file_is_written_by_its_name(path: Path, watched: Watched) -> None:
    watched.write_lines("one")
    watched.file.request_reopen()
    watched.write_lines("two")
    assert path.read_text() == "one\ntwo\n"


def test_a_folder_that_is_missing_is_reported_once_and_tried_again(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "logs" / "master.log")
    assert watched.write_lines("one", "two") == [False, False]
    assert watched.faults == [errno.ENOENT]
    (tmp_path / "logs").mkdir()
    assert watched.write_lines("three", "four") == [True, True]
    assert watched.recoveries == [2]
    assert watched.file.path.read_text() == "three\nfour\n"


def test_a_folder_that_goes_away_while_it_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    watched = Watched(folder / "master.log")
    watched.write_lines("one")
    shutil.rmtree(folder)
    assert watched.write_lines("two") == [False]
    assert watched.faults == [errno.ENOENT]


def test_a_full_disk_is_reported_and_a_cut_line_is_ended(path: Path) -> None:
    """In a process of its own: a limit on the size of files stands for the full disk, and gives its short writes."""
    done = subprocess.run([sys.executable, "-c", FILLS, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "True False False fault 27\nTrue recovered 2\n"
    assert path.read_text() == f"{'a' * 39}\n{'b' * 24}\nd\n"


FILLS = """
import os, resource, signal, sys
from pathlib import Path
from crawlfleet.observe.log_file import LogFile
path = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
reports = []
file = LogFile(path, lambda exc: reports.append(f"fault {exc.errno}"), lambda lost: reports.append(f"recovered {lost}"))
resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
print(file.write_line("a" * 39), file.write_line("b" * 39), file.write_line("c"), *reports)
reports.clear()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(file.write_line("d"), *reports)
"""


def test_lines_of_many_threads_do_not_mix(path: Path, watched: Watched) -> None:
    def write(name: str) -> None:
        watched.write_lines(*[name * 200] * 50)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.read_text().splitlines()) == sorted(name * 200 for name in "abcd" for _ in range(50))
