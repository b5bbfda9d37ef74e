"""A crawl over real nodes is complete: every page of the site's own list once, and the same items, whoever is lost."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from crawlfleet.client.models import GroupView
from crawlfleet.testing.servers import S3Server
from tests.processes.crawl_proof import (
    HELD_URLS,
    WITHIN_S,
    Crawled,
    Proof,
    alone_processes,
    freeze,
    proving,
    restart_master,
    shared_processes,
)

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(4 * WITHIN_S)]


async def test_every_page_once_on_one_node_on_four_and_when_one_is_killed_and_one_frozen(tmp_path: Path) -> None:
    async with proving(tmp_path, workers=4) as proof:
        alone = await proof.finish("one node", await proof.begin(members=1))
        await proof.assert_whole(alone)
        await proof.assert_items(alone)
        four = await proof.finish("four nodes", await proof.begin(members=4))
        await proof.assert_whole(four)
        assert four.lines == alone.lines
        workers = {task.assigned_node async for task in proof.running.client.list(group=four.group.id)}
        assert len(workers) == 4
        await by_command(proof)
        lost = await with_two_lost(proof)
        await proof.assert_whole(lost, again=2 * HELD_URLS)
        assert lost.lines == alone.lines


async def by_command(proof: Proof) -> None:
    env = {"CRAWLFLEET_URL": proof.running.client.url, "CRAWLFLEET_TOKEN": proof.running.admin}
    argv = ("crawl", f"{proof.site.url}/", "--members", "2", "--depth", "2", "--max-pages", "7", "--wait")
    code, said = await proof.running.run("crawl", *argv, env=env)
    assert code == 0, said
    assert "7 pages, 7 items, 0 failed" in said


async def with_two_lost(proof: Proof) -> Crawled:
    running = proof.running
    group = await proof.begin(members=4)
    await proof.until_part(group, 0.5)
    killed, frozen, *_ = running.workers
    await killed.kill()
    freeze(frozen, signal.SIGSTOP)

    async def is_given_up() -> bool:
        online = {node.name for node in await running.client.nodes() if node.status == "online"}
        return online == {"worker-2", "worker-3"}

    await running.until(is_given_up, "the lost nodes are still believed in")
    # It wakes up while the others go on, and speaks of what is not its own any more.
    freeze(frozen, signal.SIGCONT)
    return await proof.finish("four nodes, one killed, one frozen", group)


async def test_a_master_killed_half_way_and_members_whose_processes_die(
    tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With results in a bucket."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    results = ("--results", s3_server.create_bucket("complete"))
    async with proving(tmp_path, *results, workers=2) as proof:
        whole = await proof.finish("two nodes, results on S3", await proof.begin(members=2))
        await proof.assert_whole(whole)
        group = await proof.begin(members=2)
        await proof.until_part(group, 0.4)
        await restart_master(proof.running, *results)
        restarted = await proof.finish("master killed and started again", group)
        await proof.assert_whole(restarted, again=2 * HELD_URLS)
        assert restarted.lines == whole.lines
        group = await proof.begin(members=2, delay_s=0.02)
        await proof.until_part(group, 0.05)
        # Held by the host's budget: there must be something left when it has died twice.
        await proof.running.client.put_config({"host_rate": 2, "host_concurrency": 64})
        await until_alone(proof, group)
        await proof.running.client.put_config({"host_rate": 10_000, "host_concurrency": 64})
        died = await proof.finish("a member in a process of its own", group)
        # Each death costs what the process had not reported.
        await proof.assert_whole(died, again=4 * HELD_URLS)
        assert died.lines == whole.lines
        members = [task.id async for task in proof.running.client.list(group=group.id)]
        ways = [[one.status for one in await proof.running.client.executions(task)] for task in members]
        assert sorted(ways) == [["completed"], ["lost", "lost", "completed"]]


async def until_alone(proof: Proof, group: GroupView) -> None:
    """Its processes are killed until a member of the first worker runs in one of its own."""
    worker, client = proof.running.workers[0], proof.running.client
    (node,) = [one.id for one in await client.nodes() if one.name == "worker-0"]
    killed: set[str] = set()

    async def is_alone() -> bool:
        crawl = (await client.group(group.id)).crawl
        assert crawl is not None and crawl.finished_at is None, "it was over before it ran alone"
        if alone_processes(worker):
            return True
        # Each execution once, and only when it runs: a process that is killed before takes nothing along.
        members = [task async for task in client.list(group=group.id)]
        for member in members:
            if member.status == "processing" and member.assigned_node == node:
                execution = (await client.executions(member.id))[-1].id
                if execution not in killed:
                    killed.add(execution)
                    for process in shared_processes(worker):
                        process.kill()
        return False

    await proof.running.until(is_alone, "it does not run alone")
