"""The placement strategies of this master, users' own included, and the events on those that failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from crawlfleet.model import limits
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.scheduling.placement.strategies import BUILT_IN, DEFAULT_STRATEGY, Guarded, Make

log = structlog.get_logger()

NAMES_MOST = 1_000
"""Limit on reported names: tasks may name strategies that do not exist, which must not fill the memory."""


class StrategyBook:
    """Strategies by name. A strategy that fails is reported once, as a log line and an event; tasks are still placed."""

    def __init__(self, own: Mapping[str, Make] | None = None) -> None:
        guarded = {name: Guarded(name, make, self.failed) for name, make in (own or {}).items()}
        self.makers: Mapping[str, Make] = {**BUILT_IN, **guarded}
        self._told: set[str] = set()
        self._news: list[EventBatch] = []

    def failed(self, name: str, why: str, used: str = DEFAULT_STRATEGY) -> None:
        if name in self._told or len(self._told) >= NAMES_MOST:
            return
        self._told.add(name)
        log.warning("strategy_failed", strategy=name, error=why, used=used)
        shared = {"strategy": name, "error": why[: limits.MESSAGE_CHARS], "used": used}
        self._news.append(EventBatch(Kind.STRATEGY_FAILED, shared=shared))

    def unknown(self, names: Iterable[str], used: str) -> None:
        for name in names:
            self.failed(name, "this master has no such strategy", used)

    @property
    def news(self) -> list[EventBatch]:
        """Events that are not written yet; `drop_events` removes those that are."""
        return list(self._news)

    def wrote(self, count: int) -> None:
        del self._news[:count]
