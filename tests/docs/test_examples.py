"""The examples do what they say, against a real installation."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlfleet.client import ApiError, Client
from tests.docs.conftest import EXAMPLES, PATIENCE_S, Installation
from tests.processes import specified

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_async_submit(installation: Installation) -> None:
    assert installation.run(sys.executable, "submit_async.py").splitlines() == ["{'completed': 100}", "sum: 4950"]


def test_blocking_submit(installation: Installation) -> None:
    said = installation.run(sys.executable, "submit_blocking.py").splitlines()
    assert said == [
        "completed {'hello': 'world'}",
        "refused: 422 invalid_input priority",
        "same task: True",
        "executions: ['failed', 'completed']",
    ]


def test_schedule_daily(installation: Installation) -> None:
    said = installation.run(sys.executable, "schedule_daily.py").splitlines()
    assert said == [
        "active 5 runs to come",
        "by hand: completed {'hello': 'every night'}",
        "refused: 422 invalid_input cron",
        "paused: None",
    ]


def test_crawl_of_the_shop_finds_every_product_once(installation: Installation, shop: str) -> None:
    said = installation.run(sys.executable, "crawl_shop.py", shop)
    products = [json.loads(line) for line in said.splitlines()]
    assert {product["url"] for product in products} == {f"/products/{number}" for number in range(1, 61)}
    assert len(products) == 60
    assert all(product["title"] and product["price"].startswith("$") for product in products)


def test_products_of_a_page_has_the_documented_result(installation: Installation, shop: str) -> None:
    result = json.loads(installation.run(sys.executable, "products_of_a_page.py", f"{shop}/products"))
    documented = json.loads(specified.COMPLETED.partition("\n\n")[2])["result"]
    assert documented.keys() <= result.keys()
    assert documented["metrics"].keys() <= result["metrics"].keys()
    assert (result["success"], result["metrics"]["pages_crawled"]) == (True, 15)
    assert {tuple(product) for product in result["data"]["products"]} == {("title", "price", "url")}
    assert result["data"]["products"][0]["url"] == "/products/1"


def test_shard_urls_gives_one_list_in_the_order_of_the_urls(installation: Installation, shop: str) -> None:
    items = [json.loads(line) for line in installation.run(sys.executable, "shard_urls.py", shop).splitlines()]
    assert [item["_url"] for item in items] == [f"{shop}/products/{number}" for number in range(1, 41)]
    assert all(item["title"] and item["price"].startswith("$") for item in items)


def test_queue_client_needs_nothing_but_the_standard_library(installation: Installation, shop: str) -> None:
    given = {"CRAWLFLEET_URL": installation.url, "CRAWLFLEET_API_KEY": installation.token}
    # -I -S: without this project and every other package that is installed.
    printed = installation.run(sys.executable, "-I", "-S", "queue_client.py", shop, env=given).splitlines()
    assert printed[:-2] == [
        "success success 0 of 3 retries",
        "success 10 of 10",
        "refused: 422 needs url",
        "refused: 422 must be at most 10",
        "refused: 404 Task not found",
        "cancelled: cancelled",
        "cancelled: 99 of 100",
    ]
    assert printed[-2].startswith("waiting: ")
    assert printed[-1].endswith("success: True")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_crawl_with_curl(installation: Installation, shop: str) -> None:
    given = {"CRAWLFLEET_URL": installation.url, "CRAWLFLEET_TOKEN": installation.token}
    said = installation.run("bash", "crawl_with_curl.sh", f"{shop}/products", env=given)
    products = [json.loads(line) for line in said.splitlines()]
    assert [product["url"] for product in products] == [f"/products/{number}" for number in range(1, 21)]


@pytest.fixture(scope="module")
def client(installation: Installation) -> Iterator[Client]:
    """Once a node has brought the examples' task types along."""
    with Client(installation.url, installation.token) as caller:
        deadline = time.monotonic() + PATIENCE_S
        while "word_count" not in {known.name for known in caller.task_types()}:
            assert time.monotonic() < deadline, installation.log.read_text(encoding="utf-8")
            time.sleep(0.05)
        yield caller


def test_own_async_function(client: Client) -> None:
    task = client.submit("word_count", {"text": "to be or not"})
    (done,) = client.wait([task.id], timeout=PATIENCE_S)
    assert done.result is not None
    assert done.result.data == {"words": 4}
    assert list(client.results(task.id))[-1] == {"word": "not", "letters": 3}
    assert [line.message for line in client.log(task.id)] == ["counted 4 words"]


def test_own_plain_function(client: Client, shop: str) -> None:
    good = client.submit("page_title", {"url": f"{shop}/products/1"})
    missing = client.submit("page_title", {"url": f"{shop}/products/999999"})
    found, failed = client.wait([good.id, missing.id], timeout=PATIENCE_S)
    assert found.result is not None
    assert list(client.results(good.id)) == [{"url": f"{shop}/products/1", **found.result.data}]
    assert failed.status == "failed"
    assert failed.error is not None
    assert failed.error.is_permanent


def test_own_class(client: Client) -> None:
    task = client.submit("countdown", {"from": 3})
    (done,) = client.wait([task.id], timeout=PATIENCE_S)
    assert done.result is not None
    assert done.result.data == {"counted": 3}
    assert done.result.metrics["left"] == 0


def test_parameters_of_another_shape_are_refused(client: Client) -> None:
    with pytest.raises(ApiError) as refused:
        client.submit("word_count", {"text": 5})
    assert refused.value.field == "parameters.text"


def test_every_example_is_tested_and_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    files = {file.name for file in EXAMPLES.iterdir() if file.suffix in {".py", ".sh"}}
    assert {name for name in files if f"[{name}]" not in listed} == set()
    assert {name for name in files if name.partition(".")[0] not in _tested()} == set()


def _tested() -> str:
    here = EXAMPLES.parent / "tests" / "docs"
    return "".join(file.read_text(encoding="utf-8") for file in here.glob("*.py"))


def test_device_client_runs_a_task_and_leaves_in_order(installation: Installation, tmp_path: Path) -> None:
    with Client(installation.url, installation.token) as client:
        token = client.create_token("enrol", uses=1).token
        command = [
            sys.executable,
            "device_client.py",
            installation.url,
            "till-7",
            "--state",
            str(tmp_path / "key.json"),
        ]
        environment = installation.environment | {"ENROL_TOKEN": token}
        with subprocess.Popen(command, cwd=EXAMPLES, env=environment, stdout=subprocess.PIPE, text=True) as device:
            try:
                deadline = time.monotonic() + PATIENCE_S
                while not (found := [node for node in client.nodes() if node.device_id == "till-7"]):
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
                tasks = [client.submit("echo", {"n": number}, node_id=found[0].id) for number in range(3)]
                done = client.wait([task.id for task in tasks], timeout=PATIENCE_S)
            finally:
                device.send_signal(signal.SIGTERM)
                said, _ = device.communicate(timeout=PATIENCE_S)
        assert [(task.status, task.assigned_node) for task in done] == [("completed", found[0].id)] * 3
        assert device.returncode == 0
        assert sorted(line.split()[::2] for line in said.splitlines()) == sorted(
            [[word, "accepted"] for word in ("running", "completed") for _ in tasks]
        )
        assert client.node(found[0].id).status == "offline"
