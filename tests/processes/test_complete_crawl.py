"""A crawl over real nodes is complete: every page of the site's own list once, and the same items, whoever is lost."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from crawlfleet.client._generated.models import GroupView
from testkit.servers import S3Server
from tests.processes.crawl_proof import (
    HELD_URLS,
    WITHIN_S,
    Crawled,
    Proof,
    alone_processes,
    freeze,
    is_at,
    kill_until_lost,
    proving,
    restart_master,
)

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(4 * WITHIN_S)]


async def test_every_page_once_on_one_node_on_four_and_when_one_is_killed_and_one_frozen(tmp_path: Path) -> None:
    async with proving(tmp_path, workers=4) as proof:
        alone = await proof.finish("one node", await proof.begin(members=1))
        await proof.assert_whole(alone)
        await proof.assert_items(alone)
        group = await proof.begin_part(0.05, members=4)
        members = [task.id async for task in proof.running.client.list(group=group.id)]
        # One on each, before the crawl goes on: it could be over before the last of them is placed.
        await proof.running.until_status(members, "processing")
        await proof.site.release()
        four = await proof.finish("four nodes", group)
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
    group = await proof.begin_part(0.5, members=4)
    killed, frozen, *_ = running.workers
    await killed.kill()
    freeze(frozen, signal.SIGSTOP)

    async def is_given_up() -> bool:
        online = {node.name for node in await running.client.nodes() if node.status == "online"}
        return online == {"worker-2", "worker-3"}

    await running.until(is_given_up, "the lost nodes are still believed in")
    # It wakes up while the others go on, and speaks of what is not its own any more.
    freeze(frozen, signal.SIGCONT)
    await proof.site.release()
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
        group = await proof.begin_part(0.4, members=2)
        await restart_master(proof.running, *results)
        await proof.site.release()
        restarted = await proof.finish("master killed and started again", group)
        await proof.assert_whole(restarted, again=2 * HELD_URLS)
        assert restarted.lines == whole.lines
        group = await proof.begin_part(0.05, members=2)
        await until_alone(proof, group)
        await proof.site.release()
        died = await proof.finish("a member in a process of its own", group)
        # Each death costs what the process had not reported.
        await proof.assert_whole(died, again=4 * HELD_URLS)
        assert died.lines == whole.lines
        members = [task.id async for task in proof.running.client.list(group=group.id)]
        ways = [[one.status for one in await proof.running.client.executions(task)] for task in members]
        assert sorted(ways) == [["completed"], ["lost", "lost", "completed"]]


async def until_alone(proof: Proof, group: GroupView) -> None:
    """The processes of a worker that waits for pages are killed until its member was lost twice: from then on it runs
    in one of its own. No page is answered meanwhile."""
    running = proof.running
    worker = next(one for one in running.workers if is_at(proof.site, one))
    nodes = {node.name: node.id for node in await running.client.nodes()}
    (member,) = [
        task.id async for task in running.client.list(group=group.id) if task.assigned_node == nodes[worker.name]
    ]
    for losses in (1, 2):
        await kill_until_lost(running, worker, member, losses)
    await running.until(lambda: bool(alone_processes(worker)), "it does not run alone")
