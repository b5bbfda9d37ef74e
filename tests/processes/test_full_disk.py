"""A disk that is full, below the store and below the results, while everything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.disks import BlockedFolder, Disk, LimitedFile, small_disk
from tests.processes.fleet import Fleet, echo, fleet
from tests.processes.held_pages import ALLOW, held_site, held_tasks, lift_budgets

pytestmark = [pytest.mark.integration, pytest.mark.slow]


async def test_a_store_without_space_refuses_says_why_and_goes_on_with_space(tmp_path: Path) -> None:
    with small_disk(tmp_path / "master", "8m") as small:
        async with held_site() as site, fleet(tmp_path) as running:
            await running.start(*ALLOW, workers=1)
            await lift_budgets(running)
            disk: Disk = small or LimitedFile(running.master, running.data_dir / "crawlfleet.db-wal")
            await running.submit(held_tasks(site, range(1, 5)))
            await site.wait_held(4)
            disk.fill()
            taken = await _submit_until_refused(running)
            # Their pages come while nothing of them can be written down.
            await site.release()
            await running.until(lambda: _is_unready(running, is_known=small is not None), "it says that it is ready")
            assert (await running.call("GET", "/healthz")).status == 200
            assert (await running.client.stats()).total == taken + 4, "reading goes on"
            for path, body in _CHANGES:
                assert (await running.call("POST", path, json=body)).problem == (503, "store_unavailable", None)
            disk.empty()
            await running.until(lambda: _is_ready(running), "it is not ready again")
            await running.submit([echo(n) for n in range(50)])
            stats = await running.until_final(taken + 54)
            assert stats["completed"] == (await running.client.stats()).total == taken + 54
            (node,) = await running.client.nodes()
            assert node.status == "online"
            assert await running.verdict() == []


_CHANGES = [
    ("/api/v1/tasks", echo(0)),
    ("/api/v1/tasks:batch", {"tasks": [echo(n) for n in range(100)], "mode": "atomic"}),
    ("/api/v1/tokens", {"role": "viewer", "name": "nobody"}),
    ("/api/v1/queues/default:pause", None),
]


async def _submit_until_refused(running: Fleet) -> int:
    """What is answered with 2xx is kept; the rest is refused with the right words. How many were taken."""
    taken: list[str] = []
    for number in range(10_000):
        answer = await running.call("POST", "/api/v1/tasks", json=echo(number))
        if answer.status != 201:
            assert answer.problem == (503, "store_unavailable", None)
            assert int(answer.headers["Retry-After"]) > 0
            running.note(taken)
            return len(taken)
        taken.append(answer.json["id"])
    raise AssertionError("the disk is never full")


async def _is_unready(running: Fleet, *, is_known: bool) -> bool:
    answer = await running.call("GET", "/readyz")
    if answer.status == 200:
        return False
    assert answer.json["reasons"] == ["the disk of the store is full" if is_known else "the store does not answer"]
    return True


async def _is_ready(running: Fleet) -> bool:
    return (await running.call("GET", "/readyz")).status == 200


async def test_results_without_space_wait_and_are_whole_with_space(tmp_path: Path) -> None:
    results = tmp_path / "master" / "results"
    with small_disk(results, "2m") as small:
        async with fleet(tmp_path) as running:
            await running.start("--executors", "tests.integration.execution.executors.user_executors", workers=1)
            disk: Disk = small or BlockedFolder(results)
            disk.fill()
            (streaming,) = await running.submit(
                [{"task_type": "streams", "parameters": {"file": str(tmp_path / "progress"), "count": 1_000}}]
            )
            await running.until(lambda: "cannot write a chunk" in _log_of(running, "worker-0"), "the node says nothing")
            # Work that leaves nothing behind is not held up by work that does.
            await running.until_status(await running.submit([echo(1)]), "completed")
            assert (await running.client.get(streaming)).status == "processing"
            (node,) = await running.client.nodes()
            assert node.status == "online"
            disk.empty()
            await running.until_status([streaming], "completed")
            assert [item["number"] async for item in running.client.results(streaming)] == list(range(1_000))
            assert await running.verdict() == []


def _log_of(running: Fleet, name: str) -> str:
    return "".join(worker.log.read_text() for worker in running.workers if worker.name == name)


async def test_a_master_does_not_start_without_space_and_says_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "master", "1m") as small:
        if small is None:
            pytest.skip("this machine lets nobody mount a small disk, and a limit would hit the log as well")
        small.fill()
        code, said = await Fleet(tmp_path).run(
            "master", "master", "--data-dir", str(tmp_path / "master"), "--port", "0"
        )
        assert code == 2
        assert "error: store: " in said
        assert "No space left" in said
        assert "Traceback" not in said
