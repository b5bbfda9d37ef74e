"""Bad input to a running installation: each its 4xx with the field named, and nothing is changed by it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from testkit.patience import promised
from tests.processes.fleet import Fleet, echo, fleet, sleep

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

TASKS = "/api/v1/tasks"
JSON = {"Content-Type": "application/json"}
STRANGER = "task-0000000000000001"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    async with fleet(tmp_path_factory.mktemp("fleet")) as running:
        await running.start(workers=2)
        yield running
        assert await running.verdict() == []


def crawl(url: str) -> dict[str, Any]:
    return {"task_type": "web_crawl", "parameters": {"url": url}}


BODIES: dict[str, tuple[dict[str, Any], tuple[int, str, str]]] = {
    "unknown type": ({"json": {"task_type": "nonsense"}}, (422, "unknown_type", "task_type")),
    "parameters of another type": ({"json": sleep("a while")}, (422, "invalid_input", "parameters.seconds")),  # type: ignore[arg-type]
    "parameters in a list": ({"json": {**echo(1), "parameters": []}}, (422, "invalid_input", "parameters")),
    "a parameter too few": ({"json": {"task_type": "sleep", "parameters": {}}}, (422, "invalid_input", "parameters")),
    "priority 11": ({"json": {**echo(1), "priority": 11}}, (422, "invalid_input", "priority")),
    "no host": ({"json": crawl("http:///products")}, (422, "invalid_input", "parameters.url")),
    "a path alone": ({"json": crawl("/products")}, (422, "invalid_input", "parameters.url")),
    "a port alone": ({"json": crawl("https://:8080/")}, (422, "invalid_input", "parameters.url")),
    "10 MB": (
        {"data": b'{"task_type":"echo","parameters":{"a":"' + b"a" * (10 << 20) + b'"}}', "headers": JSON},
        (413, "too_large", "body"),
    ),
    "not UTF-8": (
        {"data": b'{"task_type":"echo","parameters":{"a":"\xff\xfe"}}', "headers": JSON},
        (400, "malformed", "parameters"),
    ),
    "not JSON": ({"data": b'{"task_type":', "headers": JSON}, (400, "malformed", "body")),
    "unknown dependency": (
        {"json": {**echo(1), "depends_on": [STRANGER]}},
        (422, "unknown_dependency", "depends_on[0]"),
    ),
    "unknown field": ({"json": {**echo(1), "prioritiy": 3}}, (422, "invalid_input", "prioritiy")),
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_task_that_is_wrong_is_refused_with_its_field(running: Fleet, name: str) -> None:
    sent, expected = BODIES[name]
    before = await running.client.stats()
    assert (await running.call("POST", TASKS, **sent)).problem == expected
    assert await running.client.stats() == before


async def test_a_body_without_an_end_is_cut_off(running: Fleet) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * (1 << 16)

    answer = await running.call("POST", TASKS, data=endless(), headers=JSON)
    assert answer.problem == (413, "too_large", "body")


async def test_a_viewer_sees_everything_and_changes_nothing(running: Fleet) -> None:
    viewer = (await running.client.create_token("viewer")).token
    (task,) = await running.submit([sleep(1)])

    async def changes() -> list[Any]:
        # Submits are written down a moment later.
        return [entry for entry in await running.client.audit() if entry.action != "task.submit"]

    before = await changes()
    for method, path, body in [
        ("POST", f"{TASKS}/{task}:cancel", None),
        ("POST", f"{TASKS}:cancel", {"ids": [task]}),
        ("PATCH", f"{TASKS}/{task}", {"priority": 1}),
        ("POST", TASKS, echo(1)),
        ("POST", "/api/v1/queues/default:pause", None),
        ("GET", "/api/v1/audit", None),
        ("GET", "/api/v1/tokens", None),
    ]:
        answer = await running.call(method, path, json=body, token=viewer)
        assert answer.problem == (403, "not_allowed", "Authorization"), path
    assert (await running.call("GET", f"{TASKS}/{task}", token=viewer)).status == 200
    await running.until_status([task], "completed")
    # Nothing was changed, and the first attempt of the minute is written down.
    refused, *others = await changes()
    assert (refused.action, refused.target) == ("role.refused", f"POST {TASKS}/{task}:cancel")
    assert others == before


async def test_an_enrolment_token_that_is_over_is_told_to_the_worker(running: Fleet) -> None:
    token = (await running.client.create_token("enrol", expires_in="1s")).token

    async def is_over() -> bool:
        # Until then it is somebody's, though nothing is theirs to see.
        return (await running.call("GET", "/api/v1/nodes", token=token)).status == 401

    await running.until(is_over, "the token is not over")
    nodes = await running.client.nodes()
    code, said = await running.run(
        "late",
        "worker",
        "--master",
        running.client.url,
        "--data-dir",
        str(running.folder / "late"),
        env={"CRAWLFLEET_ENROL_TOKEN": token},
    )
    assert code == 2
    assert "enrol_token: not accepted" in said
    assert "crawlfleet token create --role enrol" in said
    assert token not in said
    assert [node.id for node in await running.client.nodes()] == [node.id for node in nodes]


async def test_an_idle_installation_does_a_task_at_once(running: Fleet) -> None:
    await running.until_status(await running.submit([echo(1)]), "completed")
    began_at = time.monotonic()
    await running.until_status(await running.submit([echo(2)]), "completed")
    assert time.monotonic() - began_at < promised(2)


WRONG_SETTINGS = {
    "flag": (["master", "--port", "70000"], {}, None, ("port", "--port")),
    "environment": (["master"], {"CRAWLFLEET_MAX_WAITING": "many"}, None, ("max_waiting", "CRAWLFLEET_MAX_WAITING")),
    "file": (["master"], {}, "strategy = 'best'\n", ("strategy", "wrong.toml: strategy")),
    "section of a file": (
        ["worker", "--master", "http://127.0.0.1:9"],
        {},
        "[worker]\nslots = 0\n",
        ("slots", "wrong.toml: worker.slots"),
    ),
    "name": (["master"], {}, "max_waitin = 3\n", ("max_waitin", "wrong.toml: max_waitin")),
    "address of a master": (["worker", "--master", "nowhere"], {}, None, ("masters", "--master")),
    "store": (["master", "--store", "mysql://root@db"], {}, None, ("store", "--store")),
}


@pytest.mark.parametrize("name", WRONG_SETTINGS)
async def test_a_wrong_setting_stops_the_start_and_says_where_it_came_from(tmp_path: Path, name: str) -> None:
    argv, env, file, (setting, source) = WRONG_SETTINGS[name]
    if file is not None:
        (tmp_path / "wrong.toml").write_text(file)
        argv = [*argv, "--config", str(tmp_path / "wrong.toml")]
    code, said = await Fleet(tmp_path).run("wrong", *argv, "--data-dir", str(tmp_path / "data"), env=env)
    assert code == 2
    assert f"error: {setting}: " in said
    assert source in said
    assert not (tmp_path / "data").exists()
