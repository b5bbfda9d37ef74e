"""A hundred tasks with the async client: submitted at once, waited for, and counted.

CRAWLFLEET_DATA_DIR=./fleet python submit_async.py
"""

from __future__ import annotations

import asyncio
from collections import Counter

from crawlfleet.client import AsyncClient


async def main() -> None:
    # Without arguments: CRAWLFLEET_URL and CRAWLFLEET_TOKEN, or the data dir of an installation on this machine.
    async with AsyncClient() as client:
        tasks = [{"task_type": "echo", "parameters": {"number": n}, "project_id": "example"} for n in range(100)]
        accepted = await client.submit_batch(tasks)
        done = await client.wait([task.id for task in accepted], timeout=60)
        print(dict(Counter(task.status for task in done)))
        print("sum:", sum(task.result.data["number"] for task in done if task.result is not None))


if __name__ == "__main__":
    asyncio.run(main())
