"""Tells what is shown, what was expected, and what happened."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any

_WIDTH = 100
_FLAGS = {"project_id": "--project", "priority": "--priority", "name": "--name"}


class Differs(AssertionError):
    """The cluster did something else than its documentation says."""


class Narrator:
    def __init__(self, write: Callable[[str], None] = print) -> None:
        self._write = write
        self.commands: list[str] = []
        """All that a reader was told to type."""

    def chapter(self, title: str, about: str) -> None:
        self._write(f"\n━━ {title} {'━' * (_WIDTH - len(title) - 4)}\n   {about}")

    def step(self, text: str) -> None:
        self._write(f"\n   {text}")

    def command(self, command: str, times: int = 1) -> None:
        """What a user would type for what the script does next."""
        self.commands.append(command)
        often = f"     # {times} times" if times > 1 else ""
        self._write("   $ " + " \\\n       ".join(_lines(command)) + often)

    def note(self, text: str) -> None:
        self._write(f"     {text}")

    def check(self, expected: object, happened: object, what: str = "") -> None:
        """Raises Differs unless both are the same."""
        if expected != happened:
            raise Differs(f"{what or 'it'}: expected {expected!r}, happened {happened!r}")
        self._write(f"   ✓ {what + ': ' if what else ''}{happened}")

    def check_that(self, holds: bool, expected: str, happened: object) -> None:
        """For what is right within bounds."""
        if not holds:
            raise Differs(f"expected {expected}, happened {happened}")
        self._write(f"   ✓ {expected}: {happened}")


def _lines(command: str) -> list[str]:
    """Broken before an option where it is long, and never within quotes: it is there to be copied."""
    lines = [""]
    for word in map(shlex.quote, shlex.split(command)):
        if word.startswith("--") and len(lines[-1]) > _WIDTH - 40:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    return lines


def submit_command(task_type: str, parameters: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    """`crawlfleet task submit` for what the client is called with."""
    words = ["crawlfleet", "task", "submit", task_type]
    if parameters:
        words += ["--params", json.dumps(parameters)]
    for name, value in fields.items():
        said = value if isinstance(value, str) else json.dumps(value)
        words += [_FLAGS[name], said] if name in _FLAGS else ["--field", f"{name}={said}"]
    return shlex.join(words)
