"""Nodes over HTTP: joining, beating, and what people tell them."""

from random import Random
from typing import Any

import msgspec
import pytest

from crawlfleet.model.instants import to_text
from crawlfleet.model.node import Measurement
from crawlfleet.model.principal import Role
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.ports.node_store import HealthChange
from crawlfleet.scheduling.tasks import task_state_machine
from tests.api.kit import Site, Worker
from tests.api.remote_node import ECHO, RemoteNode

EXAMPLE: dict[str, Any] = {
    "name": "crawler-node-01",
    "description": "Main crawler node in US East region",
    "ip_address": "192.168.1.101",
    "port": 8000,
    "node_type": "standard",
    "capabilities": {
        "content_types": ["html", "json", "xml"],
        "technologies": ["react", "angular", "wordpress"],
        "anti_crawling_bypass": ["user-agent", "proxy"],
    },
    "resources": {"cpu": 8, "memory_mb": 16384, "gpu": 1, "network_bandwidth_mbps": 1000},
}
"""As the source document writes it."""
BEAT: dict[str, Any] = {
    "resources": {"cpu_usage": 0.65, "memory_usage": 0.75, "gpu_usage": 0.45},
    "load": 0.8,
    "active_tasks": ["task-123", "task-456"],
}


# -- joining


async def test_the_source_example_registers_as_written(site: Site) -> None:
    answer = await site.post("/api/v1/nodes:register", EXAMPLE)
    assert answer.status == 201
    said = answer.json
    assert answer.headers["Location"] == f"/api/v1/nodes/{said['node_id']}"
    assert said["node_id"].startswith("node-")
    assert said["initial_status"] == "pending"
    assert abs(said["registration_time"] - site.master.clock.now() / 1000) < 30
    assert len(said["secret"]) == 64
    assert said["lease_s"] == 300
    shown = (await site.get(answer.headers["Location"])).json
    for name in ("name", "description", "ip_address", "port", "node_type"):
        assert shown[name] == EXAMPLE[name]
    assert shown["resources"] == EXAMPLE["resources"]
    assert {name: sorted(words) for name, words in EXAMPLE["capabilities"].items()} == shown["capabilities"]
    assert (shown["cluster"], shown["status"], shown["health"]) == ("default", "pending", "unknown")


async def test_a_node_tells_its_machine_and_the_address_that_sites_see(site: Site) -> None:
    said = EXAMPLE | {"machine_id": "5b0c7a", "egress_address": "198.51.100.7"}
    shown = (await site.get((await site.post("/api/v1/nodes:register", said)).headers["Location"])).json
    assert (shown["machine_id"], shown["egress_address"]) == ("5b0c7a", "198.51.100.7")
    # Its own word is all there is when a person registers it, or when it calls from an address that is not public.
    shown = (await site.get((await site.post("/api/v1/nodes:register", EXAMPLE)).headers["Location"])).json
    assert (shown["machine_id"], shown["egress_address"]) == ("", "192.168.1.101")


@pytest.mark.parametrize(("field", "value"), [("egress_address", "nowhere"), ("machine_id", "x" * 101)])
async def test_a_machine_or_address_that_is_none_is_refused_by_name(site: Site, field: str, value: str) -> None:
    answer = await site.post("/api/v1/nodes:register", EXAMPLE | {field: value})
    assert answer.told == (422, "invalid_input", field)


async def test_the_source_example_of_a_heartbeat_brings_it_online(site: Site) -> None:
    joined = (await site.post("/api/v1/nodes:register", EXAMPLE)).json
    path = f"/api/v1/nodes/{joined['node_id']}"
    for credentials in ({"token": joined["secret"]}, {"role": "operator"}):
        answer = await site.post(f"{path}:heartbeat", BEAT, **credentials)
        assert answer.status == 200
        assert answer.json.keys() >= {"node_id", "timestamp", "status"}
        assert (answer.json["node_id"], answer.json["status"]) == (joined["node_id"], "online")
        assert answer.json["stale"] == ["task-123", "task-456"]
        assert abs(answer.json["timestamp"] - site.master.clock.now() / 1000) < 30
    shown = (await site.get(path)).json
    assert (shown["status"], shown["is_pull_only"]) == ("online", True)
    assert shown["measurement"]["cpu"] == 0.65
    assert shown["measurement"]["gpu"] == 0.45
    assert shown["measurement"]["load"] == 0.8


async def test_an_agent_registers_what_it_runs(site: Site) -> None:
    types = {"my_type": {"type": "object", "required": ["url"]}}
    body = {
        "name": "a",
        "slots": 4,
        "task_types": types,
        "cluster": "eu",
        "region": "eu-1",
        "weight": 2.5,
        "resources": {"cpu_cores": 2, "memory_gb": 4},
        "capabilities": {"javascript_rendering": 1, "proxy": True},
    }
    joined = (await site.post("/api/v1/nodes:register", body)).json
    assert joined["lease_s"] == 9
    shown = (await site.get(f"/api/v1/nodes/{joined['node_id']}")).json
    assert (shown["slots"], shown["task_types"], shown["cluster"], shown["region"], shown["weight"]) == (
        4,
        ["my_type"],
        "eu",
        "eu-1",
        2.5,
    )
    assert shown["resources"] == {"cpu": 2, "memory_mb": 4096}
    assert shown["capabilities"] == {"javascript_rendering": 1, "proxy": 1}
    assert not shown["is_pull_only"]
    refused = await site.post("/api/v1/tasks", {"task_type": "my_type", "parameters": {}})
    assert refused.status == 422, "its schema is known"


async def test_an_interval_agreed_on_makes_the_lease(site: Site) -> None:
    answer = await site.post("/api/v1/nodes:register", {"name": "a", "interval_s": 10})
    assert answer.json["lease_s"] == 30


async def test_the_same_join_key_is_the_same_node_with_another_secret(site: Site) -> None:
    first, again = [(await site.post("/api/v1/nodes:register", {"name": "a", "join_key": "k"})).json for _ in range(2)]
    assert first["node_id"] == again["node_id"]
    path = f"/api/v1/nodes/{first['node_id']}:heartbeat"
    assert (await site.post(path, {}, token=first["secret"])).status == 401
    assert (await site.post(path, {}, token=again["secret"])).status == 200


async def test_an_idempotency_key_stands_in_for_a_join_key_of_the_same_token(site: Site) -> None:
    async def node(role: str, key: str | None) -> str:
        headers = {} if key is None else {"Idempotency-Key": key}
        joined = (await site.post("/api/v1/nodes:register", {"name": "a"}, role=role, headers=headers)).json
        return str(joined["node_id"])

    assert await node("admin", "k") == await node("admin", "k")
    assert await node("admin", "k") != await node("admin", "other")
    assert await node("admin", "k") != await node("operator", "k")
    assert await node("admin", None) != await node("admin", None)


async def test_an_enrol_token_is_good_for_so_many_nodes(site: Site) -> None:
    issued = await site.master.tokens.create_token(Role.ENROL, name="two", by="tests", uses=2)
    bad = await site.post("/api/v1/nodes:register", {"name": ""}, token=issued.secret)
    assert bad.status == 422, "which costs nothing"
    for name in ("a", "b"):
        assert (await site.post("/api/v1/nodes:register", {"name": name}, token=issued.secret)).status == 201
    answer = await site.post("/api/v1/nodes:register", {"name": "c"}, token=issued.secret)
    assert answer.told == (401, "not_authenticated", "Authorization")
    assert len((await site.get("/api/v1/nodes")).json["nodes"]) == 2


async def test_a_used_up_enrol_token_repeats_a_registration_whose_answer_was_lost(site: Site) -> None:
    token = (await site.master.tokens.create_token(Role.ENROL, name="one", by="tests", uses=1)).secret
    body = {"name": "a", "join_key": "mine", "task_types": ECHO, "slots": 2}
    lost, again, once_more = [await site.post("/api/v1/nodes:register", body, token=token) for _ in range(3)]
    assert [one.status for one in (lost, again, once_more)] == [201, 201, 201]
    assert lost.json["node_id"] == again.json["node_id"] == once_more.json["node_id"]
    path = f"/api/v1/nodes/{lost.json['node_id']}"
    assert (await site.get(path, token=lost.json["secret"])).status == 401
    assert (await site.get(path, token=once_more.json["secret"])).status == 200
    # It is good for that, and for nothing else.
    for change in ({"join_key": "another"}, {"join_key": None}):
        answer = await site.post("/api/v1/nodes:register", body | change, token=token)
        assert answer.told == (401, "not_authenticated", "Authorization")
    assert (await site.get("/api/v1/nodes", token=token)).told[0] in (401, 403)
    assert "another" not in (await site.get("/api/v1/task-types")).content.decode()


async def test_a_registration_that_is_refused_spends_nothing_and_teaches_nothing(site: Site) -> None:
    await RemoteNode.join(site, device_id="worker-001")
    token = (await site.master.tokens.create_token(Role.ENROL, name="one", by="tests", uses=1)).secret
    body = {"name": "a", "device_id": "worker-001", "task_types": {"novel": {}}}
    assert (await site.post("/api/v1/nodes:register", body, token=token)).told[:2] == (409, "conflict")
    assert "novel" not in {one["name"] for one in (await site.get("/api/v1/task-types")).json["task_types"]}
    body["device_id"] = "worker-002"
    assert (await site.post("/api/v1/nodes:register", body, token=token)).status == 201


async def test_another_body_under_one_idempotency_key_registers_nobody(site: Site) -> None:
    key = {"Idempotency-Key": "k"}
    first = await site.post("/api/v1/nodes:register", {"name": "a"}, headers=key)
    other = await site.post("/api/v1/nodes:register", {"name": "b"}, headers=key)
    assert other.told == (422, "idempotency_mismatch", "Idempotency-Key")
    (node,) = (await site.get("/api/v1/nodes")).json["nodes"]
    assert (node["id"], node["name"]) == (first.json["node_id"], "a")
    assert (await site.get(f"/api/v1/nodes/{node['id']}", token=first.json["secret"])).status == 200


async def test_a_node_that_registers_with_its_own_secret_keeps_it_and_its_session(site: Site) -> None:
    node = await RemoteNode.online(site, join_key="mine")
    news = {"name": "renamed", "join_key": "mine", "slots": 5, "task_types": {**ECHO, "novel": {"type": "object"}}}
    answer = await site.post("/api/v1/nodes:register", news, token=node.secret)
    assert (answer.status, answer.json["node_id"], answer.json["secret"]) == (200, node.text, None)
    assert (answer.json["initial_status"], answer.json["lease_s"]) == ("online", 9)
    assert answer.headers["Location"] == f"/api/v1/nodes/{node.text}"
    await node.sync()
    shown = (await site.get(f"/api/v1/nodes/{node.text}", token=node.secret)).json
    assert (shown["name"], shown["task_types"], shown["is_connected"]) == ("renamed", ["echo", "novel"], True)
    assert (await site.post("/api/v1/tasks", {"task_type": "novel"})).status == 201
    assert ("node", "node.announce", node.text) in await site.audited()


async def test_a_node_registers_only_itself(site: Site) -> None:
    node, other = await RemoteNode.join(site, join_key="mine"), await RemoteNode.join(site, join_key="theirs")
    for join_key in ("theirs", "nobody's"):
        answer = await site.post("/api/v1/nodes:register", {"name": "a", "join_key": join_key}, token=node.secret)
        assert answer.told == (403, "not_allowed", "Authorization")
    assert [one["name"] for one in (await site.get("/api/v1/nodes")).json["nodes"]] == ["n", "n"]
    assert (await site.get(f"/api/v1/nodes/{other.text}", token=other.secret)).status == 200
    assert ("node", "node.register.refused", node.text) in await site.audited()


async def test_an_expired_enrol_token_lets_nobody_in(site: Site) -> None:
    now = site.master.clock.now()
    issued = await site.master.tokens.create_token(Role.ENROL, name="soon", by="tests", expires_at=now + 200)

    async def is_refused() -> bool:
        return (await site.post("/api/v1/nodes:register", {"name": "a"}, token=issued.secret)).status == 401

    await site.until(is_refused)


async def test_a_viewer_registers_nobody(site: Site) -> None:
    answer = await site.post("/api/v1/nodes:register", {"name": "a"}, role="viewer")
    assert answer.told == (403, "not_allowed", "Authorization")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cluster": "."}, "cluster"),
        ({"device_id": ".."}, "device_id"),
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"unknown": 1}, "unknown"),
        ({"port": 70_000}, "port"),
        ({"port": "8000"}, "port"),
        ({"ip_address": "not an address"}, "ip_address"),
        ({"slots": 0}, "slots"),
        ({"weight": 0}, "weight"),
        ({"weight": -1}, "weight"),
        ({"resources": {"cpu": -1}}, "resources.cpu"),
        ({"resources": {"cpu": "8"}}, "resources.cpu"),
        ({"capabilities": {"x": {"deep": 1}}}, "capabilities.x"),
        ({"capabilities": {"x": [1]}}, "capabilities.x"),
        ({"capabilities": {"x": -1}}, "capabilities.x"),
        ({"device_id": "a/b"}, "device_id"),
        ({"device_id": "a:drain"}, "device_id"),
        ({"device_id": "node-0123456789abcdef"}, "device_id"),
        ({"cluster": "a/b"}, "cluster"),
        ({"interval_s": 0}, "interval_s"),
        ({"task_types": {"t": 1}}, "task_types.t"),
        ({"task_types": {"t": {"type": "no such type"}}}, "task_types.t"),
    ],
)
async def test_a_bad_registration_is_told_what_is_wrong(site: Site, change: dict[str, Any], field: str) -> None:
    answer = await site.post("/api/v1/nodes:register", EXAMPLE | change)
    assert answer.told == (422, "invalid_input", field)
    assert (await site.get("/api/v1/nodes")).json == {"nodes": []}


async def test_a_number_that_is_none_is_refused(site: Site) -> None:
    for body in (b'{"name": "a", "weight": NaN}', b'{"name": "a", "resources": {"cpu": 1e400}}'):
        assert (await site.post("/api/v1/nodes:register", data=body)).status in (400, 422)


# -- the handle of the node's own


async def test_a_device_id_stands_for_the_node_in_paths(site: Site) -> None:
    node = await RemoteNode.join(site, device_id="worker-001")
    assert (await site.get("/api/v1/nodes/worker-001")).json["id"] == node.text
    assert (await site.post("/api/v1/nodes/worker-001:drain")).status == 200
    assert (await site.send("DELETE", "/api/v1/nodes/worker-001")).status == 204
    assert (await site.get("/api/v1/nodes/worker-001")).told[0] == 404


async def test_a_device_id_belongs_to_one_node(site: Site) -> None:
    await RemoteNode.join(site, device_id="worker-001")
    answer = await site.post("/api/v1/nodes:register", {"name": "b", "device_id": "worker-001"})
    assert answer.told[:2] == (409, "conflict")


# -- looking


async def test_nodes_are_listed_by_name_and_filtered(site: Site, worker: Worker) -> None:
    await RemoteNode.join(site, name="b", cluster="eu")
    await RemoteNode.join(site, name="a", cluster="eu")

    async def is_online() -> bool:
        return len((await site.get("/api/v1/nodes?status=online")).json["nodes"]) == 1

    await site.until(is_online)
    listed = (await site.get("/api/v1/nodes", role="viewer")).json["nodes"]
    assert [node["name"] for node in listed] == ["a", "b", "worker"]
    assert listed[0].keys() >= {
        "id",
        "name",
        "status",
        "health",
        "cluster",
        "node_type",
        "region",
        "slots",
        "running",
        "measurement",
    }
    assert [node["name"] for node in (await site.get("/api/v1/nodes?cluster=eu")).json["nodes"]] == ["a", "b"]


async def test_a_node_shows_how_much_it_runs(site: Site, worker: Worker) -> None:
    task = await site.submit(parameters={"hold": True})
    await site.until_status(task, "processing")
    (node,) = (await site.get("/api/v1/nodes")).json["nodes"]
    assert (node["running"], node["slots"]) == (1, 10)


@pytest.mark.parametrize("node", ["node-0000000000000001", "node-1", "nobody", "%00", "x" * 300])
async def test_an_unknown_node_is_not_found(site: Site, node: str) -> None:
    assert (await site.get(f"/api/v1/nodes/{node}")).told[:2] == (404, "not_found")
    assert (await site.post(f"/api/v1/nodes/{node}:drain")).told[:2] == (404, "not_found")


# -- beating


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"resources": {"cpu_usage": 1.5}}, "resources.cpu_usage"),
        ({"resources": {"memory_usage": -0.1}}, "resources.memory_usage"),
        ({"resources": {"heat": 1}}, "resources.heat"),
        ({"load": -1}, "load"),
        ({"load": 1e9}, "load"),
        ({"load": "high"}, "load"),
        ({"status": "online"}, "status"),
        ({"active_tasks": "task-1"}, "active_tasks"),
        ({"active_tasks": [1]}, "active_tasks[0]"),
        ({"active_tasks": ["x" * 300]}, "active_tasks[0]"),
    ],
)
async def test_a_bad_heartbeat_is_told_what_is_wrong(site: Site, body: dict[str, Any], field: str) -> None:
    node = await RemoteNode.join(site, interval_s=30)
    answer = await site.post(f"/api/v1/nodes/{node.text}:heartbeat", body, token=node.secret)
    assert answer.told == (422, "invalid_input", field)
    assert (await site.get(f"/api/v1/nodes/{node.text}")).json["status"] == "pending"


async def test_a_heartbeat_ends_no_session_of_an_agent(site: Site) -> None:
    node = await RemoteNode.online(site)
    task = await site.submit()
    one = await node.take()
    answer = await site.post(f"/api/v1/nodes/{node.text}:heartbeat", BEAT | {"active_tasks": [task]}, token=node.secret)
    assert (answer.json["status"], answer.json["stale"]) == ("online", [])
    await node.finish(one)
    assert (await site.task(task))["status"] == "completed"


async def test_a_removed_node_is_heard_no_more(site: Site) -> None:
    node = await RemoteNode.join(site, interval_s=30)
    assert (await site.send("DELETE", f"/api/v1/nodes/{node.text}")).status == 204
    answer = await site.post(f"/api/v1/nodes/{node.text}:heartbeat", {}, role="operator")
    assert answer.told[:2] == (404, "not_found")

    async def is_unknown() -> bool:
        return (await site.post(f"/api/v1/nodes/{node.text}:heartbeat", {}, token=node.secret)).status == 401

    await site.until(is_unknown)
    assert (await site.send("DELETE", f"/api/v1/nodes/{node.text}")).status == 404


# -- a node acts only for itself


async def test_a_node_speaks_for_no_other_and_the_attempt_is_noted(site: Site) -> None:
    mine, other = await RemoteNode.join(site, name="mine"), await RemoteNode.join(site, name="other")
    answer = await site.post(f"/api/v1/nodes/{other.text}:heartbeat", {}, token=mine.secret)
    assert answer.told == (403, "not_allowed", "Authorization")
    assert (await site.get(f"/api/v1/nodes/{other.text}", token=mine.secret)).told[0] == 403
    assert (await site.get(f"/api/v1/nodes/{mine.text}", token=mine.secret)).status == 200
    assert ("node", "node.heartbeat.refused", other.text) in await site.audited()


async def test_a_node_tells_no_node_what_to_do_not_even_itself(site: Site) -> None:
    node = await RemoteNode.join(site)
    path = f"/api/v1/nodes/{node.text}"
    for method, verb, body in [
        ("POST", ":drain", None),
        ("POST", ":ready", None),
        ("POST", ":slots", {"slots": 9}),
        ("DELETE", "", None),
    ]:
        answer = await site.send(method, path + verb, body, token=node.secret)
        assert answer.told == (403, "not_allowed", "Authorization")
    for path in ("/api/v1/nodes", "/api/v1/tasks", "/api/v1/events", "/api/v1/clusters", "/api/v1/task-types"):
        assert (await site.get(path, token=node.secret)).status == 403


# -- what people tell them


async def test_a_drained_node_takes_no_work_until_it_is_ready(site: Site) -> None:
    node = await RemoteNode.online(site)
    path = f"/api/v1/nodes/{node.text}"
    drained = await site.post(f"{path}:drain", {"within_s": 60}, role="operator")
    assert drained.json["status"] == "maintenance"
    assert drained.json["drain_by"] is not None
    down = await node.sync()
    assert down.drain_ms is not None
    assert 0 < down.drain_ms <= 60_000
    assert (await site.post(f"{path}:ready", role="operator")).json["status"] == "online"
    assert (await node.sync()).drain_ms is None
    assert ("operator", "node.drain", node.text) in await site.audited()
    assert ("operator", "node.ready", node.text) in await site.audited()


async def test_slots_are_set_and_given_back(site: Site) -> None:
    node = await RemoteNode.online(site)
    path = f"/api/v1/nodes/{node.text}:slots"
    said = (await site.post(path, {"slots": 2})).json
    assert (said["slots"], said["slots_declared"], said["slots_set"]) == (2, 5, 2)
    assert (await node.sync()).slots == 2
    said = (await site.post(path, {"slots": None})).json
    assert (said["slots"], said["slots_set"], said["slots_mode"]) == (5, None, "fixed")
    said = (await site.post(path, {"slots": "auto"})).json
    assert (said["slots"], said["slots_set"], said["slots_mode"]) == (5, None, "auto")
    said = (await site.post(path, {"slots": 3})).json
    assert (said["slots"], said["slots_set"], said["slots_mode"]) == (3, 3, "fixed")


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("drain", {"within_s": -1}, "within_s"),
        ("drain", {"within_s": 1e9}, "within_s"),
        ("drain", {"soon": True}, "soon"),
        ("slots", {}, "slots"),
        ("slots", {"slots": -1}, "slots"),
        ("slots", {"slots": 1.5}, "slots"),
        ("slots", {"slots": 1, "more": 1}, "more"),
        ("slots", {"slots": True}, "slots"),
        ("slots", {"slots": "many"}, "slots"),
        ("slots", {"slots": "8"}, "slots"),
        ("slots", {"slots": 10_001}, "slots"),
    ],
)
async def test_a_bad_order_changes_nothing(site: Site, verb: str, body: dict[str, Any], field: str) -> None:
    node = await RemoteNode.join(site)
    before = (await site.get(f"/api/v1/nodes/{node.text}")).json
    assert (await site.post(f"/api/v1/nodes/{node.text}:{verb}", body)).told == (422, "invalid_input", field)
    assert (await site.get(f"/api/v1/nodes/{node.text}")).json == before


async def test_what_was_done_to_nodes_is_noted(site: Site) -> None:
    joined = (await site.post("/api/v1/nodes:register", {"name": "a", "task_types": ECHO}, role="enrol")).json
    await site.send("DELETE", f"/api/v1/nodes/{joined['node_id']}", role="operator")
    noted = await site.audited()
    assert ("enrol", "node.register", joined["node_id"]) in noted
    assert ("operator", "node.remove", joined["node_id"]) in noted


# -- the source's fields, health and history


async def test_a_node_shows_the_fields_of_the_source(site: Site) -> None:
    node = await RemoteNode.online(site, cluster="eu")
    shown = (await site.get(f"/api/v1/nodes/{node.text}")).json
    assert (shown["cluster_id"], shown["health_status"]) == ("eu", shown["health"])
    assert shown["last_heartbeat"] == shown["last_seen_at"]
    assert shown["health_timestamp"] == shown["health_at"]
    assert shown["updated_at"] >= shown["last_heartbeat"] >= shown["created_at"]


@pytest.mark.parametrize("status", [NodeStatus.UNRESPONSIVE, NodeStatus.OFFLINE])
async def test_nothing_is_known_of_the_health_of_a_node_that_is_gone(site: Site, status: NodeStatus) -> None:
    node = await RemoteNode.online(site)
    term = site.master.lead.term
    assert term is not None
    healthy = HealthChange(node.id, (await site.store.load_nodes([node.id]))[0].health, Health.HEALTHY, {})
    await site.store.set_health([healthy], term, site.master.clock.now())
    decide = task_state_machine.lose_execution("it is gone", site.master.clock.now(), Random(1))
    (record,) = await site.store.load_nodes([node.id])
    await site.store.end_session(node.id, record.session, status, decide, site.master.clock.now())
    shown = (await site.get(f"/api/v1/nodes/{node.text}")).json
    assert (shown["status"], shown["health"], shown["health_details"]) == (status.word, "unknown", {})


async def test_the_history_of_a_node_is_read_by_time(site: Site) -> None:
    node = await RemoteNode.online(site, name="n")
    path, term = f"/api/v1/nodes/{node.text}/history", site.master.lead.term
    assert term is not None
    now = site.master.clock.now()
    before = len((await site.get(path)).json["samples"])
    for minute in (3, 2, 1):
        sample = msgspec.json.encode(Measurement(cpu=minute / 10, running=minute))
        await site.store.add_heartbeats([(node.id, sample)], term, now - minute * 60_000)
    shown = (await site.get(path, role="viewer")).json
    assert shown["node_id"] == node.text
    assert [one["measurement"]["cpu"] for one in shown["samples"]][:3] == [0.3, 0.2, 0.1]
    assert len(shown["samples"]) == 3 + before
    since, until = to_text(now - 150_000).replace("+", "%2B"), to_text(now - 70_000)
    part = (await site.get(f"{path}?since={since}&until={until}")).json["samples"]
    assert [one["measurement"]["running"] for one in part] == [2]
    newest = (await site.get(f"{path}?until={until}&limit=1")).json["samples"]
    assert [one["measurement"]["running"] for one in newest] == [2]


@pytest.mark.parametrize(
    ("query", "field"), [("since=yesterday", "since"), ("until=2026-01-01", "until"), ("limit=0", "limit")]
)
async def test_a_history_of_no_time_is_refused_by_name(site: Site, query: str, field: str) -> None:
    node = await RemoteNode.online(site)
    answer = await site.get(f"/api/v1/nodes/{node.text}/history?{query}")
    assert answer.told == (422, "invalid_input", field)


async def test_a_node_reads_its_own_history_and_no_other(site: Site) -> None:
    node, other = await RemoteNode.online(site, name="a"), await RemoteNode.online(site, name="b")
    assert (await site.get(f"/api/v1/nodes/{node.text}/history", token=node.secret)).status == 200
    assert (await site.get(f"/api/v1/nodes/{other.text}/history", token=node.secret)).status == 403


async def test_ready_clears_the_judgement(site: Site) -> None:
    node = await RemoteNode.online(site)
    term = site.master.lead.term
    assert term is not None
    had = (await site.store.load_nodes([node.id]))[0].health
    ill = HealthChange(node.id, had, Health.UNHEALTHY, {"reasons": [{"rule": "crash_rate"}]})
    await site.store.set_health([ill], term, site.master.clock.now())
    shown = (await site.post(f"/api/v1/nodes/{node.text}:ready")).json
    assert (shown["status"], shown["health_details"]) == ("online", {})
    assert shown["health"] in ("unknown", "healthy")


@pytest.mark.parametrize(
    ("path", "field", "named"),
    [
        ("/api/v1/nodes?status=bogus", "status", "unresponsive"),
        ("/api/v1/nodes?cluster=bogus", "cluster", "default"),
        ("/api/v1/tasks?status=bogus", "status", "processing"),
        ("/api/v1/groups?kind=bogus", "kind", "flow"),
        ("/api/v1/events?format=json&kind=bogus", "kind", "task.completed"),
        ("/api/v1/hosts?backing_off=bogus", "backing_off", "true or false"),
        ("/api/v1/schedules?is_paused=bogus", "is_paused", "true or false"),
    ],
)
async def test_a_filter_by_an_unknown_word_is_refused_with_those_that_are_known(
    site: Site, path: str, field: str, named: str
) -> None:
    refused = await site.get(path)
    assert refused.status == 422, refused.json
    assert field in str(refused.json)
    assert named in str(refused.json)
