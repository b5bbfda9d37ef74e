"""Results in a bucket: what is wrong is said at the start, what goes away later loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.servers import RedisServer, S3Server
from tests.processes.fleet import Fleet, echo, fleet
from tests.processes.masters import ManyMasters, many_masters

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ITEMS = 2_000


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server


def streaming(folder: Path, name: str = "progress") -> dict[str, object]:
    return {"task_type": "streams", "parameters": {"file": str(folder / name), "count": ITEMS}}


async def test_a_wrong_bucket_ends_the_start_with_the_setting_named(tmp_path: Path, s3: S3Server) -> None:
    started = ("master", "--data-dir", str(tmp_path / "master"), "--port", "0", "--results")
    code, said = await Fleet(tmp_path).run("master", *started, "s3://not-there/x")
    assert (code, "error: results: s3://not-there/x: there is no such bucket" in said) == (2, True), said
    address = s3.create_bucket("keys")
    s3.believe_keys(False)
    try:
        code, said = await Fleet(tmp_path).run("master", *started, address)
    finally:
        s3.believe_keys(True)
    assert (code, f"error: results: {address}: the credentials" in said) == (2, True), said
    assert "Traceback" not in said


async def test_a_bucket_that_freezes_delays_results_and_loses_none(tmp_path: Path, s3: S3Server) -> None:
    address = s3.create_bucket("freezes")
    async with fleet(tmp_path) as running:
        await running.start_master("--results", address)
        await running.start_worker("worker-0", "--executors", "tests.integration.execution.executors.user_executors")
        await running.until_online(1)
        s3.pause()
        try:
            (task,) = await running.submit([streaming(tmp_path)])
            await running.until(lambda: running.has_said("cannot write a chunk"), "the node is told nothing")
            await running.until(lambda: _is_degraded(running), "/readyz does not tell it")
            await running.until_status(await running.submit([echo(1)]), "completed")
            assert (await running.client.get(task)).status == "processing"
        finally:
            s3.resume()
        await running.until_status([task], "completed")
        assert [item["number"] async for item in running.client.results(task)] == list(range(ITEMS))
        assert await running.verdict() == []


async def _is_degraded(running: Fleet) -> bool:
    ready = await running.call("GET", "/readyz")
    assert ready.status == 200, ready.body
    return bool((ready.json["status"], ready.json["reasons"]) == ("degraded", ["cannot write a chunk of results"]))


@pytest.mark.postgres
async def test_what_one_master_took_another_gives(
    tmp_path: Path, postgres_dsn: str, redis_server: RedisServer, s3: S3Server
) -> None:
    address = f"{s3.create_bucket('masters')}/results"
    redis_server.flush()
    async with many_masters(tmp_path, postgres_dsn, redis_server.url) as running:
        await _start(running, address)
        tasks = await running.submit([streaming(tmp_path, f"progress-{n}") for n in range(4)])
        await running.until_status(tasks, "completed")
        for place in running.masters:
            for task in tasks:
                assert [item["number"] async for item in place.client.results(task)] == list(range(ITEMS))
        code, said = await running.run(
            "third",
            "master",
            "--data-dir",
            str(tmp_path / "third"),
            "--port",
            "0",
            "--store",
            postgres_dsn,
            "--broker",
            redis_server.url,
        )
        assert code == 2, said
        assert "error: results: " in said
        assert f"first used as {address}" in said
        assert "Traceback" not in said


async def _start(running: ManyMasters, address: str) -> None:
    running.results = address
    await running.start_all(workers=0)
    for number, place in enumerate(running.masters):
        await running.start_worker_at(
            place, f"w{number}", "--executors", "tests.integration.execution.executors.user_executors"
        )
    await running.until_online(len(running.masters))
