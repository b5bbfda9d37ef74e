"""Calls for the log level of a master."""

from __future__ import annotations

from crawlfleet.client._generated.models import LogLevelView
from crawlfleet.client.nouns.base import Calls


class LogLevelCalls(Calls):
    async def log_level(self) -> LogLevelView:
        """The log level of the master that answers."""
        return await self._transport.get(LogLevelView, "/log-level")

    async def set_log_level(self, level: str | None) -> LogLevelView:
        """Of the master that answers alone, until it ends; None: as all masters have it."""
        return await self._transport.change(LogLevelView, "PUT", "/log-level", {"level": level}, is_repeatable=True)
