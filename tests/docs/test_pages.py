"""What the pages show exists: commands with their options, files that are linked to, code that runs."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from crawlfleet.cli.app import app
from tests.docs.conftest import Installation
from tests.paths import ROOT

READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
PAGES = [*READMES, ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(crawlfleet [a-z][^`]*)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


def commands(page: Path) -> Iterator[str]:
    """Every use of the command, in blocks for a shell and in the text."""
    text = page.read_text(encoding="utf-8")
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            # Also inside $( ), after a pipe, or before one.
            for part in re.split(r"[|;&]|\$\(|\)", line.partition(" #")[0]):
                if part.strip().startswith("crawlfleet "):
                    yield part.strip().partition(" > ")[0]
    yield from (use for use in _INLINE.findall(_BLOCK.sub("", text)) if "…" not in use and "..." not in use)


def complaint(use: str) -> str | None:
    words = shlex.split(" ".join(use.split()))[1:]
    command: Any = get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return f"no command {words[0]}"
        command = command.commands[words.pop(0)]
    options = [option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)]
    known = {*options, "--help", "--version"}
    given = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
    return f"no option {', '.join(sorted(given - known))}" if given - known else None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist_with_the_options_shown(page: Path) -> None:
    wrong = {use: why for use in commands(page) if (why := complaint(use)) is not None}
    assert wrong == {}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    broken = [link for link in _LINK.findall(text) if not link.startswith("http") and not _is_there(page, link)]
    assert broken == []


def _is_there(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return False
    return not anchor or anchor in {_anchor(title) for title in _HEADING.findall(target.read_text(encoding="utf-8"))}


def _anchor(title: str) -> str:
    """As the site makes it."""
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_in_the_pages_is_python(page: Path) -> None:
    for block in blocks(page, "python"):
        ast.parse(block)


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize("page", READMES, ids=name_of)
def test_python_of_the_readme_runs(page: Path, installation: Installation) -> None:
    (block,) = blocks(page, "python")
    said = installation.run(sys.executable, "-c", block)
    assert len(said.splitlines()) == 10
    assert all(" completed {'number': " in line for line in said.splitlines())


@pytest.mark.integration
@pytest.mark.slow
def test_executor_of_the_quick_start_passes_the_test_of_the_page_about_executors(tmp_path: Path) -> None:
    (executor,) = blocks(ROOT / "docs" / "quickstart.md", "python")
    (tmp_path / "my_crawlers.py").write_text(executor, encoding="utf-8")
    test = blocks(ROOT / "docs" / "executors.md", "python")[-1]
    done = subprocess.run(
        [sys.executable, "-c", test], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_both_readmes_show_the_same() -> None:
    english, chinese = (page.read_text(encoding="utf-8") for page in READMES)

    def bones(text: str) -> list[str]:
        kept = [re.sub(r"\s*#.*", "", line) for _, block in _BLOCK.findall(text) for line in block.splitlines()]
        return [*kept, *(link for link in _LINK.findall(text) if not link.startswith("README"))]

    assert bones(english) == bones(chinese)


def test_references_are_what_the_script_makes() -> None:
    script = ROOT / "scripts" / "generate_api_docs.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, f"{done.stderr}\nrun make generate"
