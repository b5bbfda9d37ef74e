"""Prints the unit and property tests of what changed since the branch left main, one path a line.

    python -m scripts.changed_tests                  # the working tree against its merge base with main
    python -m scripts.changed_tests --base other     # with another branch
    python -m scripts.changed_tests --all            # all unit and property tests

On main itself, and where there is no main, the last commit and the working tree count. A changed module is tested by
the files of its name under the mirrored path, and by all that name it, also through a helper module in tests/; where
there is none, by those of the nearest folder. A changed test runs itself; a changed conftest.py, all tests below it;
what every test depends on, all tests.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from scripts.word_figures import PACKAGE, find_test_files, mirrored_folders

ROOT = Path(__file__).resolve().parents[1]
TESTS = Path("tests")
TIERS = (TESTS / "unit", TESTS / "property")
FOR_ALL = {Path("pyproject.toml"), Path("constraints.txt"), TESTS / "conftest.py"}


def list_changed_files(root: Path, branch: str = "main") -> set[Path]:
    """Files that differ from where the branch was left, those that are gone or not yet added included."""
    changed = _git(root, "diff", "--name-only", "--no-renames", _find_base(root, branch))
    added = _git(root, "ls-files", "--others", "--exclude-standard")
    return {Path(line) for line in [*changed, *added]}


def select_tests(root: Path, changed: Iterable[Path]) -> list[Path]:
    """The test files, or the folders of all tests, that are to be run for these files."""
    changed = set(changed)
    if changed & FOR_ALL:
        return list(TIERS)
    texts = {path.relative_to(root): path.read_text(encoding="utf-8") for path in sorted((root / TESTS).rglob("*.py"))}
    selected: set[Path] = set()
    for path in changed:
        selected |= _tests_of_file(root, path, texts)
    return sorted(path for path in selected if _is_test(path) and (root / path).is_file())


def module_name(path: Path) -> str:
    """The dotted name under which a Python file of the project is imported."""
    parts = path.with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_importers(changed: Path, texts: Mapping[Path, str]) -> set[Path]:
    """Files among these that name the module, directly or through a helper module of the tests."""
    importers: set[Path] = set()
    pending = [changed]
    while pending:
        pattern = _import_pattern(pending.pop())
        for path, text in texts.items():
            if path not in importers and pattern.search(text):
                importers.add(path)
                if not _is_test(path) and path.name != "conftest.py":
                    pending.append(path)
    return importers


def _tests_of_file(root: Path, path: Path, texts: Mapping[Path, str]) -> set[Path]:
    if path.name == "conftest.py":
        return {test for test in texts if path.parent in test.parents}
    tests = {path, *find_test_files(root, path), *find_importers(path, texts)} if path.suffix == ".py" else set()
    return tests if any(map(_is_test, tests)) else _tests_of_nearest_folder(path, texts)


def _tests_of_nearest_folder(path: Path, texts: Mapping[Path, str]) -> set[Path]:
    """The tests below the nearest mirrored folder that has any: for a file of the package that no test names."""
    while PACKAGE in path.parent.parents:
        folders = set(mirrored_folders(path))
        if tests := {test for test in texts if folders & set(test.parents) and _is_test(test)}:
            return tests
        path = path.parent
    return set()


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_") and any(tier in path.parents for tier in TIERS)


def _import_pattern(path: Path) -> re.Pattern[str]:
    """Matches the dotted name `a.b.c`, also in a string, and `from a.b import c`, also with names in parentheses."""
    module = module_name(path)
    parent, _, name = module.rpartition(".")
    # What follows the name of a package may be another module of it.
    whole = rf"\b{re.escape(module)}\b" + (r"(?!\.)" if path.name == "__init__.py" else "")
    if not parent:
        return re.compile(whole)
    names = rf"^\s*from\s+{re.escape(parent)}\s+import\s+(?:\([^)]*\b{name}\b|[^(\n]*\b{name}\b)"
    return re.compile(rf"{whole}|{names}", re.MULTILINE)


def _find_base(root: Path, branch: str) -> str:
    head = _git(root, "rev-parse", "HEAD")
    base = _git(root, "merge-base", "HEAD", branch, may_fail=True)
    if base and base != head:
        return base[0]
    return (_git(root, "rev-parse", "--verify", "--quiet", "HEAD~1", may_fail=True) or head)[0]


def _git(root: Path, *arguments: str, may_fail: bool = False) -> list[str]:
    run = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=not may_fail)
    return run.stdout.splitlines() if run.returncode == 0 else []


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the unit and property tests of what changed.")
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument("--base", default="main", help="the branch that this one was started from")
    arguments = parser.parse_args()
    for path in TIERS if arguments.all else select_tests(ROOT, list_changed_files(ROOT, arguments.base)):
        print(path)


if __name__ == "__main__":
    main()
