"""Collects a snapshot and runs the checks. A part that cannot be read is a note of its checks, never a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Protocol, TypeVar

import structlog

from crawlfleet.control.explain.doctor.installation_parts import InstallationParts, InstallationPartStore
from crawlfleet.control.explain.doctor.work_parts import WorkParts, WorkStore
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model import limits
from crawlfleet.model.instants import Instant
from crawlfleet.ports.clock import Clock
from crawlfleet.scheduling.doctor.check_list import CHECKS, needed_parts, run_checks
from crawlfleet.scheduling.doctor.findings import Check, Finding
from crawlfleet.scheduling.doctor.snapshot import FilePart, MasterPart, RunningPart, Snapshot, Unchecked

log = structlog.get_logger()

PART_S = 5.0
"""Timeout of the reads for one part."""
NO_MASTER = Unchecked("no master runs")
_NOT_WANTED = Unchecked("it was not asked for")
T = TypeVar("T")
ReadFiles = Callable[[], FilePart]
"""Function that looks at the files and addresses of this machine; it may block."""


class DoctorStores(InstallationPartStore, WorkStore, Protocol):
    """The part of the store that the checks read."""


class Doctor:
    def __init__(
        self,
        *,
        store: DoctorStores,
        clock: Clock,
        read_files: ReadFiles,
        version: str,
        revisions: tuple[str, ...],
        timeout_s: int = limits.TIMEOUT_S_DEFAULT,
    ) -> None:
        """`revisions` are those of the tables that this program knows, the newest first; `timeout_s` is the timeout of
        tasks for which neither they nor their cluster set one."""
        self._store = store
        self._clock = clock
        self._read_files = read_files
        self._version = version
        self._revisions = revisions
        self._timeout_s = timeout_s
        self._turn = asyncio.Lock()

    async def examine(self, checks: Collection[Check] = CHECKS) -> list[Finding]:
        # One at a time: however many ask, the loops of this master share the store with one of them.
        async with self._turn:
            return run_checks(await self.collect(needed_parts(checks)), checks)

    async def collect(self, parts: Collection[str]) -> Snapshot:
        """Read the parts of these names."""
        now = await _read_part("now", self._read_clock)
        if isinstance(now, Unchecked):
            now = self._clock.now()
        installation = InstallationParts(self._store, now, self._revisions)
        work = WorkParts(self._store, now, self._timeout_s)

        async def read(name: str, reader: Callable[[], Awaitable[T]]) -> T | Unchecked:
            return await _read_part(name, reader) if name in parts else _NOT_WANTED

        masters = await _read_part("masters", installation.read_masters)
        running = _running_masters(masters)
        if isinstance(running, RunningPart):
            work.add_sessions(running)
        return Snapshot(
            now=now,
            version=self._version,
            masters=masters,
            running=running,
            database=await read("database", installation.read_database),
            files=await read("files", lambda: asyncio.to_thread(self._read_files)),
            nodes=await read("nodes", work.read_nodes),
            work=await read("work", work.read_work),
            history=await read("history", work.read_history),
            counters=await read("counters", work.read_counters),
            schedules=await read("schedules", work.read_schedules),
            hosts=await read("hosts", work.read_hosts),
            access=await read("access", installation.read_access),
            alerts=await read("alerts", installation.read_alerts),
            backups=await read("backups", installation.read_backups),
        )

    async def _read_clock(self) -> Instant:
        """The clock that the instants of the store come from, as nearly as it is known."""
        database_clock = await self._store.database_clock()
        return self._clock.now() if database_clock is None else database_clock


def _running_masters(masters: MasterPart | Unchecked) -> RunningPart | Unchecked:
    if isinstance(masters, Unchecked):
        return masters
    return RunningPart(masters.alive) if masters.alive else NO_MASTER


async def _read_part(name: str, reader: Callable[[], Awaitable[T]]) -> T | Unchecked:
    try:
        async with asyncio.timeout(PART_S):
            return await reader()
    except TimeoutError:
        return Unchecked(f"it took more than {PART_S:.0f} s to read")
    except (CrawlfleetError, OSError) as exc:
        return Unchecked(str(exc) or type(exc).__name__)
    except Exception as exc:
        # A table that a half-restored backup lacks, or a row of a newer version: the other checks go on.
        log.warning("part_not_read", part=name, error=repr(exc))
        return Unchecked(f"it could not be read: {exc!r}")
