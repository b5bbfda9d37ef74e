"""The HTTP examples of the specification, sent as they are written with a token added, to a running installation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from yarl import URL

from testkit.site import start_shop
from tests.processes import specified
from tests.processes.fleet import Fleet, fleet
from tests.unit.execution.crawl.crawl_kit import site

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    async with fleet(tmp_path_factory.mktemp("fleet")) as running:
        await running.start("--allow-host", "127.0.0.1", "--region", "eu", workers=1)
        yield running
        assert await running.verdict() == []


class Message(NamedTuple):
    first_line: str
    headers: Mapping[str, str]
    body: Any


def read(text: str) -> Message:
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    first, *rest = head.split("\n")
    headers = dict(line.split(": ", 1) for line in rest)
    return Message(first, headers, json.loads(body) if body.strip() else None)


async def send(running: Fleet, request: str, **names: str) -> Message:
    """The very bytes, but for the token, the length that HTTP wants and the names the example could not know."""
    text = request.replace("<access_token>", running.admin)
    for example, ours in names.items():
        text = text.replace(example.replace("_", "-"), ours)
    head, _, body = text.rstrip("\n").partition("\n\n")
    content = body.encode()
    lines = [*head.split("\n"), f"Content-Length: {len(content)}", "Connection: close", "", ""]
    url = URL(running.client.url)
    assert url.host is not None
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write("\r\n".join(lines).encode() + content)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return read(answer.decode())


def assert_same_shape(found: Any, documented: Any, where: str = "body") -> None:
    """Everything that is documented is there and of its kind; there may be more."""
    if isinstance(documented, dict):
        assert isinstance(found, dict), where
        for key, value in documented.items():
            assert key in found, f"{where}.{key}"
            assert_same_shape(found[key], value, f"{where}.{key}")
    elif isinstance(documented, list):
        assert isinstance(found, list), where
        for number, one in enumerate(found if documented else []):
            assert_same_shape(one, documented[0], f"{where}[{number}]")
    elif isinstance(documented, bool) or not isinstance(documented, int | float):
        assert type(found) is type(documented), f"{where}: {found!r}"
    else:
        assert isinstance(found, int | float) and not isinstance(found, bool), f"{where}: {found!r}"


def assert_answers(found: Message, documented: str) -> None:
    expected = read(documented)
    assert found.first_line == expected.first_line
    headers = {name.lower(): value for name, value in found.headers.items()}
    assert headers["content-type"] == expected.headers["Content-Type"]
    assert_same_shape(found.body, expected.body)


async def test_a_node_registers_and_beats(running: Fleet) -> None:
    found = await send(running, specified.REGISTER)
    assert_answers(found, specified.REGISTERED)
    node = found.body["node_id"]
    assert {name.lower(): value for name, value in found.headers.items()}["location"] == f"/api/v1/nodes/{node}"
    assert found.body["initial_status"] in ("pending", "online")
    found = await send(running, specified.HEARTBEAT, node_1a2b3c4d=node)
    assert_answers(found, specified.HEARD)
    assert (found.body["node_id"], found.body["status"]) == (node, "online")
    await running.client.remove_node(node)


async def test_a_task_that_no_node_can_do_is_taken_and_says_what_is_missing(running: Fleet) -> None:
    found = await send(running, specified.SUBMIT)
    assert_answers(found, specified.SUBMITTED)
    task = found.body["id"]
    running.note([task])
    assert {name.lower(): value for name, value in found.headers.items()}["location"] == f"/api/v1/tasks/{task}"
    assert (found.body["status"], found.body["priority"]) == ("pending", 7)
    shown = await send(running, specified.SHOW, task_123=task)
    submitted = read(specified.SUBMIT).body
    assert {name: shown.body[name] for name in submitted} == submitted
    why = await running.client.why(task)
    assert "javascript_rendering" in why.sentence + json.dumps(why.data)
    assert "proxy_rotation" in why.sentence + json.dumps(why.data)
    await running.client.cancel(task)


async def test_without_those_demands_it_completes_in_the_documented_shape(running: Fleet) -> None:
    shop = await start_shop(products=40)
    body = read(specified.SUBMIT).body
    demands = {name: body.pop(name) for name in ("min_resources", "capabilities")}
    body["parameters"]["url"] = f"{shop.url}/products"
    request = f"{specified.SUBMIT.partition('{')[0]}{json.dumps(body)}"
    found = await send(running, request)
    assert_answers(found, specified.SUBMITTED)
    task = found.body["id"]
    running.note([task])
    await running.until_status([task], "completed")
    shown = (await send(running, specified.SHOW, task_123=task)).body
    documented = read(specified.COMPLETED).body
    assert_same_shape(shown, {name: value for name, value in documented.items() if name not in demands})
    assert shown["result"]["success"] is True
    products = shown["result"]["data"]["products"]
    assert {product["title"] for product in products} <= {product.title for product in shop.catalogue.products}
    assert shown["result"]["metrics"]["pages_crawled"] > 1
    await shop.close()


CARD = (
    '<div class="product"><h2 class="title">Product {number}</h2><span class="price">${price}</span>'
    '<a href="/products/{number}">More</a></div>'
)
PAGE = f"<h1>Products</h1>{CARD.format(number=1, price='19.99')}{CARD.format(number=2, price='29.99')}"


async def test_the_page_of_the_example_gives_its_data_to_the_letter(running: Fleet) -> None:
    products = {f"/products/{number}": f"<h2 class='title'>Product {number}</h2>" for number in (1, 2)}
    body = read(specified.SUBMIT).body
    del body["min_resources"], body["capabilities"]
    async with site({"/products": PAGE, **products}) as served:
        body["parameters"]["url"] = f"{served.url}/products"
        (task,) = await running.submit([body])
        await running.until_status([task], "completed")
    result = (await send(running, specified.SHOW, task_123=task)).body["result"]
    documented = read(specified.COMPLETED).body["result"]
    assert (result["success"], result["data"]) == (True, documented["data"])
    assert documented["metrics"].keys() <= result["metrics"].keys()
    assert result["metrics"]["pages_crawled"] == 3
    assert result["metrics"]["data_size"] == len(PAGE) + sum(map(len, products.values()))
    assert result["metrics"]["processing_time"] > 0
    assert datetime.fromisoformat(result["timestamp"]).tzinfo is not None


async def test_a_running_task_is_shown_as_documented(running: Fleet) -> None:
    shop = await start_shop(products=40)
    shop.gate.hold()
    body = read(specified.SUBMIT).body
    del body["min_resources"], body["capabilities"]
    body["parameters"] |= {"url": f"{shop.url}/products", "depth": 9}
    (task,) = await running.submit([body])
    await running.until_status([task], "processing")
    shown = await send(running, specified.SHOW, task_123=task)
    documented = read(specified.PROCESSING)
    assert shown.first_line == documented.first_line
    expected = {name: value for name, value in documented.body.items() if name not in ("min_resources", "capabilities")}
    assert_same_shape(shown.body, expected)
    await running.client.cancel(task)
    await running.until_status([task], "cancelled")
    await shop.close()
