"""What a check reports: problems with a sentence and a hint, or that it could not be made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class FindingSeverity(StrEnum):
    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class FoundProblem(NamedTuple):
    severity: FindingSeverity
    sentence: str
    hint: str = ""
    """What to do about it: a command, where there is one."""


class Finding(NamedTuple):
    """One line of the report."""

    check: str
    """Id of the check."""
    area: str
    severity: FindingSeverity
    sentence: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A check with what the documentation has of it."""

    id: str
    area: str
    title: str
    """What is in order when the check finds nothing, for its line then."""
    reports_when: str
    """When the check reports something, as the documentation has it."""
    needs: tuple[str, ...]
    """Parts of the snapshot that the function takes, by name."""
    find_problems: Callable[..., Iterable[FoundProblem]]


def note(sentence: str, hint: str = "") -> FoundProblem:
    return FoundProblem(FindingSeverity.NOTE, sentence, hint)


def warning(sentence: str, hint: str = "") -> FoundProblem:
    return FoundProblem(FindingSeverity.WARNING, sentence, hint)


def error(sentence: str, hint: str = "") -> FoundProblem:
    return FoundProblem(FindingSeverity.ERROR, sentence, hint)
