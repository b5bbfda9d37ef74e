"""A no-op task of Huey's, for its consumer."""

from __future__ import annotations

import os

from huey import RedisHuey

huey = RedisHuey("bench", url=os.environ["BENCH_REDIS"])


@huey.task()
def echo(payload: str) -> str:
    return payload
