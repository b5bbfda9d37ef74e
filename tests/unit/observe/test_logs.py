"""Logs of a process: levels, a file, and what libraries print; nothing secret is in a line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

LOADS_SOCKS = """
from crawlfleet.observe.logs import configure_logs
configure_logs()
try:
    import urllib3.contrib.socks
except ImportError:
    pass
"""


def test_a_missing_extra_of_a_library_is_not_a_warning() -> None:
    done = subprocess.run([sys.executable, "-c", LOADS_SOCKS], capture_output=True, text=True, check=True)
    assert done.stderr == ""


WRITES = """
import logging, sys
from pathlib import Path
import structlog
from crawlfleet.observe.log_level import PROCESS_LEVEL
from crawlfleet.observe.logs import configure_logs
configure_logs(sys.argv[1], sys.argv[2], Path(sys.argv[3]) if len(sys.argv) > 3 else None)
log = structlog.get_logger()
for level in ("debug", "info", "warning", "error", "critical"):
    getattr(log, level)(f"a_{level}")
PROCESS_LEVEL.set_own("debug")
log.debug("changed")
PROCESS_LEVEL.set_own("critical")
log.error("silent")
logging.getLogger("library").error("silent too")
PROCESS_LEVEL.set_own("warning")
logging.getLogger("library").warning("of %s with postgresql://fleet:%s@db/x", "a library", "hunter2hunter2")
logging.getLogger("library").info("libraries are quiet")
try:
    raise ValueError("token=hunter2hunter2")
except ValueError:
    log.exception("failed", url="http://user:hunter2hunter2@proxy:1/")
"""


def run_script(script: str, *args: str) -> str:
    done = subprocess.run([sys.executable, "-c", script, *args], capture_output=True, text=True, check=True)
    assert "hunter2" not in done.stderr
    return done.stderr


def events(text: str) -> list[str]:
    return [json.loads(line)["event"] for line in text.splitlines()]


@pytest.mark.parametrize(
    ("level", "first"),
    [
        ("debug", "a_debug"),
        ("info", "a_info"),
        ("warning", "a_warning"),
        ("error", "a_error"),
        ("critical", "a_critical"),
    ],
)
def test_the_level_and_its_changes_at_run_time(level: str, first: str) -> None:
    lines = events(run_script(WRITES, level, "json"))
    assert lines[0] == first
    assert lines[-3:] == ["changed", "of a library with postgresql://fleet:***@db/x", "failed"]


def test_every_line_for_machines_is_json_also_those_of_libraries() -> None:
    lines = [json.loads(line) for line in run_script(WRITES, "error", "auto").splitlines()]
    library, failed = lines[-2:]
    assert (library["library"], library["level"]) == ("library", "warning")
    assert failed["url"] == "http://user:***@proxy:1/"
    assert "ValueError: token=***" in failed["exception"]


def test_a_log_file_gets_all_and_standard_error_the_errors(tmp_path: Path) -> None:
    file = tmp_path / "master.log"
    errors = events(run_script(WRITES, "info", "auto", str(file)))
    assert errors == ["a_error", "a_critical", "failed"]
    written = events(file.read_text())
    assert written[:4] == ["a_info", "a_warning", "a_error", "a_critical"]
    assert set(errors) < set(written)
    assert "hunter2" not in file.read_text()


def test_a_log_file_for_people_has_no_colours(tmp_path: Path) -> None:
    file = tmp_path / "master.log"
    run_script(WRITES, "info", "console", str(file))
    assert "a_info" in file.read_text()
    assert "hunter2" not in file.read_text()
    assert "\x1b" not in file.read_text()


FALLS_BACK = """
import os, signal, sys
from pathlib import Path
import structlog
from crawlfleet.observe.logs import configure_logs
path = Path(sys.argv[1])
configure_logs("info", "json", path)
log = structlog.get_logger()
log.info("one"); log.info("two")
path.parent.mkdir()
log.info("three")
moved = path.rename(path.with_suffix(".1"))
os.kill(os.getpid(), signal.SIGHUP)
log.info("four")
"""


def test_a_missing_folder_sends_lines_to_standard_error_until_it_is_there(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "master.log"
    assert events(run_script(FALLS_BACK, str(file))) == ["log_file_unavailable", "one", "two"]
    assert events(file.with_suffix(".1").read_text()) == ["three", "log_file_available"]
    assert events(file.read_text()) == ["four"]
