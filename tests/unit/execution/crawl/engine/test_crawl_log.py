"""What a crawl tells of itself while it runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from crawlfleet.execution.budget.host_gate import OpenGate, ProcessShare
from crawlfleet.execution.crawl.engine.crawl_log import EVERY_S, LEAST_VISITS, CrawlLog
from crawlfleet.execution.crawl.engine.plan import CrawlPlan, make_crawl_plan
from crawlfleet.execution.sdk import TaskContext
from tests.unit.execution.crawl.crawl_kit import Heard, crawl, site

HOST = "shop.example"


class Crowded(OpenGate):
    """A gate at which requests of one host always stand in line."""

    def __init__(self, share: ProcessShare | None) -> None:
        self.share = share

    def awaited_share(self, host: str) -> ProcessShare | None:
        return self.share


@dataclass
class Counted:
    pages: int = 0
    skipped: int = 0
    moved: int = 0
    data_bytes: int = 0
    stopped_by: str | None = None
    errors: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)


class Told:
    """A crawl's log with a clock that stands until it is moved."""

    def __init__(self, share: ProcessShare | None = None, plan: CrawlPlan | None = None) -> None:
        self.heard, self.crawl, self.now, self.gate = Heard(), Counted(), 0.0, Crowded(share)
        context = TaskContext(self.heard, task_id="t", execution_id="e", task_type="web_crawl", parameters={})
        plan = plan or make_crawl_plan({"url": f"http://{HOST}/", "max_pages": 50})
        self.log = CrawlLog(
            plan, context, self.gate, self.crawl, count_items=lambda: 7, count_queued=lambda: 30, clock=lambda: self.now
        )

    @property
    def lines(self) -> list[str]:
        return [line for _, line in self.heard.lines]

    def visit(self, times: int = 1) -> None:
        for _ in range(times):
            self.crawl.pages += 1
            self.log.report_visit(HOST)


async def test_a_host_that_most_visits_wait_for_is_named_once_with_the_command() -> None:
    told = Told(ProcessShare(HOST, rate=10, concurrency=8))
    told.visit(LEAST_VISITS - 1)
    assert told.lines == []
    told.visit(20)
    assert told.lines == [
        f"host {HOST} sets the pace: its budget gives this node 10/s, 8 at once; "
        f"crawlfleet host set {HOST} --rate NUMBER changes it"
    ]
    assert (told.heard.figures["limited_by"], told.heard.figures["limit"]) == (HOST, "10/s, 8 at once")
    told.gate.share = ProcessShare(HOST, rate=20, concurrency=8)
    told.visit(3)
    assert len(told.lines) == 2


async def test_a_crawl_delay_is_named_at_once() -> None:
    told = Told(ProcessShare(HOST, rate=1, concurrency=1, spacing_ms=5_000))
    told.visit()
    (line,) = told.lines
    assert "gives this node one request in 5 s; crawlfleet host set shop.example --delay NUMBER" in line


async def test_a_host_that_is_waited_for_now_and_then_limits_nothing() -> None:
    told = Told(ProcessShare(HOST, rate=10, concurrency=8))
    for _ in range(20):
        told.gate.share = None
        told.visit(3)
        told.gate.share = ProcessShare(HOST, rate=10, concurrency=8)
        told.visit()
    assert told.lines == []
    assert "limited_by" not in told.heard.figures


async def test_lines_come_now_and_then_however_fast_pages_are() -> None:
    told = Told()
    told.visit(100)
    told.now += EVERY_S
    told.crawl.errors["http"] = told.crawl.failures["status"] = 2
    told.visit(100)
    assert told.lines == [
        "101 pages read, 2 failed (status 2), 0 skipped, 7 items, 30 URLs queued, 10.1 pages a second"
    ]


async def test_the_figures_say_of_how_many_pages_at_most() -> None:
    told = Told()
    told.visit()
    assert told.heard.figures == {"pages": 1, "items": 7, "queued": 30, "failed": 0, "skipped": 0, "max_pages": 50}


async def test_the_log_of_a_crawl_says_what_it_did_and_why_it_ended() -> None:
    pages = {"/": '<a href="/a">a</a><a href="/b">b</a><a href="/none">none</a>', "/a": "a", "/b": "b"}
    async with site(pages) as served:
        heard = Heard()
        await crawl({"url": f"{served.url}/", "depth": 1, "max_pages": 20}, heard)
        first, *_, last = [line for level, line in heard.lines if level == "info"]
        assert first == "crawls 1 start URL, depth 1, at most 20 pages"
        assert last.startswith("ended, nothing is left to visit: 3 pages read, 1 failed (status 1), 0 skipped, ")
        heard = Heard()
        await crawl({"url": f"{served.url}/", "depth": 1, "max_pages": 1}, heard)
        assert [line for _, line in heard.lines][-1].startswith("ended, stopped by max_pages: 1 pages read, ")
