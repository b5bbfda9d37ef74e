"""The placement strategies of this master, users' own included, and the events on those that failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from crawlfleet.model import limits
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.scheduling.placement.strategies import BUILT_IN, DEFAULT_STRATEGY, GuardedFactory, StrategyFactory

log = structlog.get_logger()

MAX_REPORTED = 1_000
"""Limit on reported names: tasks may name strategies that do not exist, which must not fill the memory."""


class StrategyRegistry:
    """Strategies by name. One that fails is reported once, as a log line and an event; tasks are still placed."""

    def __init__(self, own: Mapping[str, StrategyFactory] | None = None) -> None:
        guarded = {name: GuardedFactory(name, make, self.report_failure) for name, make in (own or {}).items()}
        self.factories: Mapping[str, StrategyFactory] = {**BUILT_IN, **guarded}
        self._reported: set[str] = set()
        self._pending_events: list[EventBatch] = []

    def report_failure(self, name: str, error: str, used: str = DEFAULT_STRATEGY) -> None:
        if name in self._reported or len(self._reported) >= MAX_REPORTED:
            return
        self._reported.add(name)
        log.warning("strategy_failed", strategy=name, error=error, used=used)
        shared = {"strategy": name, "error": error[: limits.MESSAGE_CHARS], "used": used}
        self._pending_events.append(EventBatch(Kind.STRATEGY_FAILED, shared=shared))

    def report_unknown(self, names: Iterable[str], used: str) -> None:
        for name in names:
            self.report_failure(name, "this master has no such strategy", used)

    @property
    def pending_events(self) -> list[EventBatch]:
        """Events that are not written yet; `drop_events` removes those that are."""
        return list(self._pending_events)

    def drop_events(self, count: int) -> None:
        del self._pending_events[:count]
