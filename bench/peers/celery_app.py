"""A no-op task of Celery's, for its worker."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("bench", broker=os.environ["BENCH_REDIS"], backend=os.environ["BENCH_REDIS"])
app.conf.worker_prefetch_multiplier = 32
app.conf.result_expires = 3600


@app.task
def echo(payload: str) -> str:
    return payload
