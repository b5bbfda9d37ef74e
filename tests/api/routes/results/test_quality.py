"""How good items are, over HTTP."""

import pytest

from crawlfleet.api.routes import PREFIX
from tests.api.kit import Site
from tests.api.remote_node import RemoteNode
from tests.api.routes.results.test_exports import Reads, completed
from tests.api.routes.results.test_group_results import GROUPS, leave, sharded, taken

CHUNKS = [b'{"_url":"/1","t":"a"}\n{"_url":"/1","t":""}\n', b'{"_url":"/2","t":"a"}\n{"_url":"/2","t":"b","n":1}\n']


async def test_a_task_is_reported_on_and_a_final_one_is_read_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await completed(site, CHUNKS)
    reads = Reads(monkeypatch)
    for _ in range(2):
        found = (await site.get(f"{PREFIX}/tasks/{task}/results:quality", role="viewer")).json
        assert (found["items"], found["pages"], found["items_per_page"], found["duplicates"]) == (4, 2, 2.0, 1)
        assert (found["is_exact"], found["is_final"]) == (True, True)
        assert found["fields"][1:] == [
            {"name": "t", "filled": 3, "fill_rate": 0.75, "types": {"text": 4}},
            {"name": "n", "filled": 1, "fill_rate": 0.25, "types": {"integer": 1}},
        ]
    assert reads.count == 2


async def test_of_a_running_task_what_has_come_each_time(site: Site) -> None:
    node = await RemoteNode.online(site)
    task = await site.submit()
    one = await node.take()
    for number, items in enumerate((2, 4)):
        await node.put(one, "items", number, CHUNKS[number])
        found = (await site.get(f"{PREFIX}/tasks/{task}/results:quality")).json
        assert (found["items"], found["is_final"]) == (items, False)


async def test_a_group_is_reported_on(site: Site) -> None:
    node = await RemoteNode.online(site)
    group = await sharded(site, 4, size=2)
    first, second = await taken(node, 2)
    await leave(node, first)
    path = f"{GROUPS}/{group}/results:quality"
    assert (await site.get(path)).told[:2] == (409, "group_incomplete")
    assert (await site.get(f"{path}?partial=true")).json["items"] == 2
    await leave(node, second)
    found = (await site.get(path)).json
    assert (found["items"], found["pages"], found["items_per_page"], found["is_final"]) == (4, 0, None, True)


async def test_nothing_is_reported_of_nothing_and_an_unknown_task_is_not_found(site: Site) -> None:
    waiting = await site.submit(queue="nobody")
    found = (await site.get(f"{PREFIX}/tasks/{waiting}/results:quality")).json
    assert (found["items"], found["fields"], found["items_per_page"]) == (0, [], None)
    unknown = await site.get(f"{PREFIX}/tasks/task-0000000000000001/results:quality")
    assert unknown.told[:2] == (404, "not_found")
