"""One task with the blocking client, a refused one, and one that needs a retry.

CRAWLFLEET_DATA_DIR=./fleet python submit_blocking.py
"""

from __future__ import annotations

from crawlfleet.client import ApiError, Client


def main() -> None:
    with Client() as client:
        task = client.submit("echo", {"hello": "world"}, priority=8, timeout_s=30)
        (done,) = client.wait([task.id], timeout=60)
        print(done.status, done.result.data if done.result is not None else done.error)

        try:
            client.submit("echo", {}, priority=11)
        except ApiError as exc:
            print("refused:", exc.status, exc.error_code, exc.field)

        # It fails the first time and is tried again by itself; the second submit under the same key is the same task.
        fields = {"retry": {"max_retries": 1, "base_delay_s": 0.1}, "project_id": "example"}
        first = client.submit("fail", {"times": 1}, idempotency_key="once-only", **fields)
        again = client.submit("fail", {"times": 1}, idempotency_key="once-only", **fields)
        client.wait([first.id], timeout=60)
        print("same task:", first.id == again.id)
        print("executions:", [execution.status for execution in client.executions(first.id)])


if __name__ == "__main__":
    main()
