"""The client and the command line against a real installation: a master, two agents, real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from crawlfleet.cli.app import app
from crawlfleet.client import ApiError, AsyncClient, Client, WaitTimeout
from crawlfleet.client._generated.models import RefusedView
from crawlfleet.client.nouns.wait import ONE_BY_ONE
from testkit.patience import PATIENCE_S

pytestmark = pytest.mark.integration

READY_S = STOP_S = PATIENCE_S
COMMAND = (sys.executable, "-m", "crawlfleet.cli")
NO_RETRY = {"max_retries": 0}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("installation")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CRAWLFLEET_")}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [*COMMAND, "standalone", "--data-dir", str(folder), "--port", "0", "--nodes", "2", "--slots", "4"],
            stdout=output,
            stderr=output,
            env=environment,
        )
    try:
        _wait_ready(process, folder)
        _wait_joined(folder, 2)
        yield folder
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def _wait_ready(process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        address = folder / "address"
        if address.is_file() and (url := address.read_text().strip()) and _is_ready(url):
            return
        time.sleep(0.05)
    raise AssertionError(f"no installation: {(folder / 'output').read_text()}")


def _wait_joined(folder: Path, count: int) -> None:
    with Client(data_dir=folder) as client:
        deadline = time.monotonic() + READY_S
        while [node.status for node in client.nodes()] != ["online"] * count:
            assert time.monotonic() < deadline, (folder / "output").read_text()
            time.sleep(0.05)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture
def client(data_dir: Path) -> Iterator[Client]:
    with Client(data_dir=data_dir) as client:
        yield client


def run(data_dir: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CRAWLFLEET_DATA_DIR": str(data_dir), "COLUMNS": "200"}
    return subprocess.run(
        [*COMMAND, *arguments], input=stdin, capture_output=True, text=True, timeout=60, env=environment, check=False
    )


def run_json(data_dir: Path, *arguments: str) -> Any:
    done = run(data_dir, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_token_file_is_for_its_owner_only(data_dir: Path) -> None:
    assert (data_dir / "admin.token").stat().st_mode & 0o777 == 0o600


def test_a_task_goes_through_and_gives_its_result(client: Client) -> None:
    accepted = client.submit("echo", {"hello": "世界"}, priority=7, project_id="round-trip", name="first")
    assert (accepted.status, accepted.priority) == ("pending", 7)
    told: list[tuple[int, int]] = []
    (task,) = client.wait([accepted.id], 30, lambda *at: told.append(at))
    assert task.status == "completed"
    assert task.result is not None and task.result.data == {"hello": "世界"}
    assert told == [(1, 1)]
    assert client.get(task.id).project_id == "round-trip"
    (execution,) = client.executions(task.id)
    assert (execution.status, execution.node_id) == ("completed", task.assigned_node)
    assert client.stats("round-trip").by_status["completed"] == 1
    assert [found.id for found in client.list(project_id="round-trip")] == [task.id]
    assert [found.id for found in client.list(q="first", limit=5)] == [task.id]


def test_waiting_for_many_tasks_tells_the_progress(client: Client) -> None:
    total = ONE_BY_ONE * 4
    tasks = [{"task_type": "echo", "parameters": {"n": number}, "project_id": "many"} for number in range(total)]
    ids = [task.id for task in client.submit_batch(tasks)]
    told: list[int] = []
    ended = client.wait(ids, 60, lambda done, _: told.append(done))
    assert [task.id for task in ended] == ids
    assert [task.result.data["n"] for task in ended if task.result is not None] == list(range(total))
    assert told == sorted(told) and told[-1] == total
    again = client.wait(ids, 60, with_results=False)
    assert {task.status for task in again} == {"completed"}


def test_an_atomic_batch_is_refused_as_a_whole_and_each_one_by_one(client: Client) -> None:
    tasks = [{"task_type": "echo"}, {"task_type": "no_such_type"}]
    with pytest.raises(ApiError) as caught:
        client.submit_batch(tasks, "atomic")
    assert caught.value.status == 422
    assert caught.value.field is not None and caught.value.field.startswith("tasks[1]")
    good, bad = client.submit_batch(tasks, "each")
    assert not isinstance(good, RefusedView)
    assert isinstance(bad, RefusedView) and bad.error.code == "unknown_type"


def test_the_same_key_makes_no_second_task(client: Client) -> None:
    first = client.submit("echo", {"a": 1}, idempotency_key="once", project_id="keys")
    again = client.submit("echo", {"a": 1}, idempotency_key="once", project_id="keys")
    assert first.id == again.id
    with pytest.raises(ApiError) as caught:
        client.submit("echo", {"a": 2}, idempotency_key="once", project_id="keys")
    assert caught.value.error_code == "idempotency_mismatch"


def test_a_failed_task_says_why_and_becomes_a_dead_letter(client: Client) -> None:
    accepted = client.submit("fail", {"times": 9, "class": "network"}, retry=NO_RETRY, project_id="failing")
    (task,) = client.wait([accepted.id], 30)
    assert task.status == "failed"
    assert task.error is not None and task.error.message
    (letter,) = client.dead_letters(project_id="failing")
    assert letter.task_id == task.id
    assert [group.count for group in client.dead_letter_groups(project_id="failing")] == [1]
    assert client.dead_letter(task.id).task.id == task.id
    assert client.replay(task.id).status in ("pending", "assigned")
    client.wait([task.id], 30)
    client.drop_dead_letter(task.id)
    with pytest.raises(ApiError) as caught:
        client.get(task.id)
    assert caught.value.status == 404


def test_a_running_task_is_cancelled(client: Client) -> None:
    task = client.submit("sleep", {"seconds": 60})
    with pytest.raises(WaitTimeout):
        client.wait([task.id], 1.0)
    client.cancel(task.id)
    (ended,) = client.wait([task.id], 30)
    assert ended.status == "cancelled"
    assert client.retry(task.id).status in ("pending", "assigned")
    assert client.cancel_many(ids=[task.id]).changed == 1


def test_a_task_that_no_node_can_run_says_why(client: Client) -> None:
    task = client.submit("echo", capabilities={"time_travel": 1})
    why = client.why(task.id)
    assert "time_travel" in why.sentence
    assert why.data["status"] == "pending"
    assert client.prioritize(task.id, 9).priority == 9
    client.cancel(task.id)


def test_projects_and_orders_are_set_and_shown(client: Client, data_dir: Path) -> None:
    done = client.put_project("tight", weight=2, max_running=0, max_waiting=1)
    assert (done.weight, done.quotas.running.limit, done.quotas.running.left) == (2, 0, 0)
    task = client.submit("echo", project_id="tight")
    assert client.why(task.id).sentence == "quota 'running' of project tight: 0 of 0 in use"
    listed = run(data_dir, "project", "list").stdout
    assert "tight" in listed
    assert "0 of 0" in listed
    assert "waiting" in run(data_dir, "quota", "tight").stdout
    assert json.loads(run(data_dir, "project", "show", "tight", "--json").stdout)["version"] == 1
    assert "version 2" in run(data_dir, "project", "set", "tight", "--max-running", "none", "--on-full", "wait").stdout
    (ended,) = client.wait([task.id])
    assert ended.status == "completed"
    run(data_dir, "project", "reset", "tight")
    assert "tight" not in {project.name for project in client.projects()}
    assert "news: lifo" in run(data_dir, "queue", "set", "news", "--order", "lifo").stdout
    assert client.set_order("news", "fifo").has_changed


def test_a_paused_queue_holds_its_tasks(client: Client) -> None:
    assert client.pause("slow").is_paused
    assert "slow" in {queue.name for queue in client.queues() if queue.is_paused}
    task = client.submit("echo", queue="slow", capabilities={"time_travel": 1})
    assert "paused" in client.why(task.id).sentence
    client.cancel(task.id)
    task = client.submit("echo", queue="slow")
    client.resume("slow")
    assert client.wait([task.id], 30)[0].status == "completed"


def test_nodes_are_drained_and_made_ready(client: Client) -> None:
    nodes = client.nodes()
    assert len(nodes) == 2
    node = nodes[0]
    assert client.drain(node.id, within_s=5).drain_by is not None
    assert client.ready(node.id).drain_by is None
    assert client.set_slots(node.id, 3).slots == 3
    assert client.set_slots(node.id, None).slots == 4
    assert client.node(node.id).name == node.name
    assert client.cluster().node_count == 2
    assert client.usage().slots.total == 8


def test_a_cluster_is_configured_at_run_time(client: Client) -> None:
    before = client.config()
    after = client.put_config({"strategy": "round_robin"}, expected_version=before.version)
    assert after.version == before.version + 1
    assert after.effective["strategy"] == "round_robin"
    with pytest.raises(ApiError) as caught:
        client.put_config({}, expected_version=before.version)
    assert caught.value.status == 409
    client.put_config({})
    assert [version.version for version in client.config_history()][:2] == [after.version + 1, after.version]


def test_tokens_are_made_rotated_and_revoked(client: Client, data_dir: Path) -> None:
    made = client.create_token("viewer", name="looker", expires_in="1h")
    assert len(made.token) == 64
    with Client(client.url, made.token) as viewer:
        assert viewer.stats().total >= 0
        with pytest.raises(ApiError) as caught:
            viewer.submit("echo")
        assert caught.value.status == 403
    rotated = client.rotate_token(made.id)
    assert rotated.token != made.token
    client.revoke_token(made.id)
    assert not next(token for token in client.tokens() if token.id == made.id).is_usable
    assert any(entry.action == "token.revoke" for entry in client.audit())


async def test_events_are_heard_as_they_happen(data_dir: Path) -> None:
    async with AsyncClient(data_dir=data_dir) as client:
        last = (await client.event_page(limit=1)).last
        task = await client.submit("echo")
        kinds = []
        async for event in client.events(kinds=["task."], task=task.id, after=last):
            kinds.append(event.kind)
            if event.kind == "task.completed":
                break
    assert kinds[0] == "task.submitted"
    assert "task.assigned" in kinds


def test_task_types_come_with_their_schemas(client: Client) -> None:
    found = {one.name: one for one in client.task_types()}
    assert {"echo", "sleep", "fail", "web_crawl"} <= set(found)
    assert found["echo"].nodes == 2


# The command line on top of it


def test_cli_submit_waits_and_prints_a_summary_or_the_result(data_dir: Path) -> None:
    done = run(data_dir, "task", "submit", "echo", "--params", '{"a": 1}', "--result", "--timeout", "30")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"a": 1})
    assert done.stderr.startswith("task-")
    done = run(data_dir, "task", "submit", "echo", "--params", '{"a": 1}', "--wait", "--timeout", "30")
    assert done.stdout.startswith(f"{done.stderr.split()[0]}  completed in ")


def test_cli_exit_codes(data_dir: Path) -> None:
    failing = ("task", "submit", "fail", "--params", '{"times": 9}', "--field", 'retry={"max_retries": 0}', "--wait")
    done = run(data_dir, *failing)
    assert done.returncode == 4
    assert "ended as failed" in done.stderr and "hint: crawlfleet task log" in done.stderr
    done = run(data_dir, "task", "show", "task-0000000000000001")
    assert (done.returncode, done.stdout) == (3, "")
    assert "error: no task task-0000000000000001" in done.stderr
    done = run(data_dir, "task", "submit", "no_such_type")
    assert done.returncode == 1
    assert "no task type 'no_such_type'" in done.stderr and "hint:" in done.stderr
    done = run(
        data_dir, "task", "submit", "sleep", "--params", '{"seconds": 30}', "--wait", "--timeout", "0.5", "--json"
    )
    assert done.returncode == 4
    assert "not final after 0.5 s" in done.stderr


def test_cli_batch_reads_lines_and_tells_refusals(data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"task_type": "echo", "parameters": {"n": 1}}\n\n{"task_type": "echo"}\n')
    done = run(data_dir, "task", "batch", str(file), "--wait")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 2
    done = run(data_dir, "task", "batch", "-", "--json", stdin='[{"task_type": "echo"}, {"task_type": "no"}]')
    assert done.returncode == 1
    assert "1 tasks were refused" in done.stderr
    good, bad = json.loads(done.stdout)["tasks"]
    assert good["status"] == "pending" and bad["error"]["code"] == "unknown_type"


def test_cli_lists_and_shows(data_dir: Path) -> None:
    task = run_json(data_dir, "submit-task", "--task-type", "echo", "--params", "{}", "--priority", "9")
    assert task["priority"] == 9
    assert run(data_dir, "task", "watch", task["id"]).returncode == 0
    shown = run_json(data_dir, "task", "show", task["id"])
    assert shown["id"] == task["id"] and len(shown["executions"]) == 1
    assert task["id"] in {one["id"] for one in run_json(data_dir, "task", "list", "--status", "completed")["tasks"]}
    assert task["id"] in run(data_dir, "task", "list").stdout
    assert "completed" in run(data_dir, "task", "why", task["id"]).stdout
    assert {one["name"] for one in run_json(data_dir, "node", "list")["nodes"]} == {"local-1", "local-2"}
    status = run_json(data_dir, "status")
    assert status["tasks"]["total"] > 0 and len(status["nodes"]) == 2
    assert [master["is_alive"] and master["is_leader"] for master in status["masters"]] == [True]
    assert "cluster default: active" in run(data_dir, "distribute", "--status", "--data-dir", str(data_dir)).stdout
    for command in ("log", "results"):
        assert run(data_dir, "task", command, task["id"]).returncode == 0


def test_cli_takes_the_name_of_a_node(data_dir: Path, client: Client) -> None:
    node = next(node for node in client.nodes() if node.name == "local-1")
    assert run_json(data_dir, "node", "show", "local-1")["id"] == node.id
    drained = run_json(data_dir, "node", "drain", "local-1", "--within", "5")
    assert (drained["id"], drained["drain_by"] is None) == (node.id, False)
    assert run_json(data_dir, "node", "slots", "local-1", "3")["slots"] == 3
    assert run_json(data_dir, "node", "slots", "local-1")["slots"] == 4
    ready = run(data_dir, "node", "ready", "local-1")
    assert (ready.returncode, ready.stdout.startswith(f"{node.id} (local-1)")) == (0, True)


@pytest.mark.parametrize("command", ["show", "drain", "ready", "slots", "remove"])
def test_cli_says_where_to_look_for_a_node_that_is_not_there(data_dir: Path, command: str) -> None:
    for said in ("local-9", "node-0123456789abcdef"):
        done = run(data_dir, "node", command, said)
        assert (done.returncode, done.stdout) == (3, "")
        assert f"error: no node has the id, device id or name '{said}'" in done.stderr
        assert "hint: crawlfleet node list" in done.stderr


def test_cli_does_not_guess_which_of_two_nodes_is_meant(data_dir: Path) -> None:
    first, second = joined(data_dir, "twin"), joined(data_dir, "twin")
    # A device id is one node's alone, and stands before the names.
    third = joined(data_dir, "third", device_id="twin-2")
    fourth = joined(data_dir, "twin-2")
    done = run(data_dir, "node", "remove", "twin")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: 2 nodes have the name 'twin'" in done.stderr
    assert first in done.stderr and second in done.stderr
    assert "hint: say which by its id; crawlfleet node list" in done.stderr
    assert run_json(data_dir, "node", "show", "twin-2")["id"] == third
    assert run_json(data_dir, "node", "remove", first) == {"removed": first}
    assert run_json(data_dir, "node", "remove", "twin") == {"removed": second}
    for node in (third, fourth):
        assert run(data_dir, "node", "remove", node).stdout == f"{node}: removed\n"


def joined(data_dir: Path, name: str, **fields: object) -> str:
    """The id of a node that has joined, and does nothing more."""
    url, token = ((data_dir / file).read_text().strip() for file in ("address", "admin.token"))
    request = urllib.request.Request(
        f"{url}/api/v1/nodes:register",
        json.dumps({"name": name, **fields}).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return str(json.load(answer)["node_id"])


def test_cli_changes_things(data_dir: Path) -> None:
    run(data_dir, "queue", "pause", "held")
    needs = 'capabilities={"time_travel": 1}'
    task = run_json(data_dir, "task", "submit", "echo", "--field", needs, "--project", "held")
    assert "paused" in run(data_dir, "queue", "list").stdout
    done = run(data_dir, "task", "cancel", "--project", "held")
    assert (done.returncode, done.stdout) == (0, "1 tasks cancelled\n")
    assert run(data_dir, "task", "cancel", task["id"]).returncode == 1
    assert run(data_dir, "queue", "resume", "held").returncode == 0
    assert run_json(data_dir, "config", "set", "max_retries=5")["values"] == {"max_retries": 5}
    assert run_json(data_dir, "config", "set", "--unset", "max_retries")["values"] == {}
    assert "max_retries" in run(data_dir, "config", "get").stdout


def test_schedules_with_the_client(client: Client) -> None:
    task = {"task_type": "echo", "parameters": {"n": 1}, "project_id": "scheduled"}
    schedule = client.create_schedule(task, cron="0 3 * * *", time_zone="Asia/Tokyo", name="nightly", overlap="allow")
    assert [one.id for one in client.schedules(project_id="scheduled", is_paused=False)] == [schedule.id]
    ran = client.run_schedule(schedule.id)
    (done,) = client.wait([ran.id], timeout=READY_S)
    assert done.status == "completed"
    assert client.change_schedule(schedule.id, every_s=3_600).cron is None
    assert client.pause_schedule(schedule.id).status == "paused"
    assert client.resume_schedule(schedule.id).next_run_at is not None
    (run_,) = client.schedule(schedule.id).last_runs or []
    assert (run_.task_id, run_.task_status, run_.status) == (ran.id, "completed", "by_hand")
    with pytest.raises(ApiError) as refused:
        client.create_schedule(task, cron="0 0 30 2 *")
    assert refused.value.field == "cron"
    client.remove_schedule(schedule.id)
    assert list(client.schedules(project_id="scheduled")) == []


def test_cli_schedules(data_dir: Path) -> None:
    when = ("--cron", "0 3 * * *", "--time-zone", "Asia/Tokyo")
    made = run(data_dir, "schedule", "add", "echo", *when, "--name", "nightly", "--project", "nightly")
    assert made.returncode == 0, made.stderr
    schedule = made.stdout.strip()
    assert "0 3 * * * Asia/Tokyo" in run(data_dir, "schedule", "list", "--project", "nightly").stdout
    task = run(data_dir, "schedule", "run", schedule, "--force").stdout.strip()
    assert task in run(data_dir, "schedule", "show", schedule).stdout
    assert run(data_dir, "schedule", "pause", schedule).stdout == f"{schedule}: paused\n"
    assert run(data_dir, "schedule", "resume", schedule).stdout.startswith(f"{schedule}: active, next run ")
    assert run_json(data_dir, "schedule", "remove", schedule) == {"removed": [schedule]}
    assert run(data_dir, "schedule", "show", schedule).returncode == 3


def test_cli_sets_and_shows_the_budget_of_a_host(data_dir: Path) -> None:
    done = run(data_dir, "host", "set", "Shop.example", "--rate", "20", "--delay", "0.5")
    assert done.returncode == 0, done.stderr
    assert "20/s (host)" in done.stdout and "8 (default)" in done.stdout and "0.5 s (host)" in done.stdout
    assert [host["name"] for host in run_json(data_dir, "host", "list", "--set")["hosts"]] == ["shop.example"]
    assert run_json(data_dir, "host", "show", "shop.example")["host"]["budget"]["rate"] == 20
    assert "no back-off" in run(data_dir, "host", "forgive", "shop.example").stdout
    assert run_json(data_dir, "host", "reset", "shop.example")["host"]["budget"]["rate_from"] == "default"
    assert run(data_dir, "host", "show", "unknown.example").returncode == 3
    assert run(data_dir, "host", "set", "shop.example").returncode == 2
    refused = run(data_dir, "host", "set", "shop.example", "--rate", "0")
    assert refused.returncode == 1 and "rate" in refused.stderr


def test_cli_token_create_prints_the_token(data_dir: Path) -> None:
    made = run_json(data_dir, "token", "create", "--role", "enrol", "--uses", "2", "--expires", "24h")
    assert len(made["token"]) == 64 and made["uses_left"] == 2
    assert run(data_dir, "token", "revoke", str(made["id"])).returncode == 0
    done = run(data_dir, "status", "--token", made["token"])
    assert done.returncode == 1
    assert made["token"] not in done.stderr


def test_groups_are_made_waited_for_and_retried(client: Client) -> None:
    fails = {"task_type": "fail", "parameters": {"message": "no"}, "retry": NO_RETRY}
    group = client.create_group([{"task_type": "echo", "parameters": {"n": 1}}, fails], name="two", project_id="g")
    seen: list[int] = []
    ended = client.wait_group(group.id, 60, lambda one: seen.append(one.progress.open))
    assert (ended.progress.completed, ended.progress.failed, seen[-1]) == (1, 1, 0)
    assert [failure.status for failure in ended.failures] == ["failed"]
    assert client.retry_group(group.id).by_status == {"pending": 1}
    client.submit("echo", {"n": 2}, group_id=group.id, project_id="g")
    assert client.close_group(group.id).is_closed
    ended = client.wait_group(group.id, 60)
    assert (ended.progress.total, ended.progress.completed) == (3, 2)
    outcomes = list(client.group_outcomes(group.id))
    assert [(one.status, one.result) for one in outcomes if one.status == "completed"] == [
        ("completed", {"n": 1}),
        ("completed", {"n": 2}),
    ]
    assert {task.id for task in client.list(group=group.id)} == {one.task_id for one in outcomes}
    with pytest.raises(ApiError) as refused:
        list(client.group_items(group.id))
    assert refused.value.error_code == "group_incomplete"
    assert list(client.group_items(group.id, partial=True)) == []
    assert [one.id for one in client.groups(project_id="g")] == [group.id]
    client.remove_group(group.id)
    with pytest.raises(ApiError) as gone:
        client.group(group.id)
    assert gone.value.status == 404


def test_a_group_that_takes_too_long_is_cancelled_as_one(client: Client) -> None:
    group = client.create_group([{"task_type": "sleep", "parameters": {"seconds": 300}}] * 3)
    with pytest.raises(WaitTimeout):
        client.wait_group(group.id, 0.3)
    assert client.cancel_group(group.id).changed == 3
    assert client.wait_group(group.id, 60).progress.cancelled == 3


def test_cli_groups(data_dir: Path, tmp_path: Path) -> None:
    """In this process: they are many, and each start of an interpreter takes its time."""

    def said(*arguments: str, code: int = 0, stdin: str = "") -> Result:
        result = CliRunner().invoke(app, ["group", *arguments, "--data-dir", str(data_dir)], input=stdin)
        assert result.exit_code == code, (arguments, result.output)
        return result

    items = tmp_path / "items.jsonl"
    (tmp_path / "values.txt").write_text("a\nb\n\nc\n")
    shard = ("shard", "echo", "--over", "values", "--values", str(tmp_path / "values.txt"))
    made = json.loads(said(*shard, "--size", "2", "--name", "letters", "--wait", "--json").stdout)
    assert (made["progress"]["completed"], made["shard"]["values"]) == (2, 3)
    assert made["id"] in said("list", "--json").stdout
    assert "letters" in said("show", made["id"]).stdout
    assert said("export", made["id"]).stdout == ""
    told = json.loads(said("export", made["id"], "--output", str(items), "--json").stdout)
    assert (told["bytes"], told["is_complete"], items.read_text()) == (0, True, "")
    tasks = json.dumps([{"task_type": "fail", "parameters": {"message": "no"}, "retry": NO_RETRY}])
    failed = said("add", "-", "--wait", stdin=tasks, code=4)
    assert "1 members" in failed.stderr and "hint: crawlfleet group retry" in failed.stderr
    group = failed.stdout.split()[0]
    assert "hint: --partial gives" in said("export", group, code=1).stderr
    assert said("retry", group).stdout == "1 tasks open again\n"
    said("watch", group, "--timeout", "60", code=4)
    assert said("cancel", group).stdout.startswith("0 tasks")
    said("remove", group)
    said("show", group, code=3)
    said(*shard, code=2)
    said("add", "-", code=2)
    said("export", group, "--json", code=2)


def test_cli_is_interrupted_with_130(data_dir: Path) -> None:
    task = run_json(data_dir, "task", "submit", "sleep", "--params", '{"seconds": 60}')
    environment = {**os.environ, "CRAWLFLEET_DATA_DIR": str(data_dir)}
    command = [*COMMAND, "task", "log", task["id"], "--follow"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    try:
        # It is interrupted in the middle of its work: its connection to the master is there.
        _wait_connected(process.pid)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 130
    assert b"Traceback" not in err
    run(data_dir, "task", "cancel", task["id"])


def _wait_connected(pid: int) -> None:
    import psutil

    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if any(one.status == psutil.CONN_ESTABLISHED for one in psutil.Process(pid).net_connections("tcp")):
            return
        time.sleep(0.05)
    raise AssertionError("it never called")
