"""The level of a process's log: the level it was started with, and what people set at run time over it."""

from __future__ import annotations

import logging

LEVELS = ("debug", "info", "warning", "error", "critical")
"""The levels from the least important to the most important."""
LEVEL_NUMBERS = {level: logging.getLevelNamesMapping()[level.upper()] for level in LEVELS}
"""The numbers that the logging module has for the levels."""


def parse_level(text: object) -> str:
    """Return a level in small letters; capitals are accepted. Raises ValueError."""
    word = text.lower() if isinstance(text, str) else None
    if word not in LEVELS:
        raise ValueError(f"one of {', '.join(LEVELS)}")
    return word


class LogLevel:
    """The level in effect: what was set for this process alone, or else for all of its kind, or else at its start."""

    def __init__(self, started_with: str = "info") -> None:
        self.started_with = started_with
        self.own: str | None = None
        """Level set for this process alone; it lasts until the process ends."""
        self.shared: str | None = None
        """Level set for all masters, or for all nodes of a cluster, in the configuration."""
        self.threshold = LEVEL_NUMBERS[started_with]
        """Number of the level in effect: less important lines are not written."""

    @property
    def effective(self) -> str:
        return self.own or self.shared or self.started_with

    def start_with(self, level: str) -> None:
        self.started_with = level
        self._apply()

    def set_own(self, level: str | None) -> None:
        self.own = level
        self._apply()

    def set_shared(self, level: str | None) -> None:
        self.shared = level
        self._apply()

    def _apply(self) -> None:
        self.threshold = LEVEL_NUMBERS[self.effective]


PROCESS_LEVEL = LogLevel()
"""The level of the log that `configure_logs` sets up: as there is one log for each process, there is one level."""
