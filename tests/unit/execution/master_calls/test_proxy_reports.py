"""The health of proxies: merged over a node's processes, reported when it changes."""

from __future__ import annotations

import asyncio

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.errors import InvalidInput
from crawlfleet.execution.master_calls.proxy_reports import ProxyHealthReports, report_proxies
from crawlfleet.execution.process_state.proxy_pool import COOL_S, NODE_POOL, ProxyPool, ProxyRotation
from crawlfleet.model.proxy_health import PROXIES_MAX, ProxyHealth, merge_health
from crawlfleet.wire.proxies import ProxiesUp

UP = ProxyHealth("fast", "a:1", uses=4, latency_ms=10)
DOWN = ProxyHealth("fast", "a:1", uses=2, failures=3, down_for_ms=9_000, latency_ms=30, last_failure="no connection")


def test_a_pool_tells_the_health_of_its_proxies_without_passwords() -> None:
    now = 1_000.0
    pool = ProxyPool(f"{NODE_POOL}fast", ["http://ann:secret@a.test:1", "http://b.test"], lambda: now)
    way = ProxyRotation(pool)
    first = way.choose_proxy("h")
    way.note_success(first, 0.25)
    second = way.choose_proxy("h")
    way.note_failure(second, "no connection")
    assert pool.report_health() == [
        ProxyHealth("fast", "a.test:1", uses=1, latency_ms=250),
        ProxyHealth("fast", "b.test:80", 1, failures=1, down_for_ms=int(COOL_S * 1_000), last_failure="no connection"),
    ]


def test_a_proxy_is_down_only_where_no_process_can_use_it() -> None:
    (merged,) = merge_health([{("fast", "a:1"): UP}, {("fast", "a:1"): DOWN}])
    assert merged == ProxyHealth("fast", "a:1", 6, 3, 0, 20, "no connection")
    (merged,) = merge_health([{("fast", "a:1"): DOWN}, {("fast", "a:1"): DOWN._replace(down_for_ms=4_000)}])
    assert (merged.uses, merged.down_for_ms) == (4, 4_000)
    unused = ProxyHealth("fast", "a:1")
    assert merge_health([{("fast", "a:1"): unused}, {("fast", "a:1"): DOWN}]) == [DOWN]


@given(st.lists(st.integers(0, 2_500), unique=True), st.integers(0, 5))
def test_a_report_is_bounded_and_failing_proxies_are_in_it(numbers: list[int], failing: int) -> None:
    process = {
        ("p", f"h:{number}"): ProxyHealth("p", f"h:{number}", 1, failures=number % 50 < failing) for number in numbers
    }
    merged = merge_health([process])
    assert len(merged) == min(len(numbers), PROXIES_MAX)
    wanted = {health.proxy for health in process.values() if health.failures}
    assert wanted <= {health.proxy for health in merged} or len(wanted) > PROXIES_MAX


class Calls:
    def __init__(self) -> None:
        self.bodies: list[tuple[str, ProxiesUp]] = []
        self.came = asyncio.Event()

    async def put(self, path: str, lines: bytes) -> None:
        self.bodies.append((path, msgspec.json.decode(lines, type=ProxiesUp)))
        self.came.set()
        if len(self.bodies) == 1:
            raise InvalidInput("a master of an earlier version")


async def test_changes_are_reported_also_after_a_refusal() -> None:
    book, calls = ProxyHealthReports(), Calls()
    reporting = asyncio.create_task(report_proxies(book, calls, 7, every_s=0.0))
    async with asyncio.timeout(10):
        book.update_process(1, [UP])
        await calls.came.wait()
        calls.came.clear()
        book.update_process(2, [DOWN])
        await calls.came.wait()
        calls.came.clear()
        book.remove_process(1)
        await calls.came.wait()
    reporting.cancel()
    await asyncio.gather(reporting, return_exceptions=True)
    assert {path for path, _ in calls.bodies} == {"/api/v1/nodes/node-0000000000000007/proxies"}
    assert [body.proxies[0].uses for _, body in calls.bodies] == [4, 6, 2]
    book.remove_process(99)
    assert not book.has_changed.is_set()
