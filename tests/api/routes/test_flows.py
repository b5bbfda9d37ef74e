"""Flows over HTTP: a graph in one call, what is refused of it, and the whole of it changed at once."""

from typing import Any

import pytest

from crawlfleet.model import limits
from tests.api.kit import Site, Worker

FLOWS = "/api/v1/flows"
NOBODY = "group-0000000000000001"
ECHO = {"task": {"task_type": "echo"}}


def echo(parameters: dict[str, Any] | None = None, **step: Any) -> dict[str, Any]:
    return {"task": {"task_type": "echo", "parameters": parameters or {}}, **step}


async def submitted(site: Site, steps: dict[str, Any], **fields: Any) -> Any:
    answer = await site.post(FLOWS, {"steps": steps, **fields}, role="operator")
    assert answer.status == 201, answer.content
    return answer.json


async def until_ended(site: Site, flow: str) -> Any:
    async def has_ended() -> bool:
        return bool((await site.get(f"{FLOWS}/{flow}")).json["status"] != "running")

    await site.until(has_ended)
    return (await site.get(f"{FLOWS}/{flow}")).json


def by_key(flow: Any) -> dict[str, Any]:
    return {step["key"]: step for step in flow["steps"]}


async def test_a_flow_is_stored_whole_and_shown_as_a_graph(site: Site) -> None:
    steps = {"last": echo(after={"first": "always"}), "first": ECHO}
    answer = await site.post(FLOWS, {"name": "shop", "project_id": "p", "steps": steps}, role="operator")
    assert answer.status == 201
    flow = answer.json
    assert answer.headers["Location"] == f"{FLOWS}/{flow['id']}"
    assert (flow["name"], flow["project_id"], flow["status"], flow["finished_at"]) == ("shop", "p", "running", None)
    assert flow["progress"] == {"total": 2, "open": 2, "completed": 0, "failed": 0, "timeout": 0, "cancelled": 0}
    assert [(step["key"], step["status"], step["after"], step["waits"]) for step in flow["steps"]] == [
        ("first", "pending", {}, 0),
        ("last", "waiting", {"first": "always"}, 1),
    ]
    task = await site.task(by_key(flow)["last"]["task_id"])
    assert (task["name"], task["project_id"]) == ("last", "p")
    assert (await site.get(f"{FLOWS}/{flow['id']}", role="viewer")).json == flow


async def test_a_flow_runs_with_a_condition_a_fan_out_and_references(site: Site, worker: Worker) -> None:
    flow = await submitted(
        site,
        {
            "list": echo({"urls": ["a", "b", "c"], "n": 3}),
            "each": echo(
                {"url": {"$from": "item"}, "of": {"$from": "steps.list.result.n"}},
                after=["list"],
                for_each="steps.list.result.urls",
            ),
            "many": echo(
                {"got": {"$from": "steps.each.results[*].url"}}, after=["each"], when="length(steps.each.results) > `2`"
            ),
            "few": echo(after=["each"], when="length(steps.each.results) <= `2`"),
            "end": echo(after={"many": "always", "few": "always"}),
        },
    )
    ended = await until_ended(site, flow["id"])
    assert ended["status"] == "completed"
    steps = by_key(ended)
    assert {key: step["status"] for key, step in steps.items()} == {
        "list": "completed",
        "each": "completed",
        "many": "completed",
        "few": "cancelled",
        "end": "completed",
    }
    assert (steps["few"]["is_skipped"], steps["many"]["is_skipped"]) == (True, False)
    assert steps["each"]["items"] == {"total": 3, "by_status": {"completed": 3}}
    assert (await site.task(steps["many"]["task_id"]))["result"]["data"] == {"got": ["a", "b", "c"]}
    gathered = await site.task(steps["each"]["task_id"])
    assert gathered["result"]["success"] is True
    assert gathered["result"]["data"]["results"][1] == {"url": "b", "of": 3}

    async def is_finished() -> bool:
        return (await site.get(f"{FLOWS}/{flow['id']}")).json["finished_at"] is not None

    await site.until(is_finished)
    why = (await site.get(f"/api/v1/tasks/{steps['few']['task_id']}/why")).json
    assert (why["cause"], why["step"]) == ("skipped", "few")
    assert why["sentence"].startswith("was skipped: condition of step few not met")


async def test_why_names_the_steps_it_waits_for(site: Site) -> None:
    flow = await submitted(site, {"a": echo(), "b": echo(), "c": echo(after={"a": "success", "b": "failure"})})
    why = (await site.get(f"/api/v1/tasks/{by_key(flow)['c']['task_id']}/why")).json
    assert why["sentence"] == "waits for 2 steps to end: a (pending, on success), b (pending, on failure)"
    assert (why["cause"], why["flow"], why["steps"]["b"]) == (
        "steps",
        flow["id"],
        {"on": "failure", "status": "pending"},
    )
    fanned = await submitted(site, {"a": echo(for_each=[1, 2, 3])})
    why = (await site.get(f"/api/v1/tasks/{by_key(fanned)['a']['task_id']}/why")).json
    assert why["sentence"] == "waits for 3 of its 3 items to end"


BAD: list[tuple[Any, str | None]] = [
    ({}, "steps"),
    ({"steps": {}}, "steps"),
    ({"steps": {"a": ECHO}, "extra": 1}, "extra"),
    ({"steps": {"a": {}}}, "steps.a.task"),
    ({"steps": {"a": {**ECHO, "extra": 1}}}, "steps.a.extra"),
    ({"steps": {"a b": ECHO}}, "steps"),
    ({"steps": {"a": {"task": {"task_type": "nobody"}}}}, "steps.a.task.task_type"),
    ({"steps": {"a": {"task": {"task_type": "echo", "extra": 1}}}}, "steps.a.task.extra"),
    ({"steps": {"a": {"task": {"task_type": "echo", "depends_on": ["x"]}}}}, "steps.a.task.depends_on"),
    ({"steps": {"a": {"task": {"task_type": "echo", "group_id": "x"}}}}, "steps.a.task.group_id"),
    ({"steps": {"a": {"task": {"task_type": "echo", "project_id": "x"}}}}, "steps.a.task.project_id"),
    (
        {"steps": {"a": {"task": {"task_type": "web_crawl", "parameters": {"depth": "x"}}}}},
        "steps.a.task.parameters.depth",
    ),
    ({"steps": {"a": {**ECHO, "after": ["a"]}}}, "steps.a.after.a"),
    ({"steps": {"a": {**ECHO, "after": ["x"]}}}, "steps.a.after.x"),
    ({"steps": {"a": {**ECHO, "after": ["b"]}, "b": {**ECHO, "after": ["a"]}}}, "steps.a.after"),
    ({"steps": {"a": {**ECHO, "when": "steps.b["}}}, "steps.a.when"),
    ({"steps": {"a": {**ECHO, "when": "__import__('os')"}}}, "steps.a.when"),
    ({"steps": {"a": {**ECHO, "when": "steps.b.result"}}}, "steps.a.when"),
    ({"steps": {"a": {**ECHO, "for_each": "item"}}}, "steps.a.for_each"),
    ({"steps": {"a": {**ECHO, "for_each": ["\x00"]}}}, "steps.a.for_each[0]"),
    ({"steps": {"a": {**ECHO, "for_each": [2**70]}}}, "steps.a.for_each[0]"),
    ({"steps": {"a": {**ECHO, "max_items": limits.FAN_OUT_MAX + 1}}}, "steps.a.max_items"),
    ({"steps": {f"s{n}": {**ECHO, "for_each": [], "max_items": 10_000} for n in range(11)}}, "steps"),
    ({"steps": {f"s{n}": ECHO for n in range(limits.FLOW_STEPS + 1)}}, "steps"),
    ({"steps": {"a": echo({"x": {"$from": "steps.a.result"}})}}, "steps.a.task.parameters.x"),
    ({"steps": {"a": echo({"x": {"$from": 5}})}}, "steps.a.task.parameters.x"),
]


@pytest.mark.parametrize(("body", "field"), BAD)
async def test_what_is_wrong_is_named_and_nothing_is_stored(site: Site, body: Any, field: str | None) -> None:
    answer = await site.post(FLOWS, body, role="operator")
    assert answer.told == (422, "invalid_input", field)
    assert (await site.get(FLOWS)).json == {"flows": [], "next_cursor": None}
    assert (await site.get("/api/v1/tasks")).json["tasks"] == []


@pytest.mark.parametrize("on", ["later", "", 1, None])
async def test_an_edge_of_another_kind_is_refused(site: Site, on: Any) -> None:
    answer = await site.post(FLOWS, {"steps": {"a": ECHO, "b": {**ECHO, "after": {"a": on}}}})
    assert answer.status == 422
    assert str(answer.told[2]).startswith("steps.b.after")


async def test_what_can_be_told_of_a_template_is_told_at_once(site: Site) -> None:
    def crawl(**parameters: Any) -> dict[str, Any]:
        return {"task": {"task_type": "web_crawl", "parameters": parameters}, "after": ["a"]}

    reference = {"$from": "steps.a.result.x"}
    answer = await site.post(FLOWS, {"steps": {"a": ECHO, "b": crawl(url=reference, depth="deep")}})
    assert answer.told == (422, "invalid_input", "steps.b.task.parameters.depth")
    await submitted(site, {"a": ECHO, "b": crawl(url=reference, depth=reference)})


async def test_a_key_makes_no_second_flow(site: Site) -> None:
    key = {"Idempotency-Key": "once"}
    first = await site.post(FLOWS, {"steps": {"a": ECHO}}, headers=key)
    again = await site.post(FLOWS, {"steps": {"a": ECHO}}, headers=key)
    assert (again.status, again.json["id"]) == (201, first.json["id"])
    assert again.headers["Idempotency-Replayed"] == "true"
    other = await site.post(FLOWS, {"steps": {"b": ECHO}}, headers=key)
    assert other.told == (422, "idempotency_mismatch", "Idempotency-Key")
    assert len((await site.get(FLOWS)).json["flows"]) == 1


async def test_flows_are_listed_newest_first_in_pages_and_by_project(site: Site) -> None:
    flows = [(await submitted(site, {"a": ECHO}, project_id=project))["id"] for project in ("x", "y", "x")]
    page = (await site.get(f"{FLOWS}?limit=2")).json
    assert [flow["id"] for flow in page["flows"]] == [flows[2], flows[1]]
    rest = (await site.get(f"{FLOWS}?limit=2&cursor={page['next_cursor']}")).json
    assert ([flow["id"] for flow in rest["flows"]], rest["next_cursor"]) == ([flows[0]], None)
    assert [flow["id"] for flow in (await site.get(f"{FLOWS}?project_id=y")).json["flows"]] == [flows[1]]
    assert (await site.get(f"{FLOWS}?cursor=nonsense")).told == (422, "invalid_input", "cursor")


async def test_a_flow_is_cancelled_and_resumed_as_a_whole(site: Site, worker: Worker) -> None:
    flow = await submitted(
        site,
        {
            "run": echo({"hold": True}),
            "each": echo({"hold": True}, for_each=[1, 2]),
            "clean": echo(after={"run": "always"}),
            "next": echo(after=["each"]),
        },
    )
    await site.until_status(by_key(flow)["run"]["task_id"], "processing")
    answer = await site.post(f"{FLOWS}/{flow['id']}:cancel", role="operator")
    assert (answer.status, answer.json["changed"]) == (200, 6)
    ended = await until_ended(site, flow["id"])
    assert ended["status"] == "cancelled"
    assert {step["status"] for step in ended["steps"]} == {"cancelled"}
    assert ended["progress"]["cancelled"] == 6
    resumed = await site.post(f"{FLOWS}/{flow['id']}:resume", role="operator")
    assert resumed.json == {"id": flow["id"], "changed": 6, "by_status": {"pending": 3, "waiting": 3}}
    assert (await site.get(f"{FLOWS}/{flow['id']}")).json["status"] == "running"
    assert [action for _, action, _ in await site.audited()] == ["flow.submit", "flow.cancel", "flow.resume"]


async def test_there_may_be_nothing_to_resume(site: Site, worker: Worker) -> None:
    flow = await submitted(site, {"a": ECHO})
    await until_ended(site, flow["id"])
    assert (await site.post(f"{FLOWS}/{flow['id']}:resume")).told == (409, "conflict", None)


async def test_a_step_is_not_retried_alone(site: Site, worker: Worker) -> None:
    flow = await submitted(site, {"a": echo({"fail": "no", "permanent": True}), "b": echo(after=["a"])})
    ended = await until_ended(site, flow["id"])
    assert ended["status"] == "failed"
    task = by_key(ended)["a"]["task_id"]
    assert (await site.post(f"/api/v1/tasks/{task}:retry")).told == (409, "part_of_flow", None)
    why = (await site.get(f"/api/v1/tasks/{by_key(ended)['b']['task_id']}/why")).json
    assert why["sentence"] == "could not run: depends on step a, which ended failed"


async def test_a_flow_that_has_ended_is_forgotten(site: Site, worker: Worker) -> None:
    flow = await submitted(site, {"a": ECHO, "hold": echo({"hold": True})})
    assert (await site.send("DELETE", f"{FLOWS}/{flow['id']}")).told == (409, "conflict", None)
    await site.post(f"{FLOWS}/{flow['id']}:cancel")
    await until_ended(site, flow["id"])
    assert (await site.send("DELETE", f"{FLOWS}/{flow['id']}", role="operator")).status == 204
    assert (await site.get(f"{FLOWS}/{flow['id']}")).told == (404, "not_found", None)
    assert (await site.get("/api/v1/tasks")).json["tasks"] == []


@pytest.mark.parametrize("flow", [NOBODY, "group-x", "task-0000000000000001", "nonsense"])
async def test_a_flow_that_is_not_there_is_not_found(site: Site, flow: str) -> None:
    for method, path in (("GET", ""), ("POST", ":cancel"), ("POST", ":resume"), ("DELETE", "")):
        assert (await site.send(method, f"{FLOWS}/{flow}{path}")).told == (404, "not_found", None)


@pytest.mark.parametrize(("method", "path"), [("POST", ""), ("POST", f"/{NOBODY}:cancel"), ("DELETE", f"/{NOBODY}")])
async def test_a_viewer_changes_nothing(site: Site, method: str, path: str) -> None:
    answer = await site.send(method, f"{FLOWS}{path}", {"steps": {"a": ECHO}} if not path else None, role="viewer")
    assert answer.status == 403


async def test_a_flow_is_not_changed_as_a_mere_group(site: Site) -> None:
    """Its members in the order of their ids could start what depends on them."""
    flow = await submitted(site, {"a": echo(), "b": echo(after={"a": "always"})})
    path = f"/api/v1/groups/{flow['id']}"
    for answer in (
        await site.post(f"{path}:cancel"),
        await site.post(f"{path}:retry"),
        await site.send("DELETE", path),
    ):
        assert answer.told[:2] == (409, "part_of_flow")
    assert (await site.get(f"{FLOWS}/{flow['id']}")).json == flow
    assert (await site.get(path)).json["kind"] == "flow"
