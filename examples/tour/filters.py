"""What keeps a task off a node, and what it says then; and resources, which are reserved."""

from __future__ import annotations

from typing import Any

from .stage import Stage, only

# What a task asks for, and what `why` counts for it: each node by the first thing that keeps the task off it.
_ASKS: tuple[tuple[str, dict[str, Any], dict[str, int]], ...] = (
    ("a capability that nobody has", {"capabilities": {"captcha_solver": 1}}, {"lacks:captcha_solver": 6}),
    ("a kind of node", {"node_type": "mobile"}, {"wrong_node_type": 6}),
    ("a cluster without nodes", {"cluster": "antarctica"}, {"wrong_cluster": 6}),
    (
        "a region, and no other will do",
        {"target_region": "cn-hangzhou", "require_region": True},
        {"wrong_region": 5, "wrong_category": 1},
    ),
    ("more than any node has", {"min_resources": {"cpu": 64}}, {"too_small:cpu": 5, "wrong_category": 1}),
    (
        "a category in a cluster that serves another",
        {"categories": ["sports"], "cluster": "lab"},
        {"wrong_cluster": 5, "wrong_category": 1},
    ),
)


def refusals(stage: Stage) -> None:
    stage.tell.chapter("Filters", "Every node that is out is counted, by the first thing that keeps the task off it.")
    # A cluster that a task names has to be there, with nodes or without.
    stage.client.put_cluster("antarctica")
    for what, fields, expected in _ASKS:
        with stage.scene(f"It asks for {what}."):
            (task,) = stage.hold(1, **fields)
            said = stage.why(task)
            stage.tell.check(expected, said.data["placement"]["refusals"], "refusals")
    with stage.scene("A node that is drained takes nothing new, until it is ready again."):
        stage.tell.command("crawlfleet node drain tokyo")
        stage.client.drain("tokyo")
        try:
            (task,) = stage.hold(1, capabilities={"proxy_rotation": 1})
            said = stage.why(task)
            expected = {"lacks:proxy_rotation": 5, "node_maintenance": 1}
            stage.tell.check(expected, said.data["placement"]["refusals"], "refusals")
        finally:
            stage.client.ready("tokyo")
        stage.tell.command("crawlfleet node ready tokyo")
        stage.tell.check(["tokyo"], stage.nodes_of([task]), "now it runs on")


def reservations(stage: Stage) -> None:
    stage.tell.chapter("Resources", "What a task asks for is reserved: slots alone do not make room.")
    half = {"min_resources": {"cpu": 0.5, "memory_mb": 256}}
    with stage.scene("Frankfurt offers one core and has four slots. Three tasks ask for half a core each."):
        tasks = stage.hold(3, **half, **only("frankfurt"))
        stage.until(lambda: _status(stage, tasks).count("processing") == 2, "two of the three do not run")
        (third,) = [task for task in tasks if stage.client.get(task).status != "processing"]
        said = stage.until_why(third, "no_node", "no cpu left")
        stage.tell.note(said.sentence)
        stage.tell.command("crawlfleet cluster usage europe")
        (use,) = [node for node in stage.client.usage("europe").nodes if node.name == "frankfurt"]
        stage.tell.check((1.0, 1.0), (use.declared["cpu"], use.reserved["cpu"]), "cores offered, reserved")
        stage.tell.note("One of the two ends:")
        stage.client.cancel(next(task for task in tasks if task != third))
        stage.tell.check(["frankfurt"], stage.nodes_of([third]), "the third runs on")


def _status(stage: Stage, tasks: list[str]) -> list[str]:
    return [stage.client.get(task).status for task in tasks]
