"""Every behaviour of the nasty site against a real executor process: it ends in time, stays small, and never dies."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import pytest_asyncio

from crawlfleet.execution.executors.outside import shared_process
from crawlfleet.execution.executors.outside.agent_executor import AgentExecutor
from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass
from testkit.patience import promised
from testkit.site import SiteProcess, site_process
from testkit.site.nasty.behaviour_table import FAMILIES
from tests.integration.execution.executors.executors_kit import ChunkServer, assignment, executing
from tests.integration.faults.test_sites import CLASSES, EXPECTED

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

SECONDS = 3.0
"""Of one crawl; a stalled one ends with it."""
LATE_S = 10.0
"""For a busy machine."""
PEAK_MB, APART_MB = 260, 600
"""Of the executor process, with eight at a time inside, each with up to 10 MB; and of those that read large pages."""
AT_ONCE = 8
# Where a whole crawl ends in another way than its page does by itself; or in one of several, by the time there is.
OTHERWISE = {
    # These are asked for again when the site says so, which may be later than the crawl lasts.
    "refuse": {"flaky": "page", "429": "rate_limited|timeout", "503": "status|timeout"},
    "stall": {"slow": "page"},
    # Bombs are made when somebody first asks for them, and that takes its time.
    "encoding": dict.fromkeys(("gzip-bomb", "br-bomb", "zstd-bomb", "nested-bomb"), "too_large|timeout"),
    # Ten megabytes are allowed here, and costly pages are read apart, one by one.
    "markup": {
        **dict.fromkeys(("deep", "deep-inline", "attributes"), "page|too_large|timeout"),
        **dict.fromkeys(("links", "title", "empty-tags"), "page|timeout"),
    },
    "sitemap": {
        **dict.fromkeys(("gzip", "gzip-encoded", "cut-gzip", "bomb"), "skipped"),
        "404": "status",
        "big": "page|timeout",
    },
    "robots": {
        "404": "status",
        "403": "blocked",
        "401": "status",
        "429": "rate_limited|timeout",
        "500": "status",
        "503": "status|timeout",
        "redirect-loop": "redirects",
        "redirect-private": "policy",
        "endless": "too_large",
        "stall": "timeout",
        "reset": "closed",
        "huge": "page|timeout",
    },
}


class Ended(NamedTuple):
    end: End
    error: str
    message: str
    took_s: float
    result: dict[str, Any] | None


class Watched:
    """An executor with one process, and the most memory that it and those below it had."""

    def __init__(self, executor: AgentExecutor, site: SiteProcess) -> None:
        self.executor = executor
        self.site = site

    @property
    def process(self) -> psutil.Process:
        (process,) = self.executor.shared_processes
        assert process.pid is not None
        return psutil.Process(process.pid)

    async def crawl(self, **parameters: Any) -> Ended:
        began = time.monotonic()
        asked = {"respect_robots": False, "max_seconds": SECONDS, **parameters}
        outcome = await self.executor.run(assignment("web_crawl", asked))
        result = None if outcome.end != End.COMPLETED else json.loads(bytes(outcome.result))
        error = ErrorClass(outcome.error).name.lower() if outcome.error else ""
        return Ended(End(outcome.end), error, outcome.message, time.monotonic() - began, result)

    async def peaks(self, work: asyncio.Future[Any]) -> tuple[int, int]:
        """In MB, while the work lasts: of the process, and of the largest one below it."""
        forget_peak(self.process.pid)
        apart = 0
        while not work.done():
            await asyncio.wait({work}, timeout=0.05)
            apart = max([apart, *(peak_mb(child.pid) for child in self.process.children())])
        return peak_mb(self.process.pid), apart


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mb(pid: int) -> int:
    try:
        said = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int((said.partition("VmHWM:")[2].split() or ["0"])[0]) >> 10


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    folder = tmp_path_factory.mktemp("executor")
    patience = pytest.MonkeyPatch()
    # A busy machine makes any process slow to answer; what a page may take is judged below.
    patience.setattr(shared_process, "SILENT_PINGS", 40)
    async with (
        site_process("--products", "50") as site,
        ChunkServer().serving() as server,
        executing(folder, server, processes=1, allow_hosts=[site.host]) as executor,
    ):
        made = Watched(executor, site)
        assert (await made.crawl(url=f"{site.url}/about")).result is not None
        yield made
    patience.undo()


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
async def test_each_behaviour_is_bounded_in_time_and_memory(watched: Watched, family: Any) -> None:
    many, pid = asyncio.Semaphore(AT_ONCE), watched.process.pid

    async def one(path: str) -> Ended:
        async with many:
            return await watched.crawl(url=f"{watched.site.url}{path}", depth=2, max_pages=40)

    paths = [it.path for it in family.behaviours]
    work = asyncio.gather(*(one(path) for path in paths))
    peak, apart = await watched.peaks(work)
    expected = EXPECTED.get(family.name, {}) | OTHERWISE.get(family.name, {})
    for path, ended in zip(paths, await work, strict=True):
        wanted = expected.get(path.rpartition("/")[2], "page").split("|")
        assert ended.error in {_class_of(outcome) for outcome in wanted}, (path, ended)
        assert ended.end is (End.FAILED if ended.error else End.COMPLETED), (path, ended)
        assert ended.took_s < SECONDS + promised(LATE_S), path
    assert watched.process.pid == pid, "the process died"
    assert (peak < PEAK_MB, apart < APART_MB) == (True, True), (peak, apart)


def _class_of(outcome: str) -> str:
    return (CLASSES | {"page": "", "skipped": "parse"}).get(outcome, outcome)


async def test_the_table_names_only_what_exists() -> None:
    known = {family.name: {it.path.rpartition("/")[2] for it in family.behaviours} for family in FAMILIES}
    assert all(names.keys() <= known[family] for family, names in OTHERWISE.items())


async def test_nobody_gets_an_answer_that_was_another_page_s(watched: Watched) -> None:
    ended = await watched.crawl(
        urls=[f"{watched.site.url}/nasty/body/two-answers", *(f"{watched.site.url}/outlet/{n}" for n in range(1, 9))],
        concurrency=1,
        max_pages=20,
    )
    assert ended.result is not None
    assert "Poison" not in json.dumps(ended.result)
    assert ended.result["metrics"]["pages_crawled"] == 9
