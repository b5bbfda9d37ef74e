"""Hints name commands that exist, with options that they have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from crawlfleet.cli.app import app

SOURCE = Path(__file__).resolve().parents[4] / "src" / "crawlfleet"
FOLDERS = (SOURCE / "scheduling" / "doctor", SOURCE / "control" / "explain" / "doctor")
COMMAND = re.compile(r"crawlfleet ((?:[a-z]+(?:-[a-z]+)* ?)+)((?: ?(?:\{[^}]*\}|[A-Z]+|[0-9.]+|--[a-z-]+))*)")
NOT_A_COMMAND = ("alone",)
"""Words after the name of the program in a sentence."""


def named_commands() -> Iterator[tuple[str, str]]:
    """Commands in the hints, each with the rest of its line."""
    for folder in FOLDERS:
        for file in sorted(folder.glob("*.py")):
            for words, rest in COMMAND.findall(file.read_text()):
                if words.split()[0] not in NOT_A_COMMAND:
                    yield words.strip(), rest


def find_command(words: str) -> Any | None:
    """The command that the first words name; None for none."""
    command: Any = get_command(app)
    for word in words.split():
        commands = getattr(command, "commands", None)
        if commands is None:
            return command
        if word not in commands:
            return None
        command = commands[word]
    return None if hasattr(command, "commands") else command


@pytest.mark.parametrize(("words", "rest"), sorted(set(named_commands())))
def test_the_command_of_a_hint_exists(words: str, rest: str) -> None:
    command = find_command(words)
    assert command is not None, f"crawlfleet {words}"
    options = {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"--[a-z-]+", rest)) <= options
