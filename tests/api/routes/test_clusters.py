"""Clusters over HTTP: status, health, use, and configuration at run time."""

from random import Random
from typing import Any

import pytest

from crawlfleet.model.ids import task_text
from crawlfleet.model.status import NodeStatus
from crawlfleet.scheduling.tasks import task_state_machine
from tests.api.kit import Site
from tests.api.remote_node import RemoteNode

CLUSTERS = "/api/v1/clusters"


async def test_the_default_cluster_is_always_there(site: Site) -> None:
    (cluster,) = (await site.get(CLUSTERS, role="viewer")).json["clusters"]
    assert (cluster["name"], cluster["status"], cluster["health"], cluster["node_count"]) == (
        "default",
        "active",
        "unknown",
        0,
    )
    assert cluster["slots"] == {"total": 0, "used": 0}
    assert set(cluster["nodes"]) == {"pending", "online", "maintenance", "offline", "unresponsive"}


async def test_health_goes_by_the_share_of_usable_nodes(site: Site) -> None:
    nodes = [await RemoteNode.online(site, name=f"n{n}", cluster="eu") for n in range(3)]
    await RemoteNode.join(site, name="never came", cluster="eu")
    path = f"{CLUSTERS}/eu"
    shown = (await site.get(path)).json
    assert (shown["health"], shown["nodes"]["online"], shown["nodes"]["pending"]) == ("healthy", 3, 1)
    assert shown["slots"] == {"total": 15, "used": 0}
    for node, health in zip(nodes, ["degraded", "unhealthy", "unhealthy"], strict=True):
        await lose(site, node)
        assert (await site.get(path)).json["health"] == health


async def test_a_node_held_by_a_person_does_not_make_its_cluster_ill(site: Site) -> None:
    first, _ = [await RemoteNode.online(site, name=name) for name in "ab"]
    await site.post(f"/api/v1/nodes/{first.text}:drain")
    shown = (await site.get(f"{CLUSTERS}/default")).json
    assert (shown["health"], shown["nodes"]["maintenance"], shown["slots"]["total"]) == ("healthy", 1, 5)


async def test_use_is_shown_by_node_and_by_project(site: Site) -> None:
    node = await RemoteNode.online(site, resources={"cpu": 8, "memory_mb": 8192})
    await site.submit(project_id="shop", min_resources={"cpu_cores": 2, "memory_mb": 1024})
    await node.take()
    await site.submit(project_id="news", min_resources={"cpu_cores": 1})
    await node.take()
    found = (await site.get(f"{CLUSTERS}/default/usage", role="viewer")).json
    assert found["slots"] == {"total": 5, "used": 2}
    assert found["reserved"] == {"cpu": 3, "memory_mb": 1024}
    (shown,) = found["nodes"]
    assert (shown["id"], shown["slots"], shown["declared"]) == (
        node.text,
        {"total": 5, "used": 2},
        {"cpu": 8, "memory_mb": 8192},
    )
    assert shown["reserved"] == found["reserved"]
    assert shown["measured"]["cpu"] == 0
    assert found["projects"] == [
        {"project_id": "news", "running": 1, "reserved": {"cpu": 1}},
        {"project_id": "shop", "running": 1, "reserved": {"cpu": 2, "memory_mb": 1024}},
    ]


async def test_a_cluster_is_made_and_changed_field_by_field(site: Site) -> None:
    made = await site.send("PUT", f"{CLUSTERS}/eu", {"description": "Europe", "project": "shop"}, role="operator")
    assert (made.status, made.json["status"], made.json["project"]) == (200, "active", "shop")
    changed = (await site.send("PUT", f"{CLUSTERS}/eu", {"status": "maintenance"})).json
    assert (changed["status"], changed["description"], changed["project"]) == ("maintenance", "Europe", "shop")
    changed = (await site.send("PUT", f"{CLUSTERS}/eu", {"project": None})).json
    assert (changed["project"], changed["description"]) == (None, "Europe")
    assert ("operator", "cluster.put", "eu") in await site.audited()
    assert (await site.send("PUT", f"{CLUSTERS}/eu", {}, role="viewer")).told[0] == 403


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"status": "broken"}, "status"),
        ({"status": 1}, "status"),
        ({"project": ""}, "project"),
        ({"description": "x" * 3_000}, "description"),
        ({"name": "other"}, "name"),
    ],
)
async def test_a_bad_change_is_told_what_is_wrong(site: Site, body: dict[str, Any], field: str) -> None:
    assert (await site.send("PUT", f"{CLUSTERS}/eu", body)).told == (422, "invalid_input", field)
    assert (await site.get(f"{CLUSTERS}/eu")).told[:2] == (404, "not_found")


async def test_an_unknown_cluster_is_not_found(site: Site) -> None:
    for path in ("", "/usage", "/config", "/config/history"):
        assert (await site.get(f"{CLUSTERS}/nowhere{path}")).told[:2] == (404, "not_found")
    assert (await site.send("PUT", f"{CLUSTERS}/nowhere/config", {"values": {}})).told[:2] == (404, "not_found")


# -- configuration


async def test_configuration_has_versions_and_says_who_changed_what(site: Site) -> None:
    path = f"{CLUSTERS}/default/config"
    before = await site.get(path, role="viewer")
    assert (before.json["version"], before.json["values"], before.headers["ETag"]) == (0, {}, '"0"')
    assert before.json["effective"]["max_retries"] == 3
    done = await site.send("PUT", path, {"values": {"max_retries": 5}})
    assert (done.status, done.json["version"], done.headers["ETag"]) == (200, 1, '"1"')
    await site.send("PUT", path, {"values": {"strategy": "least_loaded"}})
    now = (await site.get(path)).json
    assert (now["version"], now["values"], now["changed_by"]) == (2, {"strategy": "least_loaded"}, "the admin")
    assert (now["effective"]["max_retries"], now["effective"]["strategy"]) == (3, "least_loaded")
    history = (await site.get(f"{path}/history", role="viewer")).json["versions"]
    assert [one["version"] for one in history] == [2, 1]
    assert history[1]["values"] == {"max_retries": 5}
    assert all(one["changed_at"].endswith("Z") for one in history)
    assert ("admin", "cluster.configure", "default") in await site.audited()


@pytest.mark.parametrize("is_header", [True, False])
async def test_a_change_on_top_of_an_older_version_is_refused(site: Site, is_header: bool) -> None:
    path = f"{CLUSTERS}/default/config"

    async def put(version: int, retries: int) -> Any:
        body: dict[str, Any] = {"values": {"max_retries": retries}}
        if is_header:
            return await site.send("PUT", path, body, headers={"If-Match": f'"{version}"'})
        return await site.send("PUT", path, body | {"expected_version": version})

    assert (await put(0, 1)).status == 200
    assert (await put(0, 2)).told[:2] == (409, "conflict")
    assert (await put(1, 3)).status == 200
    assert (await site.get(path)).json["values"] == {"max_retries": 3}


@pytest.mark.parametrize(
    ("body", "headers", "field"),
    [
        ({}, {}, "values"),
        ({"values": []}, {}, "values"),
        ({"values": {"colour": "red"}}, {}, "colour"),
        ({"values": {"max_retries": -1}}, {}, "max_retries"),
        ({"values": {"strategy": "luck"}}, {}, "strategy"),
        ({"values": {"concurrency": "wild"}}, {}, "concurrency"),
        ({"values": {"slots_min": 0}}, {}, "slots_min"),
        ({"values": {"slots_min": 9, "slots_max": 8}}, {}, "slots_min"),
        ({"values": {"slots_min": 100}}, {}, "slots_min"),
        ({"values": {"preemption": "on"}}, {}, "preemption"),
        ({"values": {"preemption_gap": 0}}, {}, "preemption_gap"),
        ({"values": {"preemptions_per_minute": -1}}, {}, "preemptions_per_minute"),
        ({"values": {}, "expected_version": "1"}, {}, "expected_version"),
        ({"values": {}, "expected_version": 1}, {"If-Match": '"0"'}, "expected_version"),
        ({"values": {}}, {"If-Match": "newest"}, "If-Match"),
    ],
)
async def test_a_bad_configuration_changes_nothing(
    site: Site, body: dict[str, Any], headers: dict[str, str], field: str
) -> None:
    path = f"{CLUSTERS}/default/config"
    assert (await site.send("PUT", path, body, headers=headers)).told == (422, "invalid_input", field)
    assert (await site.get(path)).json["version"] == 0


async def test_only_an_admin_configures(site: Site) -> None:
    answer = await site.send("PUT", f"{CLUSTERS}/default/config", {"values": {}}, role="operator")
    assert answer.told == (403, "not_allowed", "Authorization")


async def test_a_cluster_of_a_node_can_be_configured(site: Site) -> None:
    await RemoteNode.join(site, cluster="asia")
    assert (await site.send("PUT", f"{CLUSTERS}/asia/config", {"values": {"slots": 3}})).status == 200


async def test_the_slots_of_a_cluster_count_wherever_slots_are_counted(site: Site) -> None:
    node = await RemoteNode.online(site, cluster="eu")
    await site.send("PUT", f"{CLUSTERS}/eu/config", {"values": {"slots": 1}})
    shown = (await site.get(f"/api/v1/nodes/{node.text}")).json
    assert (shown["slots"], shown["slots_declared"], shown["slots_set"]) == (1, 5, None)
    await site.submit(cluster="eu")
    await node.take()
    assert (await site.get(f"{CLUSTERS}/eu")).json["slots"] == {"total": 1, "used": 1}
    usage = (await site.get(f"{CLUSTERS}/eu/usage")).json
    assert usage["slots"] == usage["nodes"][0]["slots"] == {"total": 1, "used": 1}
    task = await site.submit(cluster="eu")
    assert (await site.get(f"/api/v1/tasks/{task}/why")).json["sentence"] == "0 of 1 node: 1 full"
    by_hand = await site.post(f"/api/v1/tasks/{task}:assign", {"node": node.text})
    assert by_hand.told[:2] == (409, "does_not_fit")
    # What a person wants of the node itself comes first.
    shown = (await site.post(f"/api/v1/nodes/{node.text}:slots", {"slots": 3})).json
    assert (shown["slots"], shown["slots_declared"], shown["slots_set"]) == (3, 5, 3)


async def test_making_room_is_a_matter_of_the_whole_installation(site: Site) -> None:
    await site.send("PUT", f"{CLUSTERS}/eu", {})
    for name in ("preemption", "preemption_gap", "preemptions_per_minute"):
        answer = await site.send(
            "PUT", f"{CLUSTERS}/eu/config", {"values": {name: True if name == "preemption" else 1}}
        )
        assert answer.told == (422, "invalid_input", name)
    effective = (await site.get(f"{CLUSTERS}/eu/config")).json["effective"]
    assert (effective["preemption"], effective["preemption_gap"], effective["preemptions_per_minute"]) == (True, 2, 60)
    assert (effective["concurrency"], effective["slots_min"], effective["slots_max"]) == ("fixed", 1, 64)


async def test_a_cluster_that_follows_its_load_says_so_of_its_nodes(site: Site) -> None:
    node = await RemoteNode.online(site, cluster="eu")
    assert (await site.get(f"/api/v1/nodes/{node.text}")).json["slots_mode"] == "fixed"
    await site.send("PUT", f"{CLUSTERS}/eu/config", {"values": {"concurrency": "auto"}})
    assert (await site.get(f"/api/v1/nodes/{node.text}")).json["slots_mode"] == "auto"
    shown = (await site.post(f"/api/v1/nodes/{node.text}:slots", {"slots": 3})).json
    assert (shown["slots"], shown["slots_mode"]) == (3, "fixed")


@pytest.mark.parametrize("status", ["inactive", "maintenance"])
async def test_a_cluster_out_of_service_gets_no_work_until_it_is_back(site: Site, status: str) -> None:
    node = await RemoteNode.online(site, cluster="eu")
    await site.send("PUT", f"{CLUSTERS}/eu", {"status": status})
    task = await site.submit()
    await site.master.dispatcher.wait_for_passes(2)
    assert (await node.sync()).assignments == []
    why = (await site.get(f"/api/v1/tasks/{task}/why")).json
    phrase = "in an inactive cluster" if status == "inactive" else "in a cluster in maintenance"
    assert why["sentence"] == f"0 of 1 node: 1 {phrase}"
    await site.send("PUT", f"{CLUSTERS}/eu", {"status": "active"})
    await node.take()


async def test_a_reserved_cluster_takes_only_its_project_s_tasks(site: Site) -> None:
    node = await RemoteNode.online(site, cluster="eu")
    await site.send("PUT", f"{CLUSTERS}/eu", {"project": "shop"})
    other = await site.submit(project_id="news")
    mine = await site.submit(project_id="shop")
    assert task_text((await node.take()).task) == mine
    why = (await site.get(f"/api/v1/tasks/{other}/why")).json["sentence"]
    assert why == "0 of 1 node: 1 reserved for another project"
    await site.send("PUT", f"{CLUSTERS}/eu", {"project": None})
    assert task_text((await node.take()).task) == other


async def lose(site: Site, node: RemoteNode) -> None:
    """As the reaper does, without the wait."""
    now = site.master.clock.now()
    decide = task_state_machine.lose_execution("its node was lost", now, Random(1))
    await site.store.end_session(node.id, node.session, NodeStatus.UNRESPONSIVE, decide, now)


async def test_a_cluster_shows_the_fields_of_the_source(site: Site) -> None:
    default = (await site.get(f"{CLUSTERS}/default")).json
    assert (default["id"], default["project_id"], default["configuration"]) == ("default", None, {})
    made = (await site.send("PUT", f"{CLUSTERS}/eu", {"project": "shop"})).json
    assert (made["id"], made["project_id"], made["created_at"]) == ("eu", "shop", made["updated_at"])
    await site.send("PUT", f"{CLUSTERS}/eu/config", {"values": {"health_cpu_unhealthy": 0.9}})
    changed = (await site.send("PUT", f"{CLUSTERS}/eu", {"description": "Europe"})).json
    assert changed["configuration"] == {"health_cpu_unhealthy": 0.9}
    assert changed["created_at"] == made["created_at"] <= changed["updated_at"]


async def test_a_cluster_is_removed_when_nothing_is_in_it(site: Site) -> None:
    await site.send("PUT", f"{CLUSTERS}/eu", {"status": "active"}, role="operator")
    await site.send("PUT", f"{CLUSTERS}/eu/config", {"values": {"max_retries": 7}})
    node = await RemoteNode.online(site, name="n", cluster="eu")
    refused = await site.send("DELETE", f"{CLUSTERS}/eu", role="operator")
    assert (refused.status, refused.json["detail"].partition(":")[0]) == (409, "1 nodes are in cluster eu")
    await site.send("DELETE", f"/api/v1/nodes/{node.text}")
    task = await site.submit(cluster="eu")
    refused = await site.send("DELETE", f"{CLUSTERS}/eu", role="operator")
    assert (refused.status, refused.json["detail"].partition(":")[0]) == (409, "open tasks name cluster eu")
    await site.post(f"/api/v1/tasks/{task}:cancel")
    assert (await site.send("DELETE", f"{CLUSTERS}/eu", role="viewer")).status == 403
    assert (await site.send("DELETE", f"{CLUSTERS}/eu", role="operator")).status == 204
    assert (await site.send("DELETE", f"{CLUSTERS}/eu", role="operator")).status == 404
    assert ("operator", "cluster.remove", "eu") in await site.audited()
    assert [each["name"] for each in (await site.get(CLUSTERS)).json["clusters"]] == ["default"]
    await site.send("PUT", f"{CLUSTERS}/eu", {})
    assert (await site.get(f"{CLUSTERS}/eu/config")).json["version"] == 0, "a new one has nothing of the old one"


async def test_the_default_cluster_is_never_removed(site: Site) -> None:
    refused = await site.send("DELETE", f"{CLUSTERS}/default")
    assert (refused.status, refused.json["detail"]) == (409, "cluster default is always there")


async def test_a_node_that_only_pulls_is_no_capacity(site: Site) -> None:
    joined = (await site.post("/api/v1/nodes:register", {"name": "simple", "resources": {"cpu": 4}})).json
    await site.post(f"/api/v1/nodes/{joined['node_id']}:heartbeat", {}, token=joined["secret"])
    shown = (await site.get(f"/api/v1/nodes/{joined['node_id']}")).json
    assert (shown["status"], shown["is_pull_only"], shown["slots"]) == ("online", True, 0)
    assert (await site.get(f"{CLUSTERS}/default")).json["slots"] == {"total": 0, "used": 0}
    assert (await site.get(f"{CLUSTERS}/default/usage")).json["nodes"][0]["slots"]["total"] == 0
