"""One crawl over many nodes, over HTTP: made whole or not at all, worked off chunk by chunk, read as one."""

import asyncio
from typing import Any

import msgspec
import pytest
import zstandard

from crawlfleet.model.crawl import CrawlUrl
from crawlfleet.model.execution import End
from crawlfleet.model.ids import execution_text, task_text
from crawlfleet.wire.crawl import CrawlDown, CrawlUp, ReportBody
from crawlfleet.wire.sync import AssignmentBody, OpenDown, OpenUp
from tests.api.kit import Answer, Site
from tests.api.remote_node import RemoteNode

GROUPS = "/api/v1/groups"
START = "http://site.test/"


class CrawlNode(RemoteNode):
    @classmethod
    async def ready(cls, site: Site) -> "CrawlNode":
        node = await cls.join(site, task_types={"web_crawl": {"type": "object"}})
        assert isinstance(node, CrawlNode)
        await node.open()
        await node.sync()
        return node

    async def open(self) -> OpenDown:
        answer = await self.call("open", OpenUp(self.id, self.secret, slots=5, task_types=["web_crawl"]))
        assert answer.status == 200, answer.content
        down = msgspec.json.decode(answer.content, type=OpenDown)
        self.session, self.number = down.session, 0
        return down

    async def exchange(self, one: AssignmentBody, up: Any = None, items: str = "0-0", **more: Any) -> Answer:
        data = more.pop("data", None) or msgspec.json.encode(up if up is not None else CrawlUp())
        path = f"/api/v1/executions/{execution_text(one.execution)}/crawl?task={task_text(one.task)}&items={items}"
        return await self.site.post(path, data=data, **{"token": self.secret, **more})

    async def lease(self, one: AssignmentBody, report: ReportBody | None = None, **more: Any) -> CrawlDown:
        answer = await self.exchange(one, CrawlUp(report), **more)
        assert answer.status == 200, answer.content
        return msgspec.json.decode(answer.content, type=CrawlDown)


async def created(site: Site, members: int = 2, **parameters: Any) -> Any:
    task = {"task_type": "web_crawl", "parameters": {"url": START, "depth": 3, **parameters}}
    answer = await site.post(GROUPS, {"name": "all of it", "task": task, "crawl": {"members": members}})
    assert answer.status == 201, answer.content
    return answer.json


async def shown(site: Site, group: str) -> Any:
    return (await site.get(f"{GROUPS}/{group}")).json


async def test_a_crawl_is_a_group_of_members_over_one_list_of_urls(site: Site) -> None:
    group = await created(site, members=3, max_pages=50)
    assert (group["kind"], group["is_closed"], group["progress"]["total"]) == ("crawl", True, 3)
    crawl = group["crawl"]
    assert (crawl["members"], crawl["max_pages"], crawl["found"], crawl["queued"]) == (3, 50, 1, 1)
    assert (crawl["pages"], crawl["finished_at"], crawl["rate_per_s"]) == (0, None, None)
    tasks = (await site.get(f"/api/v1/tasks?group={group['id']}")).json["tasks"]
    shown_task = (await site.get(f"/api/v1/tasks/{tasks[0]['id']}")).json
    assert shown_task["parameters"] == {"urls": [START], "depth": 3, "max_pages": 50, "spread": True}
    assert (await site.get(f"{GROUPS}?kind=crawl")).json["groups"][0]["crawl"]["found"] == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"crawl": {"members": 0}}, "crawl.members"),
        ({"crawl": {"members": 2}}, "task"),
        ({"crawl": {"members": 2}, "tasks": []}, "crawl"),
        ({"crawl": {"members": 2}, "task": {"task_type": "echo"}}, "task.task_type"),
        ({"crawl": {"members": 2}, "task": {"task_type": "web_crawl"}}, "task.parameters"),
        (
            {"crawl": {"members": 2}, "task": {"task_type": "web_crawl", "parameters": {"url": START, "depth": -1}}},
            "task.parameters.depth",
        ),
        (
            {"crawl": {"members": 2}, "task": {"task_type": "web_crawl", "parameters": {"url": START, "spread": True}}},
            "task.parameters.spread",
        ),
        *(
            (
                {
                    "crawl": {"members": 2},
                    "task": {"task_type": "web_crawl", "parameters": {"url": START, name: value}},
                },
                f"task.parameters.{name}",
            )
            for name, value in (("archive", "zip"), ("since", "node-0000000000000001"), ("keep_pages", 1))
        ),
        (
            {
                "crawl": {"members": 2},
                "task": {"task_type": "web_crawl", "parameters": {"url": START, "follow": {"allow": ["("]}}},
            },
            "task.parameters.follow.allow[0]",
        ),
    ],
)
async def test_a_crawl_that_cannot_be_is_refused_whole(site: Site, body: Any, field: str) -> None:
    answer = await site.post(GROUPS, body)
    assert answer.told == (422, "invalid_input", field)
    assert (await site.get(GROUPS)).json["groups"] == []


async def test_members_work_it_off_and_it_is_read_as_one(site: Site) -> None:
    group = (await created(site))["id"]
    first = second = await CrawlNode.ready(site)
    one, other = await first.take_all(2)
    given = await first.lease(one)
    assert (given.state, [url.url for url in given.urls]) == ("chunk", [START])
    assert (await second.lease(other)).state == "wait"
    assert (await site.get(f"{GROUPS}/{group}/results")).told[1] == "group_incomplete"
    assert (await first.put(one, "items", 0, b'{"n":0}\n{"n":1}\n')).status == 204
    found = [CrawlUrl(f"{START}{n}", 1) for n in range(2)]
    then = await first.lease(one, ReportBody(given.number, pages=1, items=2, bytes=99, found=found), items="0-1")
    others = await second.lease(other)
    assert {url.url for down in (then, others) for url in down.urls} == {url.url for url in found}
    # The first one is lost with what it had sent of its second chunk; the other one does that as well.
    assert (await first.put(one, "items", 1, b'{"n":"lost"}\n')).status == 204
    await first.finish(one, end=End.FAILED)
    late = await first.exchange(one, CrawlUp(ReportBody(then.number, pages=1)), items="1-2")
    assert late.told == (409, "stale_execution", "execution_id")
    assert (await second.put(other, "items", 0, b'{"n":2}\n')).status == 204
    again = await second.lease(other, ReportBody(others.number, pages=1, items=1), items="0-1")
    assert [url.url for url in again.urls] == [url.url for url in then.urls]
    assert (await second.put(other, "items", 1, b'{"n":3}\n')).status == 204
    assert (await second.lease(other, ReportBody(again.number, pages=1, items=1), items="1-2")).state == "done"
    view = await shown(site, group)
    assert (view["is_complete"], view["crawl"]["pages"], view["crawl"]["items"]) == (True, 3, 4)
    assert (view["crawl"]["percent"], view["crawl"]["stopped_by"]) == (100.0, None)
    result = (await site.get(f"{GROUPS}/{group}/result")).json
    assert (result["success"], result["items"], result["data_truncated"]) == (True, 4, False)
    assert sorted(item["n"] for item in result["data"]["items"]) == [0, 1, 2, 3]
    assert (result["metrics"]["pages_crawled"], result["metrics"]["data_size"]) == (3, 99)
    page = (await site.get(f"{GROUPS}/{group}/results?limit=3")).json
    rest = (await site.get(f"{GROUPS}/{group}/results?cursor={page['next_cursor']}")).json
    assert sorted(item["n"] for item in page["items"] + rest["items"]) == [0, 1, 2, 3]
    lines = (await site.get(f"{GROUPS}/{group}/results:download")).content.splitlines()
    assert [msgspec.json.decode(line) for line in lines] == page["items"] + rest["items"]
    exported = await site.get(f"{GROUPS}/{group}/results:export")
    assert (exported.content.splitlines(), exported.headers["Export-Complete"]) == (lines, "true")
    table = (await site.get(f"{GROUPS}/{group}/results:export?format=csv")).content.splitlines()
    assert table == [b"n", *(str(item["n"]).encode() for item in page["items"] + rest["items"])]
    assert (await site.get(f"{GROUPS}/{group}/results:quality")).json["items"] == 4


async def test_what_its_members_counted_is_added_up(site: Site) -> None:
    group = (await created(site, members=3))["id"]
    node = await CrawlNode.ready(site)
    one, other, third = await node.take_all(3)
    given = await node.lease(one)
    assert (await node.lease(one, ReportBody(given.number, failed=1))).state == "done"
    field = {"matches": 2, "records": 3, "filled": 2, "fill_rate": 0.6667}
    never = {"matches": 0, "records": 3, "filled": 0, "fill_rate": 0.0}
    await node.finish(
        one,
        result={
            "metrics": {
                "errors": {"http": 1},
                "failures": {"status": 1},
                "links_left_out": {"denied": 2},
                "pages_crawled": 3,
                "fields": {"p.a": never, "p.b": never},
            },
            "notes": ["trap: 20 URLs were left out", "never matched on 3 pages: p.a, p.b"],
        },
    )
    await node.finish(
        other,
        result={
            "metrics": {
                "errors": {"http": 2, "network": 1},
                "links_left_out": {"denied": 1},
                "pages_crawled": 4,
                "fields": {"p.a": field, "p.b": never},
            },
            "notes": ["trap: 20 URLs were left out", "never matched on 4 pages: p.b"],
        },
    )
    await node.finish(third, result={"metrics": "of another version"})
    result = (await site.get(f"{GROUPS}/{group}/result")).json
    metrics = result["metrics"]
    assert (result["success"], metrics["pages_failed"]) == (False, 1)
    assert (metrics["errors"], metrics["failures"]) == ({"http": 3, "network": 1}, {"status": 1})
    assert metrics["links_left_out"] == {"denied": 3}
    assert metrics["fields"]["p.a"] == {"matches": 2, "records": 6, "filled": 2, "fill_rate": 0.3333}
    assert result["notes"] == ["trap: 20 URLs were left out", "never matched on 7 pages: p.b"]


async def test_only_a_finished_crawl_has_a_result_of_the_whole(site: Site) -> None:
    group = (await created(site))["id"]
    assert (await site.get(f"{GROUPS}/{group}/result")).told[:2] == (409, "group_incomplete")
    partial = (await site.get(f"{GROUPS}/{group}/result?partial=true")).json
    assert (partial["success"], partial["data"], partial["metrics"]["pages_crawled"]) == (False, {"items": []}, 0)
    plain = (await site.post(GROUPS, {"tasks": []})).json["id"]
    assert (await site.get(f"{GROUPS}/{plain}/result")).told[:2] == (404, "not_found")


async def test_cancelling_the_group_cancels_its_members(site: Site) -> None:
    group = (await created(site, members=3))["id"]
    answer = await site.post(f"{GROUPS}/{group}:cancel")
    assert (answer.status, answer.json["changed"]) == (200, 3)
    view = await shown(site, group)
    assert (view["is_finished"], view["is_complete"], view["progress"]["cancelled"]) == (True, False, 3)
    # It goes on where it stopped.
    assert (await site.post(f"{GROUPS}/{group}:retry?status=cancelled")).json["changed"] == 3
    node = await CrawlNode.ready(site)
    one, *_ = await node.take_all(3)
    assert (await node.lease(one)).state == "chunk"


async def test_one_that_waits_is_woken_by_what_others_find(site: Site) -> None:
    await created(site)
    first = second = await CrawlNode.ready(site)
    one, other = await first.take_all(2)
    given = await first.lease(one)
    parked = asyncio.create_task(second.exchange(other, CrawlUp(wait_ms=2_000)))
    done, _ = await asyncio.wait({parked}, timeout=0.2)
    assert not done
    found = [CrawlUrl(f"{START}{n}", 1) for n in range(2)]
    await first.lease(one, ReportBody(given.number, pages=1, found=found))
    answer = msgspec.json.decode((await parked).content, type=CrawlDown)
    assert (answer.state, len(answer.urls)) == ("chunk", 1)


async def test_what_makes_no_sense_is_refused(site: Site) -> None:
    await created(site)
    node = await CrawlNode.ready(site)
    one, _ = await node.take_all(2)
    other = await CrawlNode.ready(site)
    given = await node.lease(one, data=zstandard.ZstdCompressor().compress(b"[]"), headers={"Content-Encoding": "zstd"})
    for items in ("x", "3", "5-3"):
        assert (await node.exchange(one, CrawlUp(ReportBody(1)), items=items)).told[::2] == (422, "items")
        assert (await node.exchange(one, CrawlUp(ReportBody(1)), f"0-0&warc={items}")).told[::2] == (422, "warc")
    assert (await node.exchange(one, data=b"{")).told[::2] == (422, "body")
    too_many = CrawlUp(ReportBody(given.number, pages=2))
    assert (await node.exchange(one, too_many)).told[::2] == (422, "report.counts")
    for bad in (CrawlUrl("", 0), CrawlUrl(START, -1), CrawlUrl(START, 0, flags=9)):
        up = CrawlUp(ReportBody(given.number, found=[bad]))
        assert (await node.exchange(one, up)).told[::2] == (422, "report.found[0]")
    assert (await other.exchange(one)).told[:2] == (409, "stale_execution")
    assert (await node.exchange(one, token=site.tokens["viewer"])).status == 403
    assert (await node.lease(one)).number == given.number
    await site.post("/api/v1/tasks", {"task_type": "web_crawl", "parameters": {"url": START, "spread": True}})
    (alone,) = await node.take_all(1)
    assert (await node.exchange(alone)).told[:2] == (404, "no_crawl")
