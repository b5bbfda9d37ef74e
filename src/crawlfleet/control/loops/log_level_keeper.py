"""Keeps the log level of this master as the configuration of the installation says; it runs on every master."""

from __future__ import annotations

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.loops.base import Loop, log
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.observe.log_level import LogLevel
from crawlfleet.ports.clock import Clock


class LogLevelKeeper(Loop):
    name = "log_level_keeper"
    pause_s = 2.0

    def __init__(self, *, clock: Clock, configure: Configure, log_level: LogLevel) -> None:
        super().__init__(clock)
        self._configure = configure
        self.log_level = log_level

    async def run_once(self, now: Instant) -> object:
        config = await self._configure.load_effective_config(DEFAULT_CLUSTER)
        before = self.log_level.effective
        self.log_level.set_shared(config.settings.log_level_masters)
        if self.log_level.effective != before:
            log.warning("log_level_changed", after=self.log_level.effective, before=before, by=config.changed_by)
        return None
