"""The agent as a process of its own: joining, coming back, leaving, and what stays when it is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from crawlfleet.model.execution import End
from testkit.patience import PATIENCE_S, promised
from tests.integration.execution.agent.http_master import TOKEN, HttpMaster, shown
from tests.integration.execution.executors.executors_kit import assignment, is_alive, pid_in, until
from tests.paths import ROOT

pytestmark = pytest.mark.integration
_RUN = """
import json, sys
from pathlib import Path
import uvloop
from crawlfleet.bootstrap.worker import WorkerOptions, run_worker
from crawlfleet.observe.logs import configure_logs
configure_logs("info", "json")
options = json.loads(sys.argv[1])
for name in ("data_dir", "ca_file"):
    if name in options:
        options[name] = Path(options[name])
sys.exit(uvloop.run(run_worker(WorkerOptions(**options))))
"""


class Worker:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._said: list[bytes] = []

    @property
    def pid(self) -> int:
        return self.process.pid

    def family(self) -> list[int]:
        everybody = psutil.Process(self.pid).children(recursive=True)
        return [one.pid for one in everybody if one.status() != psutil.STATUS_ZOMBIE]

    def signal(self, number: signal.Signals) -> None:
        # Not by the process's own method: that may take its exit status from who waits for it.
        os.kill(self.pid, number)

    async def until_said(self, event: str, within_s: float = PATIENCE_S) -> None:
        assert self.process.stderr is not None
        async with asyncio.timeout(within_s):
            while not self._said or json.loads(self._said[-1])["event"] != event:
                self._said.append(await self.process.stderr.readline())

    async def ended(self, within_s: float = PATIENCE_S) -> tuple[int, list[dict[str, Any]]]:
        """Its exit code and its log lines."""
        _, said = await asyncio.wait_for(self.process.communicate(), within_s)
        assert self.process.returncode is not None
        return self.process.returncode, [json.loads(line) for line in (*self._said, *said.splitlines())]


@asynccontextmanager
async def working(master: HttpMaster | str, data_dir: Path, **options: Any) -> AsyncIterator[Worker]:
    url = master if isinstance(master, str) else master.url
    given = {"masters": [url], "data_dir": str(data_dir), "enrol_token": TOKEN, "slots": 8, **options}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _RUN, json.dumps(given), cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    worker = Worker(process)
    try:
        yield worker
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def online(master: HttpMaster) -> None:
    await until(lambda: master.syncs)


async def test_it_joins_works_and_leaves(tmp_path: Path) -> None:
    async with (
        HttpMaster().serving() as master,
        working(
            master,
            tmp_path / "node",
            region="eu",
            weight=2.0,
            resources={"cpu": 2.0, "memory_mb": 500.0},
            description="in the cellar",
            port=8081,
        ) as worker,
    ):
        await online(master)
        said = master.registrations[0]
        assert said["region"] == "eu"
        assert (said["description"], said["port"]) == ("in the cellar", 8081)
        assert (said["weight"], said["resources"].get("cpu"), said.get("machine_id")) == (2.0, 2.0, None)
        assert {"echo", "sleep", "fail"} <= set(said["task_types"])
        assert said["task_types"]["sleep"]["required"] == ["seconds"]
        assert said["resources"]["cpu"] >= 1
        assert said["resources"]["memory_mb"] > 100
        assert "interval_s" not in said, "it has an agent"
        given = [assignment("echo", {"number": number}) for number in range(100)]
        master.give(*given)
        await until(lambda: len(master.outcomes) == 100)
        assert set(master.ends().values()) == {End.COMPLETED}
        measured = (await until(lambda: master.syncs[-1])).measurement
        assert 0 < measured.memory < 1
        assert 0 < measured.disk < 1
        family = worker.family()
        assert family
        worker.signal(signal.SIGTERM)
        code, lines = await worker.ended()
        assert code == 0
        assert master.has_left.is_set()
        assert "agent_started" in [line["event"] for line in lines]
        assert not [pid for pid in family if is_alive(pid)]


async def test_it_comes_back_under_the_same_id(tmp_path: Path) -> None:
    data_dir = tmp_path / "node"
    async with HttpMaster().serving() as master:
        async with working(master, data_dir) as worker:
            await online(master)
            worker.signal(signal.SIGKILL)
            await worker.ended()
        file = data_dir / "node.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        before = shown(file.read_bytes())
        master.syncs.clear()
        # Known by now: it needs no token any more.
        async with working(master, data_dir, enrol_token=None) as worker:
            await online(master)
            assert master.syncs[0].node == 1
            assert len(master.registrations) == 1
            assert shown(file.read_bytes()) == before
            worker.signal(signal.SIGINT)
            assert (await worker.ended())[0] == 0


async def test_a_lost_answer_to_its_joining_is_no_second_node(tmp_path: Path) -> None:
    master = HttpMaster()
    master.lost_answers = 2
    async with master.serving(), working(master, tmp_path / "node"):
        await online(master)
        assert len(master.registrations) == 3
        assert len(master.nodes) == 1


async def test_killed_between_asking_and_hearing_it_is_still_the_same_node(tmp_path: Path) -> None:
    master = HttpMaster()
    master.lost_answers = 1_000
    data_dir = tmp_path / "node"
    async with master.serving():
        async with working(master, data_dir) as worker:
            await until(lambda: master.registrations)
            worker.signal(signal.SIGKILL)
            await worker.ended()
        master.lost_answers = 0
        async with working(master, data_dir):
            await online(master)
            assert len(master.nodes) == 1


async def test_it_says_what_is_new_about_it_and_stays_the_same_node(tmp_path: Path) -> None:
    async with HttpMaster().serving() as master:
        for region, token in (("eu", TOKEN), ("us", None)):
            async with working(master, tmp_path / "node", region=region, enrol_token=token) as worker:
                await online(master)
                worker.signal(signal.SIGTERM)
                await worker.ended()
            master.syncs.clear()
        assert [said["region"] for said in master.registrations] == ["eu", "us"]
        assert len(master.nodes) == 1


async def test_a_wrong_token_ends_it_with_what_to_do(tmp_path: Path) -> None:
    async with HttpMaster().serving() as master:
        async with working(master, tmp_path / "node", enrol_token="f" * 64) as worker:
            code, lines = await worker.ended()
        assert code == 2
        assert lines[-1]["event"] == "not_started"
        assert lines[-1]["error"].startswith("enrol_token: ")
        assert "crawlfleet token create --role enrol" in lines[-1]["error"]
        async with working(master, tmp_path / "other", enrol_token=None) as worker:
            code, lines = await worker.ended()
        assert (code, "enrol_token" in lines[-1]["error"]) == (2, True)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"masters": ["not an address"]}, "master"),
        ({"slots": 0}, "slots"),
        ({"executors": ["no_such_module"]}, "no_such_module"),
        ({"executors": ["json"]}, "no executor"),
        ({"ca_file": "/no/such/file"}, "ca_file"),
    ],
)
async def test_a_wrong_setting_ends_it_by_name(tmp_path: Path, options: dict[str, Any], named: str) -> None:
    async with working("http://127.0.0.1:9", tmp_path / "node", **options) as worker:
        code, lines = await worker.ended()
        assert code == 2
        assert named in lines[-1]["error"]


async def test_two_agents_do_not_share_a_directory(tmp_path: Path) -> None:
    async with HttpMaster().serving() as master, working(master, tmp_path / "node"):
        await online(master)
        async with working(master, tmp_path / "node") as second:
            code, lines = await second.ended()
        assert (code, "in use by another agent" in lines[-1]["error"]) == (2, True)


async def test_it_waits_for_its_master_and_says_so(tmp_path: Path) -> None:
    async with HttpMaster().serving() as gone:
        pass
    port = int(gone.url.rpartition(":")[2])
    async with working(gone.url, tmp_path / "node") as worker:
        await worker.until_said("master_away")
        async with HttpMaster().serving(port) as master:
            await online(master)
            worker.signal(signal.SIGTERM)
            code, lines = await worker.ended()
    assert code == 0
    assert "master_away" in [line["event"] for line in lines]


async def test_told_to_leave_before_it_has_joined_it_leaves(tmp_path: Path) -> None:
    async with working("http://127.0.0.1:9", tmp_path / "node") as worker:
        await until((tmp_path / "node" / "node.json").exists)
        worker.signal(signal.SIGTERM)
        assert (await worker.ended())[0] == 0


async def test_a_removed_node_ends(tmp_path: Path) -> None:
    async with HttpMaster().serving() as master:
        async with working(master, tmp_path / "node") as worker:
            await online(master)
            master.secrets.clear()
            master.nodes.clear()
            # It is rejected for half a minute before it believes that.
            code, lines = await worker.ended(90)
        assert code == 3
        assert "node.json" in next(line["hint"] for line in lines if line["event"] == "removed")


async def test_sigterm_lets_work_end_and_a_second_one_hands_it_back(tmp_path: Path) -> None:
    async with HttpMaster().serving() as master:
        async with working(master, tmp_path / "first") as worker:
            await online(master)
            short = assignment("sleep", {"seconds": 1.5})
            master.give(short)
            await until(lambda: any(up.started for up in master.syncs))
            worker.signal(signal.SIGTERM)
            assert (await worker.ended())[0] == 0
            assert master.ends() == {short.execution: End.COMPLETED}
        master.syncs.clear()
        async with working(master, tmp_path / "second") as worker:
            await online(master)
            long = assignment("sleep", {"seconds": 60})
            master.give(long)
            await until(lambda: any(up.started for up in master.syncs))
            worker.signal(signal.SIGTERM)
            await until(lambda: any(up.is_draining for up in master.syncs))
            worker.signal(signal.SIGTERM)
            assert (await worker.ended())[0] == 0
            assert master.ends()[long.execution] == End.RETURNED


USERS = ["tests.integration.execution.executors.user_executors"]


async def test_when_the_agent_is_killed_the_whole_family_of_its_executions_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "family"
    folder.mkdir()
    async with HttpMaster().serving() as master, working(master, tmp_path / "node", executors=USERS) as worker:
        await online(master)
        assert "family" in master.registrations[0]["task_types"]
        master.give(assignment("family", {"folder": str(folder), "then": "wait"}))
        await until(lambda: pid_in(folder / "self"))
        pids = [pid_in(folder / name) or 0 for name in ("child", "grandchild", "daemon", "self")]
        assert all(is_alive(pid) for pid in pids)
        # Some of its processes end by themselves: the one that looks at modules, for instance.
        everybody = [*worker.family(), *pids]
        worker.signal(signal.SIGKILL)
        await worker.ended()
        await until(lambda: not [pid for pid in everybody if is_alive(pid)])


async def test_a_recall_ends_the_whole_family(tmp_path: Path) -> None:
    folder = tmp_path / "family"
    folder.mkdir()
    async with HttpMaster().serving() as master, working(master, tmp_path / "node", executors=USERS):
        await online(master)
        given = assignment("family", {"folder": str(folder), "then": "wait"})
        master.give(given)
        await until(lambda: pid_in(folder / "self"))
        pids = [pid_in(folder / name) or 0 for name in ("child", "grandchild", "daemon", "self")]
        master.recall(given)
        await until(lambda: given.execution in master.outcomes)
        assert not [pid for pid in pids if is_alive(pid)], "told only when nothing of it runs any more"
        assert master.ends() == {given.execution: End.STOPPED}


async def test_poison_hurts_only_itself(tmp_path: Path) -> None:
    async with HttpMaster().serving() as master:
        options = {"executors": USERS, "memory_limit_mb": 200, "slots": 40}
        async with working(master, tmp_path / "node", **options):
            await online(master)
            guilty = [
                (assignment("dies", {"how": "SIGSEGV"}), End.DIED_ALONE),
                (assignment("eats_memory"), End.DIED_ALONE),
                (assignment("ignores_cancel", {"file": str(tmp_path / "a")}, timeout_s=2), End.TIMED_OUT),
                (assignment("holds_interpreter", {"file": str(tmp_path / "b")}, timeout_s=2), End.TIMED_OUT),
            ]
            poison = {one.execution: end for one, end in guilty}
            innocent = [assignment("sleep", {"seconds": 0.5}) for _ in range(30)]
            master.give(*[one for one, _ in guilty], *innocent)
            await until(lambda: len(master.outcomes) == len(guilty) + len(innocent))
            ends = master.ends()
            assert {execution: ends[execution] for execution in poison} == poison
            assert {ends[one.execution] for one in innocent} == {End.COMPLETED}
            assert len(master.opens) == 1, "the node never lost its session"
            await until(lambda: not master.syncs[-1].held)
            master.give(assignment("echo"))
            await until(lambda: len(master.outcomes) == len(guilty) + len(innocent) + 1)


@pytest.mark.slow
async def test_while_the_agent_stands_still_past_its_lease_its_executions_end(tmp_path: Path) -> None:
    folder = tmp_path / "family"
    folder.mkdir()
    async with HttpMaster().serving() as master, working(master, tmp_path / "node", executors=USERS) as worker:
        await online(master)
        given = assignment("family", {"folder": str(folder), "then": "wait"})
        master.give(given, assignment("sleep", {"seconds": 60}))
        await until(lambda: pid_in(folder / "self"))
        await until(lambda: sum(len(up.started) for up in master.syncs) >= 2)
        pids = [pid_in(folder / name) or 0 for name in ("child", "grandchild", "daemon", "self")]
        hosts = [pid for pid in worker.family() if "shared" in psutil.Process(pid).cmdline()]
        os.kill(worker.pid, signal.SIGSTOP)
        await until(lambda: not [pid for pid in [*pids, *hosts] if is_alive(pid)], promised(10))
        os.kill(worker.pid, signal.SIGCONT)
        await until(lambda: len(master.outcomes) == 2 or len(master.opens) > 1)
        echo = assignment("echo")
        master.give(echo)
        await until(lambda: master.ends().get(echo.execution) == End.COMPLETED)
