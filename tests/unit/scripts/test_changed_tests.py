"""Which tests `make check` runs for which changed files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scripts.changed_tests import find_importers, list_changed_files, module_name, select_tests

UNIT = Path("tests/unit")
SUBMIT = Path("src/crawlfleet/control/tasks/submit.py")


@pytest.fixture(autouse=True)
def own_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """No repository but that of the test, also in a run that a hook of git started, and no settings of the user."""
    for name in os.environ:
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        str(SUBMIT): "",
        "src/crawlfleet/control/tasks/__init__.py": "",
        "src/crawlfleet/broker/redis/lua/take.lua": "",
        "tests/unit/control/tasks/test_submit.py": "",
        "tests/property/control/tasks/test_submit_properties.py": "",
        "tests/contract/control/tasks/test_submit.py": "",
        "tests/unit/control/test_whole.py": "from crawlfleet.control.tasks.submit import Submit\n",
        "tests/unit/api/test_app.py": "from crawlfleet.control.tasks import (\n    cancel,\n    submit,\n)\n",
        "tests/unit/api/api_kit.py": "import crawlfleet.control.tasks.submit as s\n",
        "tests/unit/api/test_kit_user.py": "from tests.unit.api.api_kit import start\n",
        "tests/unit/api/test_patched.py": 'monkeypatch.setattr("crawlfleet.control.tasks.submit.LIMIT", 1)\n',
        "tests/unit/api/test_other.py": "from crawlfleet.control.tasks.submit_audit import A\n",
        "tests/unit/broker/redis/test_connection.py": "",
        "tests/unit/api/conftest.py": "",
        "tests/conftest.py": "",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_a_module_selects_tests_by_name_and_by_import(root: Path) -> None:
    assert select_tests(root, [SUBMIT]) == [
        Path("tests/property/control/tasks/test_submit_properties.py"),
        UNIT / "api/test_app.py",
        UNIT / "api/test_kit_user.py",
        UNIT / "api/test_patched.py",
        UNIT / "control/tasks/test_submit.py",
        UNIT / "control/test_whole.py",
    ]


@pytest.mark.parametrize(
    ("changed", "selected"),
    [
        ("tests/unit/api/test_other.py", ["api/test_other.py"]),
        ("tests/unit/api/api_kit.py", ["api/test_kit_user.py"]),
        (
            "tests/unit/api/conftest.py",
            ["api/test_app.py", "api/test_kit_user.py", "api/test_other.py", "api/test_patched.py"],
        ),
        ("src/crawlfleet/broker/redis/lua/take.lua", ["broker/redis/test_connection.py"]),
        ("src/crawlfleet/broker/redis/pipeline.py", ["broker/redis/test_connection.py"]),
        ("src/crawlfleet/version.py", []),
        ("src/crawlfleet/control/tasks/__init__.py", ["api/test_app.py"]),
        ("tests/unit/gone/test_gone.py", []),
        ("tests/contract/control/tasks/test_submit.py", []),
        ("docs/index.md", []),
    ],
)
def test_other_files_select_what_depends_on_them(root: Path, changed: str, selected: list[str]) -> None:
    assert select_tests(root, [Path(changed)]) == [UNIT / path for path in selected]


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt", "tests/conftest.py"])
def test_what_all_depend_on_selects_all(root: Path, changed: str) -> None:
    assert select_tests(root, [Path(changed), SUBMIT]) == [UNIT, Path("tests/property")]


def test_modules_are_named_as_they_are_imported() -> None:
    assert module_name(SUBMIT) == "crawlfleet.control.tasks.submit"
    assert module_name(Path("src/crawlfleet/control/__init__.py")) == "crawlfleet.control"
    assert module_name(Path("tests/unit/api/api_kit.py")) == "tests.unit.api.api_kit"
    assert find_importers(Path("testkit/clock.py"), {Path("a.py"): "from testkit import clock"}) == {Path("a.py")}


def test_changes_count_from_where_the_branch_left_main(root: Path) -> None:
    git(root, "init", "--quiet", "--initial-branch=main")
    commit_all(root, "first")
    (root / "second.py").touch()
    commit_all(root, "second")
    (root / "new.py").touch()
    assert list_changed_files(root) == {Path("second.py"), Path("new.py")}
    git(root, "checkout", "--quiet", "-b", "work")
    commit_all(root, "third")
    git(root, "rm", "--quiet", str(SUBMIT))
    assert list_changed_files(root) == {Path("new.py"), SUBMIT}
    assert list_changed_files(root, "no-such-branch") == {Path("new.py"), SUBMIT}


def test_the_first_commit_has_nothing_to_compare_with(root: Path) -> None:
    git(root, "init", "--quiet", "--initial-branch=trunk")
    commit_all(root, "first")
    assert list_changed_files(root) == set()


def commit_all(root: Path, subject: str) -> None:
    git(root, "add", "--all")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "--quiet", "--no-verify", "-m", subject)


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True)
