"""An installation in a thread of its own, with a little of everything in it, for tests that call it from outside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.api.kit import Site, open_site, working
from tests.api.remote_node import ECHO, RemoteNode


@dataclass(frozen=True)
class FuzzedSite:
    url: str
    admin: str
    speaker: RemoteNode
    """A node whose secret nobody else uses; its session is open."""
    holder: str
    """The secret of the node that holds the execution."""
    held_task: str
    in_use: int
    """The id of the admin's token."""
    known: Mapping[str, Sequence[Any]]
    """What there is, by the names that paths give it."""


@contextmanager
def fuzzed_site(folder: Path) -> Iterator[FuzzedSite]:
    found: list[FuzzedSite] = []
    errors: list[BaseException] = []
    is_up, loops = threading.Event(), []

    async def serve() -> None:
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        async with open_site(folder) as site, working(site, name="holder") as worker:
            found.append(await _furnished(site, worker._secret))
            is_up.set()
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as exc:
            errors.append(exc)
        finally:
            is_up.set()

    thread = threading.Thread(target=run, name="fuzzed site")
    thread.start()
    try:
        is_up.wait()
        if errors:
            raise errors[0]
        yield found[0]
    finally:
        loop, stop = loops[0]
        if loop.is_running():
            loop.call_soon_threadsafe(stop.set)
        thread.join()
    if errors:
        raise errors[0]


async def _furnished(site: Site, holder: str) -> FuzzedSite:
    held = await site.submit(parameters={"hold": True}, project_id="shop")
    dead = await site.submit(parameters={"fail": "as told", "permanent": True}, project_id="shop")
    done = await site.submit(parameters={"n": 1}, name="done")
    await site.pause("paused")
    waits = await site.submit(queue="paused", depends_on=[held])
    await site.until_status(dead, "failed")
    await site.until_status(done, "completed")
    execution = (await site.until_status(held, "processing"))["execution_id"]
    for number, line in enumerate([b'{"n":1}', b'{"n":2}']):
        path = f"/api/v1/executions/{execution}/items/{number}?task={held}"
        assert (await site.send("PUT", path, data=line, token=holder)).status == 204
    await RemoteNode.join(site, name="spare", device_id="spare-1", task_types={"other": {}})
    speaker = await RemoteNode.online(site, name="speaker", task_types={"spoken": {}, **ECHO}, slots=1)
    pulls = (await site.post("/api/v1/nodes:register", {"name": "pulls", "interval_s": 5})).json["node_id"]
    await site.send("PUT", "/api/v1/clusters/default", {"description": "the first"})
    await site.send("PUT", "/api/v1/clusters/other", {"status": "maintenance", "project": "shop"})
    await site.send("PUT", "/api/v1/clusters/other/config", {"values": {}})
    await site.send("PUT", "/api/v1/hosts/shop.example", {"rate": 5})
    spare_token = (await site.post("/api/v1/tokens", {"role": "viewer", "name": "spare"})).json["id"]
    schedules = [
        (await site.post("/api/v1/schedules", {"task": {"task_type": "echo"}, **times})).json["id"]
        for times in ({"every_s": 1}, {"cron": "0 3 * * *", "time_zone": "Europe/Berlin", "overlap": "allow"})
    ]
    (in_use,) = [token.id for token in await site.master.tokens.list_tokens() if token.name == "the admin"]
    return FuzzedSite(
        site.url,
        site.tokens["admin"],
        speaker,
        holder,
        held,
        in_use,
        {
            "task_id": [done, dead, waits, held],
            "node_id": [speaker.text, pulls, "spare-1"],
            "device_id": [pulls, "spare-1"],
            "execution_id": [execution],
            "number": [0, 1, 2],
            "token_id": [spare_token],
            "schedule_id": schedules,
            "cluster": ["default", "other"],
            "name": ["default", "paused"],
            "host": ["shop.example", "other.example:8080"],
        },
    )
