"""The calls of the queue's own documentation, as they are printed there, against a real installation."""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.docs.conftest import PATIENCE_S, Installation

pytestmark = [pytest.mark.integration, pytest.mark.slow]

TASK_FIELDS = {
    "id",
    "type",
    "status",
    "priority",
    "params",
    "created_at",
    "updated_at",
    "started_at",
    "finished_at",
    "retry_count",
    "max_retries",
    "error_message",
    "result",
    "depends_on",
}
STATUSES = {"pending", "running", "success", "failed", "cancelled", "retrying"}


class Caller:
    """Sends what is printed, and returns the status and the body of the answer."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        headers = {"X-API-Key": self._installation.token, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._installation.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as exc:
            return exc.code, json.load(exc)

    def wait_for_end(self, task_id: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            status, task = self.call("GET", f"/api/tasks/{task_id}")
            assert (status, set(task)) == (200, TASK_FIELDS)
            assert task["status"] in STATUSES
            if task["status"] in ("success", "failed", "cancelled"):
                return dict(task)
            assert time.monotonic() < deadline, task
            time.sleep(0.05)


@pytest.fixture(scope="module")
def caller(installation: Installation) -> Caller:
    return Caller(installation)


def five_types(shop: str) -> dict[str, dict[str, Any]]:
    urls = [f"{shop}/products/{number}" for number in range(1, 13)]
    crawl = {"product_pages": ["/products/[0-9]+"], "max_pages": 30}
    return {
        "single_product": {"url": urls[0]},
        "batch_products": {"urls": urls, "batch_size": 10},
        "search_keywords": {"url": f"{shop}/products?q={{keyword}}", "keywords": ["kettle"]},
        "shop_crawl": {"url": f"{shop}/products", **crawl},
        "full_sync": {"url": f"{shop}/products", **crawl},
    }


@pytest.mark.parametrize(
    "task_type", ["single_product", "batch_products", "search_keywords", "shop_crawl", "full_sync"]
)
def test_every_task_type_is_taken_as_it_is_printed(caller: Caller, shop: str, task_type: str) -> None:
    before = time.time()
    status, answer = caller.call("POST", "/api/tasks", {"type": task_type, "params": five_types(shop)[task_type]})
    assert (status, set(answer), answer["status"]) == (200, {"task_id", "status"}, "submitted")
    task = caller.wait_for_end(answer["task_id"])
    assert (task["status"], task["error_message"]) == ("success", None)
    assert (task["type"], task["priority"], task["max_retries"], task["retry_count"]) == (task_type, 5, 3, 0)
    assert before - 1 < task["created_at"] <= task["started_at"] <= task["finished_at"] <= time.time() + 1
    assert isinstance(task["result"], dict)


def test_a_product_and_a_batch_give_what_their_handlers_return(caller: Caller, shop: str) -> None:
    params = five_types(shop)
    results = {}
    for task_type in ("single_product", "batch_products"):
        _, answer = caller.call("POST", "/api/tasks", {"type": task_type, "params": params[task_type], "priority": 7})
        task = caller.wait_for_end(answer["task_id"])
        assert task["priority"] == 7
        results[task_type] = task["result"]
    assert {"product_id", "url", "status"} <= set(results["single_product"])
    assert results["single_product"]["status"] == "success"
    batch = results["batch_products"]
    assert {"total", "success", "failed", "details"} <= set(batch)
    assert (batch["total"], batch["success"], batch["failed"]) == (12, 12, 0)


def test_a_task_that_is_not_there(caller: Caller) -> None:
    for task_id in ("0", "6fa459ea-ee8a-3ca4-894e-db77e160355e"):
        status, problem = caller.call("GET", f"/api/tasks/{task_id}")
        assert (status, problem["detail"]) == (404, "Task not found")


def test_the_statistics(caller: Caller, shop: str) -> None:
    _, answer = caller.call("POST", "/api/tasks", {"type": "single_product", "params": {"url": f"{shop}/products/1"}})
    caller.wait_for_end(answer["task_id"])
    status, sizes = caller.call("GET", "/api/stats")
    assert (status, set(sizes)) == (200, {f"{name}_queue_size" for name in ("high", "normal", "low", "retry")})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        status, stats = caller.call("GET", "/api/stats/tasks")
        assert status == 200
        if stats["started"].get("single_product") and stats["completed"]["success"]:
            break
        assert time.monotonic() < deadline, stats
        time.sleep(0.05)


def test_the_command_that_submits(installation: Installation, shop: str, caller: Caller) -> None:
    params = json.dumps({"url": f"{shop}/products/2"})
    command = ("submit-task", "--task-type", "single_product", "--params", params, "--priority", "5")
    printed = installation.run(sys.executable, "-m", "crawlfleet.cli", *command)
    task_id = next(word for word in printed.split() if word.startswith("task-"))
    assert caller.wait_for_end(task_id)["status"] == "success"
