"""Paths of modules in the documentation are those of files and folders that exist."""

import re
from pathlib import Path

import pytest

from tests.paths import ROOT

SOURCE = ROOT / "src" / "crawlfleet"
PACKAGES = "|".join(sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name.isidentifier()))
PATH = re.compile(rf"`(?P<path>(?:{PACKAGES}|testkit|tests)(?:/[a-z_0-9]+)+/?(?:\.py)?)`")
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md"]


def is_there(text: str) -> bool:
    """A package of the product, or a path from the root; a module may be named without its ending."""
    named = text.rstrip("/")
    return any(place.exists() for base in (SOURCE, ROOT) for place in (base / named, base / f"{named}.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(Path(page).relative_to(ROOT)))
def test_paths_of_modules_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = {match["path"] for match in PATH.finditer(text) if not is_there(match["path"])}
    assert missing == set()
