"""The queue calls with nothing but the standard library: submit, ask, cancel, many at once, statistics.

CRAWLFLEET_URL=http://127.0.0.1:8000 CRAWLFLEET_API_KEY=$(cat fleet/admin.token) python queue_client.py SHOP_URL
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from typing import Any

FINAL = ("success", "failed", "cancelled")


class QueueError(Exception):
    """A call that was refused: `status` is that of HTTP, the text says why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Queue:
    def __init__(self, url: str, api_key: str) -> None:
        self._url = url.rstrip("/")
        self._api_key = api_key

    def submit(self, task_type: str, params: dict[str, Any], priority: int | str = 5, **more: Any) -> str:
        """Submit a task, and return its id. The key makes it safe to repeat: a repeated call makes no second task."""
        body = {"type": task_type, "params": params, "priority": priority, **more}
        task_id: str = self._call("POST", "/api/tasks", body, key=str(uuid.uuid4()))["task_id"]
        return task_id

    def submit_many(self, tasks: list[dict[str, Any]]) -> list[str]:
        """Submit up to 10,000 tasks, all or none."""
        task_ids: list[str] = self._call("POST", "/api/tasks/batch", {"tasks": tasks}, key=str(uuid.uuid4()))[
            "task_ids"
        ]
        return task_ids

    def get(self, task_id: str) -> dict[str, Any]:
        return self._call("GET", f"/api/tasks/{task_id}")

    def cancel(self, task_id: str) -> str:
        status: str = self._call("POST", f"/api/tasks/{task_id}/cancel")["status"]
        return status

    def cancel_many(self, task_ids: list[str]) -> dict[str, Any]:
        return self._call("POST", "/api/tasks/batch/cancel", {"task_ids": task_ids})

    def sizes(self) -> dict[str, int]:
        return self._call("GET", "/api/stats")

    def task_stats(self, window: str = "1h") -> dict[str, Any]:
        return self._call("GET", f"/api/stats/tasks?window={window}")

    def wait(self, task_id: str, timeout_s: float = 60.0) -> dict[str, Any]:
        """Return the task when it has ended."""
        deadline = time.monotonic() + timeout_s
        while (task := self.get(task_id))["status"] not in FINAL:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{task_id} is still {task['status']}")
            time.sleep(0.1)
        return task

    def _call(self, method: str, path: str, body: object = None, *, key: str | None = None) -> Any:
        headers = {"X-API-Key": self._api_key, "Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(4):
            request = urllib.request.Request(self._url + path, data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    return json.load(response)
            except urllib.error.HTTPError as exc:
                detail = json.load(exc).get("detail", exc.reason)
                if exc.code not in (429, 503) or attempt == 3:
                    raise QueueError(exc.code, detail) from exc
            except OSError:
                # The master may be restarting; a repeated call under the same key does nothing twice.
                if attempt == 3:
                    raise
            time.sleep(2.0**attempt)
        raise AssertionError


def main(shop: str) -> None:
    queue = Queue(os.environ["CRAWLFLEET_URL"], os.environ["CRAWLFLEET_API_KEY"])

    task = queue.wait(queue.submit("single_product", {"url": f"{shop}/products/1"}, priority="high"))
    print(task["status"], task["result"]["status"], task["retry_count"], "of", task["max_retries"], "retries")

    urls = [f"{shop}/products/{number}" for number in range(1, 11)]
    batch = queue.wait(queue.submit("batch_products", {"urls": urls, "batch_size": 5}))
    print(batch["status"], batch["result"]["success"], "of", batch["result"]["total"])

    for wrong in ({"task_type": "single_product", "params": {}}, {"task_type": "echo", "params": {}, "priority": 11}):
        try:
            queue.submit(**wrong)
        except QueueError as exc:
            print("refused:", exc.status, exc)
    try:
        queue.get("no-such-task")
    except QueueError as exc:
        print("refused:", exc.status, exc)

    later = queue.submit_many([{"type": "echo", "params": {"n": n}, "run_at": time.time() + 3_600} for n in range(100)])
    print("cancelled:", queue.cancel(later[0]))
    print("cancelled:", len(queue.cancel_many(later)["cancelled"]), "of", len(later))

    print("waiting:", sum(queue.sizes().values()))
    stats = queue.task_stats()
    print("products started:", stats["started"]["single_product"], "success:", stats["completed"]["success"] > 0)


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"))
