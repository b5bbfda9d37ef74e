"""docs/tools.md has a row for each command of an operator, and no row for a command that is not there."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import typer
from typer.main import get_command

from crawlfleet.cli import maintenance
from crawlfleet.cli.processes import start_workers
from tests.paths import ROOT


def operator_commands() -> set[str]:
    names = {module.name for module in pkgutil.iter_modules(maintenance.__path__)}
    modules: list[Any] = [importlib.import_module(f"{maintenance.__name__}.{name}") for name in names]
    app = typer.Typer()
    for module in [*modules, start_workers]:
        if hasattr(module, "add_to"):
            module.add_to(app)
        elif hasattr(module, "app"):
            app.add_typer(module.app, name=module.__name__.rpartition(".")[2])
    return set(get_command(app).commands)  # type: ignore[attr-defined]


def test_each_command_has_a_row() -> None:
    text = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([a-z][a-z-]+)` \|", text, re.MULTILINE))
    assert rows == operator_commands()
