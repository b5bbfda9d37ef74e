"""A graph of tasks in one call."""

from __future__ import annotations

from pathlib import Path

import yaml

from .stage import Stage

FILE = Path(__file__).with_name("flow.yaml")
EXPECTED = {
    "list": "completed",
    "each": "completed",
    "report": "completed",
    "too_few": "skipped",
    "sorry": "skipped",
    "end": "completed",
}


def flow(stage: Stage) -> None:
    stage.tell.chapter("A flow", "A fan-out over a result, a fan-in, conditions; submitted whole or not at all.")
    stage.tell.step("A task for each page in the result of `list`; then `report` if there are 3, `too_few` if not.")
    stage.tell.command("crawlfleet flow submit examples/tour/flow.yaml --wait")
    asked = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    begun = stage.client.submit_flow(asked["steps"], name=asked["name"])
    steps = {step.key: step for step in stage.client.wait_flow(begun.id, timeout_s=60).steps}
    stage.tell.command(f"crawlfleet flow show {begun.id}")
    shown = {key: "skipped" if step.is_skipped else step.status for key, step in steps.items()}
    stage.tell.check(EXPECTED, shown, "steps")
    items = steps["each"].items
    stage.tell.check({"completed": 3}, items and items.by_status, "the fan-out")
    report = stage.client.get(steps["report"].task_id).result
    stage.tell.check({"pages": ["/c", "/a", "/b"]}, report and report.data, "the fan-in, in the order of the list")
    said = stage.why(steps["too_few"].task_id)
    stage.tell.check("skipped", said.data["cause"], "the other branch")

    stage.tell.step("A graph that could never run is refused, and nothing of it is stored.")
    task = {"task_type": "echo"}
    circle = {"a": {"task": task, "after": ["b"]}, "b": {"task": task, "after": ["a"]}}
    stage.refused(422, lambda: stage.client.submit_flow(circle))
