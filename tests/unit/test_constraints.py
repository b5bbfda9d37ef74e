"""What is installed is what constraints.txt says: two machines that set up the same commit work with the same code."""

import re
from importlib.metadata import distributions

from tests.paths import ROOT

CONSTRAINTS = ROOT / "constraints.txt"
OF_THE_VENV = {"crawlfleet", "pip", "setuptools", "wheel"}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_everything_installed_is_pinned() -> None:
    pinned = dict(line.split("==") for line in CONSTRAINTS.read_text().splitlines() if "==" in line)
    wanted = {_plain(name): version for name, version in pinned.items()}
    installed = {_plain(one.name): one.version for one in distributions()}
    assert {name: version for name, version in installed.items() if name not in OF_THE_VENV} == {
        name: wanted.get(name) for name in installed.keys() - OF_THE_VENV
    }
