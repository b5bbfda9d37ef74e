"""Every master follows the log level of the installation, and keeps the one that was set for it alone."""

from pathlib import Path

from structlog.testing import capture_logs

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.loops.log_level_keeper import LogLevelKeeper
from crawlfleet.observe.log_level import LogLevel
from testkit.clock import FakeClock
from tests.unit.store.store_kit import sqlite_kit


async def test_the_level_follows_the_configuration(tmp_path: Path) -> None:
    async with sqlite_kit(tmp_path) as kit:
        clock, level = FakeClock(), LogLevel("warning")
        configure = Configure(store=kit.store, clock=clock)
        keeper = LogLevelKeeper(clock=clock, configure=configure, log_level=level)
        seen, changes = [], []
        for values in ({}, {"log_level_masters": "debug"}, {"log_level_masters": None}, {"log_level_masters": "ERROR"}):
            await configure.put_config("default", values, by="ann")
            with capture_logs() as lines:
                await keeper.run_once(clock.now())
            seen.append(level.effective)
            changes += [(line["before"], line["after"]) for line in lines]
        assert seen == ["warning", "debug", "warning", "error"]
        assert changes == [("warning", "debug"), ("debug", "warning"), ("warning", "error")]
        level.set_own("info")
        await configure.put_config("default", {"log_level_masters": "debug"}, by="ann")
        await keeper.run_once(clock.now())
        assert (level.effective, level.shared) == ("info", "debug")
