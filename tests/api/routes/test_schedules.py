"""Schedules over HTTP: made, shown, changed, paused, run by hand, fired by the loop; and every way to be wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from testkit.patience import promised
from tests.api.kit import Answer, Site, Worker

PATH = "/api/v1/schedules"
ECHO = {"task_type": "echo", "parameters": {"n": 1}}
NIGHTLY = {"task": ECHO, "cron": "0 3 * * *", "time_zone": "Europe/Berlin"}
NOBODY = "schedule-0123456789abcdef"
PAST, FUTURE = "2020-01-01T00:00:00Z", "2060-01-01T00:00:00Z"


async def made(site: Site, **fields: Any) -> Any:
    body = {"task": ECHO, **fields}
    if not {"at", "every_s", "cron"} & fields.keys():
        body["every_s"] = 3_600
    answer = await site.post(PATH, body, role="operator")
    assert answer.status == 201, answer.content
    return answer.json


async def shown(site: Site, schedule: Any) -> Any:
    answer = await site.get(f"{PATH}/{schedule['id']}", role="viewer")
    assert answer.status == 200, answer.content
    return answer.json


def soon(seconds: float = 1.2) -> str:
    """A time that has not come when the master reads it, on a busy machine either."""
    return (datetime.now(UTC) + timedelta(seconds=promised(seconds))).isoformat()


async def test_a_schedule_is_made_and_shown_with_its_next_runs(site: Site) -> None:
    answer = await site.post(PATH, NIGHTLY | {"name": "nightly", "jitter_s": 0}, role="operator")
    assert answer.status == 201
    body = answer.json
    assert answer.headers["Location"] == f"{PATH}/{body['id']}"
    assert body["id"].startswith("schedule-")
    assert (body["task"], body["cron"], body["time_zone"]) == (ECHO, "0 3 * * *", "Europe/Berlin")
    assert (body["catch_up"], body["overlap"], body["status"], body["is_paused"]) == ("one", "skip", "active", False)
    assert body["created_by"] == "the operator"
    assert len(body["next_runs"]) == 5
    assert body["next_runs"][0] == body["next_run_at"]
    hours = {datetime.fromisoformat(run).hour for run in body["next_runs"]}
    assert hours <= {1, 2}
    assert body["last_runs"] == []
    assert await shown(site, body) == body
    assert ("operator", "schedule.create", body["id"]) in await site.audited()


async def test_schedules_are_listed_by_page_and_filter(site: Site) -> None:
    task = {**ECHO, "project_id": "shop"}
    made_ones = [(await made(site, task=task, is_paused=paused))["id"] for paused in (True, False, False)]
    other = (await made(site))["id"]

    async def listed(query: str = "") -> list[str]:
        answer = await site.get(f"{PATH}{query}", role="viewer")
        assert answer.status == 200, answer.content
        return [one["id"] for one in answer.json["schedules"]]

    newest = [other, *reversed(made_ones)]
    assert await listed() == newest
    assert await listed("?project_id=shop") == newest[1:]
    assert await listed("?is_paused=true") == made_ones[:1]
    assert await listed("?task_type=web_crawl") == []
    page = (await site.get(f"{PATH}?limit=3")).json
    assert await listed(f"?limit=3&cursor={page['next_cursor']}") == newest[3:]


async def test_the_same_key_makes_one_schedule(site: Site) -> None:
    headers = {"Idempotency-Key": "k"}
    first = await site.post(PATH, NIGHTLY, headers=headers)
    again = await site.post(PATH, NIGHTLY, headers=headers)
    assert (again.status, again.json["id"]) == (201, first.json["id"])
    assert again.headers["Idempotency-Replayed"] == "true"
    other = await site.post(PATH, {**NIGHTLY, "name": "other"}, headers=headers)
    assert other.told == (422, "idempotency_mismatch", "Idempotency-Key")
    assert len((await site.get(PATH)).json["schedules"]) == 1


async def test_a_key_gives_its_schedule_again_though_its_time_has_passed(site: Site) -> None:
    headers, body = {"Idempotency-Key": "k"}, {"task": ECHO, "at": soon(1)}
    first = await site.post(PATH, body, headers=headers)
    assert first.status == 201

    async def has_fired() -> bool:
        return bool((await shown(site, first.json))["last_runs"])

    await site.until(has_fired)
    again = await site.post(PATH, body, headers=headers)
    assert (again.status, again.json["id"], again.json["status"]) == (201, first.json["id"], "ended")


BAD: list[tuple[dict[str, Any], str]] = [
    ({"task": None}, "task"),
    ({"task": []}, "task"),
    ({"task": {}}, "task.task_type"),
    ({"task": {**ECHO, "priority": 11}}, "task.priority"),
    ({"task": {**ECHO, "nonsense": 1}}, "task.nonsense"),
    ({"task": {**ECHO, "parameters": []}}, "task.parameters"),
    ({"task": {"task_type": "web_crawl", "parameters": {"url": "ftp://x"}}}, "task.parameters.url"),
    ({"task": {**ECHO, "run_at": FUTURE}}, "task.run_at"),
    ({"task": {**ECHO, "depends_on": ["task-0123456789abcdef"]}}, "task.depends_on"),
    ({"cron": None}, "cron"),
    ({"every_s": 5}, "cron"),
    ({"cron": None, "every_s": 0}, "every_s"),
    ({"cron": None, "every_s": 1.5}, "every_s"),
    ({"cron": None, "every_s": True}, "every_s"),
    ({"cron": None, "every_s": 10**12}, "every_s"),
    ({"cron": "0 0 30 2 *"}, "cron"),
    ({"cron": "61 * * * *"}, "cron"),
    ({"cron": "* * * *"}, "cron"),
    ({"cron": ""}, "cron"),
    ({"cron": "*" * 300}, "cron"),
    ({"cron": 5}, "cron"),
    ({"time_zone": "Mars/Olympus"}, "time_zone"),
    ({"time_zone": "../../../etc/passwd"}, "time_zone"),
    ({"time_zone": "Europe/Berlin\x00"}, "time_zone"),
    ({"time_zone": None}, "time_zone"),
    ({"cron": None, "every_s": 60}, "time_zone"),
    ({"cron": None, "time_zone": "UTC", "at": PAST}, "at"),
    ({"cron": None, "time_zone": "UTC", "at": "9999-12-31T23:59:59Z"}, "at"),
    ({"cron": None, "time_zone": "UTC", "at": "tomorrow"}, "at"),
    ({"cron": None, "time_zone": "UTC", "at": "2060-01-01T00:00:00"}, "at"),
    ({"cron": None, "time_zone": "UTC", "at": FUTURE, "starts_at": FUTURE}, "starts_at"),
    ({"ends_at": PAST}, "ends_at"),
    ({"starts_at": FUTURE, "ends_at": "2059-01-01T00:00:00Z"}, "cron"),
    ({"jitter_s": -1}, "jitter_s"),
    ({"jitter_s": 10**9}, "jitter_s"),
    ({"catch_up": "some"}, "catch_up"),
    ({"overlap": "never"}, "overlap"),
    ({"is_paused": 1}, "is_paused"),
    ({"name": "x" * 300}, "name"),
    ({"name": "a\x00b"}, "name"),
    ({"nonsense": 1}, "nonsense"),
]


async def test_what_is_wrong_is_named_and_nothing_is_made(site: Site) -> None:
    for fields, field in BAD:
        answer = await site.post(PATH, {**NIGHTLY, **fields})
        assert (answer.told[0], answer.told[2]) == (422, field), (fields, answer.content)
    assert (await site.get(PATH)).json["schedules"] == []


async def test_the_code_of_a_refused_template_is_that_of_submitting_it(site: Site) -> None:
    answer = await site.post(PATH, {**NIGHTLY, "task": {"task_type": "unheard_of"}})
    assert answer.told == (422, "unknown_type", "task.task_type")
    huge = {**ECHO, "parameters": {"text": "x" * (1 << 20)}}
    assert (await site.post(PATH, {**NIGHTLY, "task": huge})).told == (413, "too_large", "task")


UNREADABLE = [b"", b"{", b"[]", b"5", b'{"task": {"task_type": "\\ud800"}}', b"\xff"]


async def test_a_body_that_cannot_be_read_is_refused(site: Site) -> None:
    for data in UNREADABLE:
        for method, path in (("POST", PATH), ("PATCH", f"{PATH}/{NOBODY}")):
            answer = await site.send(method, path, data=data)
            assert answer.status in {400, 422}
            assert answer.told[2]


async def test_a_body_of_another_type_is_refused(site: Site) -> None:
    answer = await site.post(PATH, data=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.told == (415, "unsupported_media_type", "Content-Type")


async def test_what_is_not_there_is_not_found(site: Site) -> None:
    for path in (f"{PATH}/{NOBODY}", f"{PATH}/nonsense", f"{PATH}/task-0123456789abcdef"):
        assert (await site.get(path)).told[:2] == (404, "not_found")
        assert (await site.send("PATCH", path, {"name": "x"})).told[:2] == (404, "not_found")
        assert (await site.send("DELETE", path)).told[:2] == (404, "not_found")
        for verb in ("pause", "resume", "run"):
            assert (await site.post(f"{path}:{verb}")).told[:2] == (404, "not_found")


async def test_only_operators_change_schedules(site: Site) -> None:
    schedule = await made(site)
    path = f"{PATH}/{schedule['id']}"
    tries: list[Answer] = [
        await site.post(PATH, NIGHTLY, role="viewer"),
        await site.send("PATCH", path, {"name": "x"}, role="viewer"),
        await site.send("DELETE", path, role="viewer"),
    ]
    tries += [await site.post(f"{path}:{verb}", role="viewer") for verb in ("pause", "resume", "run")]
    assert {answer.status for answer in tries} == {403}
    assert (await site.get(path, role="enrol")).status == 403


async def test_a_change_keeps_what_it_does_not_name(site: Site) -> None:
    schedule = await made(site, cron="0 3 * * *", time_zone="Asia/Tokyo", name="nightly", overlap="queue")
    path = f"{PATH}/{schedule['id']}"
    answer = await site.send("PATCH", path, {"catch_up": "all", "name": None}, role="operator")
    assert answer.status == 200, answer.content
    kept = {name: answer.json[name] for name in ("cron", "time_zone", "overlap", "next_run_at", "task")}
    assert kept == {name: schedule[name] for name in kept}
    assert (answer.json["catch_up"], answer.json["name"]) == ("all", None)
    every = (await site.send("PATCH", path, {"every_s": 60})).json
    assert (every["every_s"], every["cron"], every["time_zone"]) == (60, None, "UTC")
    task = {"task_type": "echo", "project_id": "shop"}
    changed = (await site.send("PATCH", path, {"task": task})).json
    assert (changed["task"], changed["project_id"]) == (task, "shop")
    assert [entry for entry in await site.audited() if entry[1] == "schedule.change"]


BAD_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"at": PAST}, "at"),
    ({"cron": "0 0 31 2 *"}, "cron"),
    ({"time_zone": "Nowhere"}, "time_zone"),
    ({"at": FUTURE, "every_s": 5}, "every_s"),
    ({"ends_at": PAST}, "ends_at"),
    ({"task": {}}, "task.task_type"),
    ({"is_paused": True}, "is_paused"),
    ({"cron": None}, "cron"),
]


async def test_a_wrong_change_changes_nothing(site: Site) -> None:
    schedule = await made(site, cron="0 3 * * *")
    for fields, field in BAD_CHANGES:
        answer = await site.send("PATCH", f"{PATH}/{schedule['id']}", fields)
        assert (answer.told[0], answer.told[2]) == (422, field), (fields, answer.content)
    assert await shown(site, schedule) == schedule


async def test_pause_and_resume(site: Site) -> None:
    schedule = await made(site)
    path = f"{PATH}/{schedule['id']}"
    paused = (await site.post(f"{path}:pause", role="operator")).json
    assert (paused["status"], paused["next_run_at"]) == ("paused", None)
    assert (await shown(site, schedule))["next_runs"] == []
    assert (await site.post(f"{path}:pause")).status == 200
    resumed = (await site.post(f"{path}:resume", role="operator")).json
    assert (resumed["status"], resumed["next_run_at"]) == ("active", schedule["next_run_at"])


async def test_a_run_by_hand_respects_overlap_unless_forced(site: Site) -> None:
    schedule = await made(site, is_paused=True)
    path = f"{PATH}/{schedule['id']}:run"
    answer = await site.post(path, role="operator", headers={"Idempotency-Key": "k"})
    assert answer.status == 201, answer.content
    task = answer.json["id"]
    assert answer.headers["Location"] == f"/api/v1/tasks/{task}"
    assert (await site.task(task))["parameters"] == ECHO["parameters"]
    again = await site.post(path, role="operator", headers={"Idempotency-Key": "k"})
    assert (again.status, again.json, again.headers["Idempotency-Replayed"]) == (201, answer.json, "true")
    assert (await site.post(path)).told[:2] == (409, "not_ready")
    assert (await site.post(f"{path}?force=true")).status == 201
    assert (await site.post(f"{path}?force=perhaps")).told == (422, "invalid_input", "force")
    runs = (await shown(site, schedule))["last_runs"]
    assert [(run["status"], run["task_status"]) for run in runs] == [("by_hand", "pending")] * 2
    assert runs[1]["task_id"] == task


async def test_a_removed_schedule_is_gone_and_its_task_is_not(site: Site) -> None:
    schedule = await made(site)
    path = f"{PATH}/{schedule['id']}"
    task = (await site.post(f"{path}:run")).json["id"]
    assert (await site.send("DELETE", path, role="operator")).status == 204
    assert (await site.get(path)).status == 404
    assert (await site.task(task))["status"] == "pending"


async def test_a_time_that_comes_runs_the_task_and_tells_of_it(site: Site, worker: Worker) -> None:
    once = await made(site, at=soon(), task={**ECHO, "project_id": "shop"})
    often = await made(site, every_s=1, overlap="allow")

    async def has_run() -> bool:
        runs = [(await shown(site, one))["last_runs"] for one in (once, often)]
        return all(any(run["task_status"] == "completed" for run in of_one) for of_one in runs)

    await site.until(has_run)
    ended = await shown(site, once)
    assert (ended["status"], ended["next_run_at"], len(ended["last_runs"])) == ("ended", None, 1)
    (run,) = ended["last_runs"]
    assert run["run_at"] == once["next_run_at"]
    task = await site.task(run["task_id"])
    assert (task["project_id"], task["result"]["data"]) == ("shop", ECHO["parameters"])

    async def told() -> list[Any]:
        found = await site.get(f"/api/v1/events?format=json&kind=schedule.fired&task={run['task_id']}")
        return [event["data"] for event in found.json["events"]]

    async def is_told() -> bool:
        return bool(await told())

    await site.until(is_told)
    assert await told() == [{"schedule": once["id"], "run_at": run["run_at"], "task": run["task_id"]}]
