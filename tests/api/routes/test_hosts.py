"""Target hosts over HTTP: budgets, grants that nodes get with a sync, refusals that reach everybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crawlfleet.model import host_stats
from crawlfleet.model.host import HostNoteKind
from crawlfleet.wire.sync import GrantsBody, HostFiguresBody, HostGrantBody, HostNewsBody, HostWantBody
from tests.api.kit import Site
from tests.api.remote_node import RemoteNode

HOSTS = "/api/v1/hosts"
NAME = "shop.example:8080"


class Crawler:
    """A node that wants one host, and says in each sync what it has taken."""

    def __init__(self, node: RemoteNode) -> None:
        self.node = node
        self.taken = 0
        self.grant = HostGrantBody(NAME)

    @classmethod
    async def online(cls, site: Site) -> Crawler:
        return cls(await RemoteNode.online(site))

    async def sync(self, wanted: int | None = 8, news: HostNewsBody | None = None, wait_ms: int = 0) -> None:
        hosts = [] if wanted is None else [HostWantBody(NAME, wanted, requests=3)]
        said: dict[str, Any] = {"hosts": hosts, "host_news": [news] if news else []}
        self.take((await self.node.sync(wait_ms, grants_taken=self.taken, **said)).grants)

    def take(self, grants: GrantsBody | None) -> None:
        if grants is not None:
            assert grants.version > self.taken
            self.taken = grants.version
            self.grant = next((one for one in grants.hosts if one.host == NAME), HostGrantBody(NAME))

    async def until(self, rate: int, wanted: int | None = 8) -> None:
        for _ in range(200):
            await self.sync(wanted, wait_ms=50)
            if self.grant.rate == rate:
                return
        raise AssertionError(f"has {self.grant}, not a rate of {rate}")


async def test_an_unknown_host_is_none(site: Site) -> None:
    for method, path in (("GET", NAME), ("DELETE", NAME), ("POST", f"{NAME}:forgive"), ("GET", "no%20host")):
        answer = await site.send(method, f"{HOSTS}/{path}")
        assert (answer.status, answer.json["code"]) == (404, "not_found")
    assert (await site.get(HOSTS)).json == {"hosts": [], "next_cursor": None}


async def test_a_budget_is_set_shown_and_taken_back(site: Site) -> None:
    answer = await site.send("PUT", f"{HOSTS}/Shop.Example:8080", {"rate": 2.5, "delay_s": 0.5})
    assert answer.status == 200, answer.content
    host = answer.json["host"]
    assert (host["name"], host["set_by"]) == (NAME, "the admin")
    assert host["budget"] == {
        "rate": 2.0,
        "rate_from": "host",
        "concurrency": 8,
        "concurrency_from": "default",
        "delay_s": 0.5,
        "delay_from": "host",
    }
    assert (await site.get(f"{HOSTS}/{NAME}", role="viewer")).json == answer.json
    back = (await site.send("DELETE", f"{HOSTS}/{NAME}")).json["host"]
    assert (back["budget"]["rate"], back["budget"]["rate_from"], back["set_by"]) == (10.0, "default", None)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (NAME, {"rate": 0}, "rate"),
        (NAME, {"rate": "5"}, "rate"),
        (NAME, {"concurrency": 1.5}, "concurrency"),
        (NAME, {"concurrency": 0}, "concurrency"),
        (NAME, {"delay_s": -1}, "delay_s"),
        (NAME, {"speed": 1}, "speed"),
        ("10.0.0.0%2F8", {"rate": 1}, None),
        ("a%20b", {"rate": 1}, "host"),
        ("shop.example:99999", {"rate": 1}, "host"),
    ],
)
async def test_bad_budgets_are_named(site: Site, path: str, body: dict[str, Any], field: str | None) -> None:
    answer = await site.send("PUT", f"{HOSTS}/{path}", body)
    assert answer.status in {404, 422}, answer.content
    if field is not None:
        assert field in answer.content.decode()
    assert (await site.get(HOSTS)).json["hosts"] == []


async def test_viewers_look_and_change_nothing(site: Site) -> None:
    for method, path in (("PUT", NAME), ("DELETE", NAME), ("POST", f"{NAME}:forgive")):
        assert (await site.send(method, f"{HOSTS}/{path}", {}, role="viewer")).status == 403


async def test_hosts_are_listed_page_by_page(site: Site) -> None:
    for name in ("a.example", "b.example", "c.test"):
        await site.send("PUT", f"{HOSTS}/{name}", {"rate": 1})
    page = (await site.get(f"{HOSTS}?limit=2")).json
    assert ([host["name"] for host in page["hosts"]], page["next_cursor"]) == (["a.example", "b.example"], "b.example")
    rest = (await site.get(f"{HOSTS}?limit=2&cursor=b.example")).json
    assert [host["name"] for host in rest["hosts"]] == ["c.test"]
    found = (await site.get(f"{HOSTS}?q=EXAMPLE&set=true&backing_off=false")).json
    assert [host["name"] for host in found["hosts"]] == ["a.example", "b.example"]


async def test_nodes_share_a_budget_and_a_unit_has_one_holder(site: Site) -> None:
    await site.send("PUT", f"{HOSTS}/{NAME}", {"rate": 6, "concurrency": 4})
    first = await Crawler.online(site)
    await first.until(6)
    second = await Crawler.online(site)
    shown: Any = {}
    for _ in range(40):
        await second.sync(wait_ms=50)
        shown = (await site.get(f"{HOSTS}/{NAME}")).json
        # Until the first one has said that it uses less, nothing of it is the second one's.
        assert sum(one["may_use_rate"] for one in shown["holders"]) <= 6
        assert second.grant.rate == 0
        if shown["waiting"] and len(shown["holders"]) == 1 and shown["holders"][0]["rate"] == 3:
            break
    assert [one["node_id"] for one in shown["waiting"]] == [second.node.text]
    await first.until(3)
    await first.sync()
    await second.until(3)
    shown = (await site.get(f"{HOSTS}/{NAME}")).json
    assert [(one["rate"], one["concurrency"]) for one in shown["holders"]] == [(3, 2), (3, 2)]
    assert shown["waiting"] == []


async def test_a_crawl_delay_is_one_nodes(site: Site) -> None:
    first, second = await Crawler.online(site), await Crawler.online(site)
    await first.sync(news=HostNewsBody(NAME, HostNoteKind.CRAWL_DELAY, 3_000))
    await first.until(1)
    assert first.grant.spacing_ms >= 3_000
    for _ in range(5):
        await second.sync(wait_ms=20)
    assert second.grant.rate == 0
    shown = (await site.get(f"{HOSTS}/{NAME}")).json
    assert (shown["host"]["budget"]["delay_s"], shown["host"]["budget"]["delay_from"]) == (3.0, "robots")


async def test_a_refusal_stops_everybody_and_a_person_may_forgive_it(site: Site) -> None:
    await site.send("PUT", f"{HOSTS}/{NAME}", {"rate": 8})
    nodes = [await Crawler.online(site) for _ in range(2)]
    await nodes[0].until(8)
    await nodes[0].sync(news=HostNewsBody(NAME, HostNoteKind.TOO_MANY, 120_000))
    for node in nodes:
        await node.until(0)
    shown = (await site.get(f"{HOSTS}/{NAME}")).json["host"]
    assert (shown["is_backing_off"], shown["backoff_reason"], shown["backoff_level"]) == (True, "answered 429", 1)
    assert shown["backoff_until"] is not None
    assert [host["name"] for host in (await site.get(f"{HOSTS}?backing_off=true")).json["hosts"]] == [NAME]
    assert 100_000 < nodes[0].grant.away_ms <= 132_000
    assert (await site.post(f"{HOSTS}/{NAME}:forgive")).json == {"name": NAME, "has_changed": True}
    for node in nodes:
        await node.until(4)
    assert (await site.post(f"{HOSTS}/{NAME}:forgive")).json["has_changed"] is False


async def test_what_nodes_count_is_shown(site: Site) -> None:
    node = await Crawler.online(site)

    async def counted() -> bool:
        await node.sync()
        found = await site.get(f"{HOSTS}/{NAME}")
        return found.status == 200 and found.json["host"]["requests"] == 3

    await site.until(counted)
    await node.sync()
    assert (await site.get(f"{HOSTS}/{NAME}")).json["host"]["requests"] == 3


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"hosts": [["", 1]]}, "hosts"),
        ({"hosts": [["x" * 300, 1]]}, "hosts"),
        ({"hosts": [["a", -1]]}, "hosts"),
        ({"hosts": [[f"h{n}", 1] for n in range(201)]}, "hosts"),
        ({"host_news": [["a", 99, 0]]}, "host_news"),
        ({"host_news": [["a", 3, 0]]}, "host_news"),
        ({"host_news": [["a", 429, -5]]}, "host_news"),
        ({"grants_taken": -1}, "grants_taken"),
    ],
)
async def test_what_cannot_be_kept_of_hosts_is_refused(site: Site, fields: dict[str, Any], field: str) -> None:
    node = await RemoteNode.online(site)
    made: dict[str, Callable[[Any], Any]] = {
        "hosts": lambda rows: [HostWantBody(*row) for row in rows],
        "host_news": lambda rows: [HostNewsBody(*row) for row in rows],
        "grants_taken": int,
    }
    up = node.up(**{name: made[name](value) for name, value in fields.items()})
    answer = await node.call("sync", up)
    assert (answer.status, answer.json["field"]) == (422, field), answer.content


def _figures(requests: int, **counts: int) -> list[int]:
    row = host_stats.empty_row()
    row[host_stats.REQUESTS] = requests
    for _ in range(requests):
        host_stats.record_answer(row, 200, 0.07)
    row[host_stats.BYTES], row[host_stats.PAGES] = counts.get("size", 0), counts.get("pages", 0)
    row[host_stats.error_place("dns")] = counts.get("dns", 0)
    return row


async def _counted(site: Site, requests: int) -> Any:
    """What is told of the host when so many requests of it have been counted."""
    shown: dict[str, Any] = {}

    async def has() -> bool:
        answer = await site.get(f"{HOSTS}/{NAME}", role="viewer")
        shown.update(answer.json.get("figures", {}))
        return answer.status == 200 and shown["total"] is not None and shown["total"]["requests"] >= requests

    await site.until(has)
    return shown


async def test_figures_come_with_syncs_and_count_once(site: Site) -> None:
    first, second = await Crawler.online(site), await Crawler.online(site)
    await first.sync()
    row = _figures(10, size=4_000, pages=9, dns=2)
    for number in (1, 1, 2, 1):
        await first.node.sync(figures=HostFiguresBody(first.node.session, number, [(NAME, row), ("b.example", row)]))
    await second.node.sync(figures=HostFiguresBody(second.node.session, 1, [(NAME, _figures(1))]))
    figures = await _counted(site, 21)
    assert figures["recent"]["requests"] == 21
    total = figures["total"]
    assert (total["requests"], total["pages"], total["bytes"]) == (21, 18, 8_000)
    assert (total["statuses"], total["errors"], total["blocked"]) == ({"2xx": 21}, {"dns": 4}, 0)
    assert total["answer_ms"]["mean"] == 70.0
    assert 50 < total["answer_ms"]["p50"] < total["answer_ms"]["p99"] <= 100
    history = (await site.get(f"{HOSTS}/{NAME}/history?span=hour")).json
    assert (history["name"], history["span"]) == (NAME, "hour")
    assert sum(point["counted"]["requests"] for point in history["points"]) == 21
    minutes = (await site.get(f"{HOSTS}/{NAME}/history")).json["points"]
    assert sum(point["counted"]["pages"] for point in minutes) == 18
    assert (await site.get(f"{HOSTS}/{NAME}/history?until={minutes[0]['at']}")).json["points"] == []
    everywhere = (await site.get(f"{HOSTS}/*/history?span=hour")).json["points"]
    assert sum(point["counted"]["requests"] for point in everywhere) == 41


async def test_a_host_of_which_nothing_was_counted_has_no_figures(site: Site) -> None:
    answer = await site.send("PUT", f"{HOSTS}/{NAME}", {"rate": 3})
    assert answer.json["figures"] == {"since": None, "total": None, "recent": None}
    assert (await site.get(f"{HOSTS}/{NAME}/history")).json == {"name": NAME, "span": "minute", "points": []}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("span=day", "span"),
        ("since=yesterday", "since"),
        ("until=2026-01-01T00:00:00", "until"),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "since"),
        ("limit=0", "limit"),
    ],
)
async def test_bad_questions_for_a_history_are_told(site: Site, query: str, field: str) -> None:
    await site.send("PUT", f"{HOSTS}/{NAME}", {"rate": 3})
    assert (await site.get(f"{HOSTS}/{NAME}/history?{query}")).told == (422, "invalid_input", field)
    assert (await site.get(f"{HOSTS}/unknown.example/history")).status == 404


@pytest.mark.parametrize(
    "body",
    [
        HostFiguresBody(99, 1),
        HostFiguresBody(-1, 1),
        HostFiguresBody(1, 1, [("", [1])]),
        HostFiguresBody(1, 1, [("a", [-1])]),
        HostFiguresBody(1, 1, [("a", [1 << 60])]),
        HostFiguresBody(1, 1, [("a", [1] * 101)]),
        HostFiguresBody(1, 1, [("a", [1])] * 301),
    ],
)
async def test_figures_that_cannot_be_kept_are_refused(site: Site, body: HostFiguresBody) -> None:
    node = await RemoteNode.online(site)
    answer = await node.call("sync", node.up(figures=body))
    assert answer.told == (422, "invalid_input", "figures")
