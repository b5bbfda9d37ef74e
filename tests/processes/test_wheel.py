"""The wheel that is built from this checkout: what is in it, and that the demo runs from it alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.paths import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PACKAGE = ROOT / "src" / "crawlfleet"
PATIENCE_S = 300.0
_CACHES = (".pyc", ".pyo")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the build backend itself: offline, and without a build environment of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    command = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_every_file_of_the_package_is_in_it_and_nothing_else(names: set[str]) -> None:
    source = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in _CACHES
    }
    assert {name for name in names if ".dist-info/" not in name} == source
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"crawlfleet"}


def test_what_is_no_python_module_is_in_it(names: set[str]) -> None:
    for folder, suffix in (
        ("broker/redis/lua", ".lua"),
        ("store/engine/migrations/versions", ".py"),
        ("store/engine/migrations", ".mako"),
        ("demo_shop", ".py"),
    ):
        found = [name for name in names if name.startswith(f"crawlfleet/{folder}/") and name.endswith(suffix)]
        assert found, f"{folder}/*{suffix}"
    assert "crawlfleet/py.typed" in names


def test_the_test_kit_the_tests_and_the_nasty_site_are_not_in_it(wheel: Path, names: set[str]) -> None:
    foreign = {"testkit", "tests", "testing", "bench", "nasty", "shop", "examples"}
    assert [name for name in sorted(names) if foreign & set(name.split("/"))] == []
    assert [name for name in sorted(names) if "nasty" in name or name.rpartition("/")[2].startswith("test_")] == []
    with ZipFile(wheel) as archive:
        texts = {name: archive.read(name) for name in names if name.endswith(".py")}
    assert [name for name, text in sorted(texts.items()) if b"testkit" in text or b"/nasty/" in text] == []


def test_pyarrow_is_an_extra(wheel: Path, names: set[str]) -> None:
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    with ZipFile(wheel) as archive:
        lines = archive.read(metadata).decode().partition("\n\n")[0].splitlines()
    assert "Provides-Extra: parquet" in lines
    needed = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: pyarrow")]
    # The dev extra has it as well, for the tests.
    assert {line.partition(";")[2].strip() for line in needed} == {"extra == 'parquet'", "extra == 'dev'"}


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    """The Python of an environment with the wheel's contents and its dependencies: no checkout, and no extra."""
    folder = tmp_path / "venv"
    venv.create(folder, symlinks=True)
    scheme = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=scheme))
    with ZipFile(wheel) as archive:
        archive.extractall(packages)
    # A folder that a .pth file names has no .pth files read: so the checkout, which is installed by one, stays out.
    own = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (packages / "dependencies.pth").write_text("".join(f"{path}\n" for path in own))
    (packages / "hidden_extras.py").write_text(_HIDE)
    (packages / "hidden_extras.pth").write_text("import hidden_extras\n")
    return folder / "bin" / "python"


def _run(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment: Mapping[str, str] = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CRAWLFLEET_"))
    }
    return subprocess.run(
        [str(python), "-I", *arguments],
        cwd=folder,
        env={**environment, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


_HIDE = """
import sys
from importlib.machinery import PathFinder

class WithoutExtras(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "pyarrow" else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutExtras
"""
_WHERE = """
import importlib.util, json, sys
import crawlfleet
found = {name: importlib.util.find_spec(name) is not None for name in ("testkit", "tests", "bench", "pyarrow")}
print(json.dumps({"crawlfleet": crawlfleet.__file__, "path": sys.path, **found}))
"""


def test_the_demo_runs_from_it_alone(installed: Path, tmp_path: Path) -> None:
    (folder := tmp_path / "demo").mkdir()
    where = json.loads(_run(installed, folder, "-c", _WHERE).stdout)
    assert Path(where["crawlfleet"]).is_relative_to(tmp_path)
    assert not (where["testkit"] or where["tests"] or where["bench"] or where["pyarrow"])
    assert not {str(ROOT), str(ROOT / "src")} & set(where["path"])
    done = _run(installed, folder, "-m", "crawlfleet.cli", "demo", "--products", "60", "--output", "it.csv", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["items"], answer["products"], answer["group"]["crawl"]["failed"]) == (60, 60, 0)
    assert "kill -9" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["it.csv"]


def test_without_the_extra_parquet_is_refused_before_the_demo_starts(installed: Path, tmp_path: Path) -> None:
    (folder := tmp_path / "demo").mkdir()
    done = _run(installed, folder, "-m", "crawlfleet.cli", "demo", "--output", "it.parquet")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Parquet needs pyarrow" in done.stderr and "pip install 'crawlfleet[parquet]'" in done.stderr
    assert "Starting" not in done.stderr
