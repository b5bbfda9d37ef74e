"""Items and logs as people read them: in pages, as a whole, while they are written."""

import json
from typing import Any

import pytest

from crawlfleet.model.execution import End
from crawlfleet.model.ids import execution_text
from crawlfleet.wire.sync import AssignmentBody
from tests.api.kit import Site
from tests.api.remote_node import RemoteNode


def lines(*numbers: int) -> bytes:
    return b"".join(b'{"n":%d}\n' % number for number in numbers)


def log_lines(*levels: str) -> bytes:
    return b"".join(b'{"at":1700000000000,"level":"%s","message":"m"}\n' % level.encode() for level in levels)


async def running(site: Site, **fields: Any) -> tuple[RemoteNode, str, AssignmentBody]:
    node = await RemoteNode.online(site)
    task = await site.submit(**fields)
    return node, task, await node.take()


async def completed(site: Site) -> tuple[str, AssignmentBody]:
    """Seven items in three chunks."""
    node, task, one = await running(site)
    for number, chunk in enumerate([lines(0, 1, 2), lines(3), lines(4, 5, 6)]):
        assert (await node.put(one, "items", number, chunk)).status == 204
    await node.finish(one, {"items": 7, "item_chunks": 3, "log_chunks": 0, "pages": 2})
    return task, one


async def test_items_come_in_pages(site: Site) -> None:
    task, one = await completed(site)
    seen: list[int] = []
    sizes: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        query = f"&cursor={cursor}" if cursor else ""
        page = (await site.get(f"/api/v1/tasks/{task}/results?limit=2{query}", role="viewer")).json
        assert (page["total"], page["is_final"]) == (7, True)
        assert page["execution_id"] == execution_text(one.execution)
        seen += [item["n"] for item in page["items"]]
        sizes.append(len(page["items"]))
        cursor = page["next_cursor"]
    assert (seen, sizes) == (list(range(7)), [2, 2, 2, 1])


async def test_all_items_are_one_download(site: Site) -> None:
    task, _ = await completed(site)
    answer = await site.get(f"/api/v1/tasks/{task}/results:download", role="viewer")
    assert answer.headers["Content-Type"].startswith("application/x-ndjson")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{task}.jsonl"'
    assert [json.loads(line)["n"] for line in answer.content.splitlines()] == list(range(7))


async def test_a_running_task_shows_what_has_come_and_the_cursor_goes_on(site: Site) -> None:
    node, task, one = await running(site)
    path = f"/api/v1/tasks/{task}/results"
    await node.put(one, "items", 0, lines(0, 1))
    page = (await site.get(path)).json
    assert ([item["n"] for item in page["items"]], page["is_final"], page["total"]) == ([0, 1], False, None)
    await node.put(one, "items", 1, lines(2))
    page = (await site.get(f"{path}?cursor={page['next_cursor']}")).json
    assert [item["n"] for item in page["items"]] == [2]
    await node.finish(one, {"items": 3, "item_chunks": 2})
    page = (await site.get(f"{path}?cursor={page['next_cursor']}")).json
    assert (page["items"], page["is_final"], page["next_cursor"], page["total"]) == ([], True, None, 3)


async def test_what_a_failed_attempt_sent_is_never_counted(site: Site) -> None:
    node, task, one = await running(site, retry={"max_retries": 0})
    await node.put(one, "items", 0, lines(0, 1))
    await node.finish(one, {"items": 2, "item_chunks": 1}, End.FAILED)
    page = (await site.get(f"/api/v1/tasks/{task}/results")).json
    assert (page["items"], page["is_final"], page["execution_id"]) == ([], False, None)
    assert (await site.get(f"/api/v1/tasks/{task}/results:download")).content == b""


async def test_only_what_the_manifest_names_counts(site: Site) -> None:
    node, task, one = await running(site)
    await node.put(one, "items", 0, lines(0))
    await node.put(one, "items", 1, lines(1))
    await node.finish(one, {"items": 1, "item_chunks": 1})
    assert (await site.get(f"/api/v1/tasks/{task}/results")).json["items"] == [{"n": 0}]
    assert (await site.get(f"/api/v1/tasks/{task}/results:download")).content == lines(0)


@pytest.mark.parametrize(
    "metrics", [None, {"pages": 1}, {"items": "many", "item_chunks": -4}, [1], {"item_chunks": 1e300}]
)
async def test_a_task_without_a_manifest_has_no_items(site: Site, metrics: Any) -> None:
    node, task, one = await running(site)
    await node.finish(one, metrics)
    page = (await site.get(f"/api/v1/tasks/{task}/results")).json
    assert (page["items"], page["total"], page["is_final"], page["next_cursor"]) == ([], 0, True, None)


async def test_items_that_are_gone_are_a_404_and_not_an_empty_page(site: Site) -> None:
    task, one = await completed(site)
    await site.master.chunks.drop([one.task])
    for path in ("results", "results:download"):
        assert (await site.get(f"/api/v1/tasks/{task}/{path}")).told[:2] == (404, "not_found")


async def test_a_waiting_task_has_nothing_yet(site: Site) -> None:
    task = await site.submit()
    page = (await site.get(f"/api/v1/tasks/{task}/results")).json
    assert (page["items"], page["is_final"], page["execution_id"]) == ([], False, None)
    log = (await site.get(f"/api/v1/tasks/{task}/log")).json
    assert (log["lines"], log["is_live"], log["execution_id"]) == ([], True, None)
    assert (await site.get(f"/api/v1/tasks/{task}/log?after={log['next_after']}")).status == 200


async def test_a_log_is_followed_while_it_is_written(site: Site) -> None:
    node, task, one = await running(site)
    path = f"/api/v1/tasks/{task}/log"
    await node.put(one, "log", 0, log_lines("info", "error"))
    first = (await site.get(path, role="viewer")).json
    assert [line["level"] for line in first["lines"]] == ["info", "error"]
    assert first["is_live"]
    nothing_new = (await site.get(f"{path}?after={first['next_after']}")).json
    assert nothing_new["lines"] == []
    await node.put(one, "log", 1, log_lines("debug"))
    await node.finish(one, {"log_chunks": 2})
    last = (await site.get(f"{path}?after={nothing_new['next_after']}")).json
    assert [line["level"] for line in last["lines"]] == ["debug"]
    assert not last["is_live"]


async def test_a_log_is_filtered_by_level(site: Site) -> None:
    node, task, one = await running(site)
    await node.put(one, "log", 0, log_lines("debug", "info", "warning", "error", "critical"))
    for level, count in [("debug", 5), ("info", 4), ("warning", 3), ("error", 2), ("critical", 1)]:
        found = (await site.get(f"/api/v1/tasks/{task}/log?level={level}")).json["lines"]
        assert len(found) == count
    page = (await site.get(f"/api/v1/tasks/{task}/log?level=warning&limit=2")).json
    rest = (await site.get(f"/api/v1/tasks/{task}/log?level=warning&after={page['next_after']}")).json
    assert [line["level"] for line in page["lines"] + rest["lines"]] == ["warning", "error", "critical"]


def said(*messages: str) -> bytes:
    return b"".join(b'{"at":1,"level":"info","message":"%s"}\n' % message.encode() for message in messages)


async def test_a_log_is_searched(site: Site) -> None:
    node, task, one = await running(site)
    await node.put(one, "log", 0, said("Fetched /a", "TIMEOUT of /b", "fetched /c") + log_lines("error"))
    path = f"/api/v1/tasks/{task}/log"
    for query, found in [("q=timeout", ["TIMEOUT of /b"]), ("q=FETCHED", ["Fetched /a", "fetched /c"]), ("q=no", [])]:
        assert [line["message"] for line in (await site.get(f"{path}?{query}")).json["lines"]] == found
    assert (await site.get(f"{path}?q=m&level=error")).json["lines"][0]["level"] == "error"


async def test_a_search_that_finds_nothing_for_long_is_not_over(site: Site) -> None:
    node, task, one = await running(site)
    for number in range(60):
        await node.put(one, "log", number, said(f"line {number}"))
    await node.finish(one, {"log_chunks": 60})
    path = f"/api/v1/tasks/{task}/log?q=line+59"
    first = (await site.get(path)).json
    assert (first["lines"], first["is_end"]) == ([], False)
    second = (await site.get(f"{path}&after={first['next_after']}")).json
    assert ([line["message"] for line in second["lines"]], second["is_end"]) == (["line 59"], True)


async def test_a_log_is_read_from_its_end(site: Site) -> None:
    node, task, one = await running(site)
    for number in range(3):
        await node.put(one, "log", number, said(*(f"{number}{letter}" for letter in "abc")))
    path = f"/api/v1/tasks/{task}/log?limit=4"
    last = (await site.get(f"{path}&before=end")).json
    assert [line["message"] for line in last["lines"]] == ["1c", "2a", "2b", "2c"]
    earlier = (await site.get(f"{path}&before={last['next_before']}")).json
    assert [line["message"] for line in earlier["lines"]] == ["0b", "0c", "1a", "1b"]
    first = (await site.get(f"{path}&before={earlier['next_before']}")).json
    assert ([line["message"] for line in first["lines"]], first["next_before"]) == (["0a"], None)
    await node.put(one, "log", 3, said("new"))
    new = (await site.get(f"{path}&after={last['next_after']}")).json
    assert [line["message"] for line in new["lines"]] == ["new"]


async def test_the_log_of_a_failed_attempt_stays_readable(site: Site) -> None:
    node, task, one = await running(site, retry={"max_retries": 0})
    await node.put(one, "log", 0, log_lines("error"))
    await node.finish(one, {"log_chunks": 1}, End.FAILED)
    for query in ("", f"?execution={execution_text(one.execution)}"):
        found = (await site.get(f"/api/v1/tasks/{task}/log{query}")).json
        assert ([line["level"] for line in found["lines"]], found["is_live"]) == (["error"], False)
    other = await site.get(f"/api/v1/tasks/{task}/log?execution=exec-0000000000000001")
    assert other.told[:2] == (404, "not_found")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("results?limit=0", "limit"),
        ("results?limit=100000", "limit"),
        ("results?cursor=x", "cursor"),
        ("results?cursor=exec-0000000000000001.0.0", "cursor"),
        ("results?page=2", "page"),
        ("results:download?limit=1", "limit"),
        ("log?after=1", "after"),
        ("log?level=loud", "level"),
        ("log?q=", "q"),
        ("log?before=x", "before"),
        ("log?before=end&after=0.0", "before"),
        ("log?execution=1", "execution"),
        ("log?from=1", "from"),
    ],
)
async def test_a_bad_question_is_told_what_is_wrong(site: Site, query: str, field: str) -> None:
    task = await site.submit()
    assert (await site.get(f"/api/v1/tasks/{task}/{query}")).told == (422, "invalid_input", field)


async def test_an_unknown_task_is_not_found(site: Site) -> None:
    for task in ("task-0000000000000001", "task-1"):
        for path in ("results", "results:download", "log"):
            assert (await site.get(f"/api/v1/tasks/{task}/{path}")).told[:2] == (404, "not_found")
