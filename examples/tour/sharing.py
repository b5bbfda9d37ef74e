"""Who goes before whom: quotas of projects, and urgent work that takes the place of what can wait."""

from __future__ import annotations

from crawlfleet.client import Client, RetryPolicy

from .narrator import submit_command
from .stage import LONG_S, Stage

_SYDNEY = {"cluster": "lab", "categories": ["news"]}


def quota(stage: Stage) -> None:
    stage.tell.chapter("Quotas", "A project may have so much and no more, to the last task.")
    with stage.scene("The project `shop` may run 2 tasks at a time, and let 3 wait."):
        stage.tell.command("crawlfleet project set shop --max-running 2 --max-waiting 3")
        stage.client.put_project("shop", max_running=2, max_waiting=3)
        try:
            stage.nodes_of(stage.hold(2, project_id="shop"))
            waiting = stage.hold(3, project_id="shop")
            said = stage.why(waiting[0])
            stage.tell.check("quota 'running' of project shop: 2 of 2 in use", said.sentence)
            stage.tell.command("crawlfleet project show shop")
            quotas = stage.client.project("shop").quotas
            stage.tell.check(
                (2, 0, 3, 0),
                (quotas.running.used, quotas.running.left, quotas.waiting.used, quotas.waiting.left),
                "running, left, waiting, left",
            )
            _refused(stage)
        finally:
            stage.client.reset_project("shop")
        stage.tell.command("crawlfleet project reset shop")
        stage.tell.note("Without quotas all of them run:")
        stage.tell.check(3, len(stage.nodes_of(waiting)), "of those that waited, run")


def _refused(stage: Stage) -> None:
    parameters = {"seconds": LONG_S}
    stage.tell.command(submit_command("sleep", parameters, {"project_id": "shop"}))
    # Usually the client tries again what was refused for now; here the refusal is what we came for.
    with Client(stage.cluster.url, stage.cluster.token, retry=RetryPolicy(attempts=1)) as client:
        stage.refused(429, lambda: stage.note(client.submit("sleep", parameters, project_id="shop").id))


def preemption(stage: Stage) -> None:
    stage.tell.chapter("Making room", "Urgent work takes the place of what was submitted as preemptible.")
    with stage.scene("Sydney has one slot, and something in it that can wait."):
        patient = stage.hold(1, priority=1, preemptible=True, **_SYDNEY)
        stage.nodes_of(patient)
        urgent = stage.submit("sleep", {"seconds": 0.2}, priority=10, **_SYDNEY)
        (done,) = stage.client.wait([urgent], timeout=60)
        stage.tell.check("completed", done.status, "the urgent one")
        stage.tell.note("Its place is free again, and the patient one gets it back:")
        stage.nodes_of(patient)
        stage.tell.command(f"crawlfleet task show {patient[0]}")
        runs = [run.status for run in stage.client.executions(patient[0])]
        stage.tell.check(["preempted", "processing"], runs, "executions of the patient one")
        task = stage.client.get(patient[0])
        stage.tell.check((0, 0), (task.retry_count, task.losses), "retries and losses that it cost")
        (event,) = stage.client.event_page(kinds=["task.recalled"], task=patient[0]).events
        stage.tell.check(f"makes room for {urgent}", event.data["reason"], "the event says")
