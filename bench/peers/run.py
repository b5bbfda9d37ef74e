"""Start a peer's two worker processes on a fresh Redis, put tasks in, wait until the last is done."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redis import Redis

from bench.raw import PAYLOAD
from testkit.servers import RedisServer

_START_S = 30.0
_POLL_S = 0.01

Enqueue = Callable[[int], None]
CountDone = Callable[[], int]


@contextmanager
def huey() -> Iterator[tuple[Enqueue, CountDone]]:
    with RedisServer() as server:
        os.environ["BENCH_REDIS"] = server.url
        from bench.peers import huey_app

        def enqueue(count: int) -> None:
            for _ in range(count):
                huey_app.echo(PAYLOAD.decode())

        def done() -> int:
            return int(Redis.from_url(server.url).hlen(huey_app.huey.storage.result_key))  # type: ignore[arg-type]

        argv = ["-m", "huey.bin.huey_consumer", "bench.peers.huey_app.huey", "-w", "2", "-k", "process", "-q"]
        with _workers(argv):
            yield enqueue, done


@contextmanager
def celery() -> Iterator[tuple[Enqueue, CountDone]]:
    with RedisServer() as server:
        os.environ["BENCH_REDIS"] = server.url
        from bench.peers import celery_app

        def enqueue(count: int) -> None:
            for _ in range(count):
                celery_app.echo.delay(PAYLOAD.decode())

        def done() -> int:
            return sum(1 for _ in Redis.from_url(server.url).scan_iter("celery-task-meta-*", count=10_000))

        argv = ["-m", "celery", "-A", "bench.peers.celery_app", "worker", "-c", "2", "--loglevel", "ERROR"]
        with _workers(argv):
            yield enqueue, done


def cycle_rate(enqueue: Enqueue, done: CountDone, count: int) -> float:
    """Tasks a second from the first enqueue to the last done."""
    before = done()
    began = time.perf_counter()
    enqueue(count)
    while done() - before < count:
        time.sleep(_POLL_S)
    return count / (time.perf_counter() - began)


def warm_up(enqueue: Enqueue, done: CountDone) -> None:
    deadline = time.monotonic() + _START_S
    enqueue(20)
    while done() < 20:
        if time.monotonic() > deadline:
            raise TimeoutError("the peer's workers did not start")
        time.sleep(_POLL_S)


@contextmanager
def _workers(argv: list[str]) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, *argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        os.killpg(process.pid, 15)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
