"""Nothing waits without a reason that a person can read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from .stage import Stage, only


def whys(stage: Stage) -> None:
    stage.tell.chapter("Why", "Every task says why it is where it is: in a sentence, and as data for programs.")
    with stage.scene("A queue is paused."):
        stage.tell.command("crawlfleet queue pause slow")
        stage.client.pause("slow")
        try:
            (task,) = stage.hold(1, queue="slow")
            _says(stage, task, "queue_paused", "the queue slow is paused")
        finally:
            stage.client.resume("slow")
    with stage.scene("No node will do."):
        (task,) = stage.hold(1, capabilities={"pdf_reading": 1}, min_resources={"cpu": 64})
        _says(stage, task, "no_node", "0 of 6 nodes: 4 no pdf_reading, 2 too small (cpu)")
    with stage.scene("It depends on another."):
        (parent,) = stage.hold(1)
        (child,) = stage.hold(1, depends_on=[parent])
        _says(stage, child, "parents", f"waits for 1 task to complete: {parent} (")
    with stage.scene("It is too early."):
        at = (datetime.now(UTC) + timedelta(hours=2)).isoformat(timespec="seconds").replace("+00:00", "Z")
        (task,) = stage.hold(1, run_at=at)
        _says(stage, task, "time", f"starts at {at.removesuffix('Z')}")
    with stage.scene("Its project has used up a quota."):
        _shut(stage, "idle", "max_running", "quota 'running' of project idle: 0 of 0 in use")
    with stage.scene("Its project has fetched all that it may in a day."):
        shut_until = "quota 'pages per day' of project thrifty: 0 of 0 left until 00:00 UTC"
        _shut(stage, "thrifty", "pages_per_day", shut_until)
    _left_alone(stage)
    with stage.scene("It failed, and is tried again later."):
        parameters = {"times": 9, "class": "network", "message": "the shop does not answer"}
        task = stage.submit("fail", parameters, retry={"base_delay_s": 120})
        stage.until_why(task, "retry")
        _says(stage, task, "retry", "failed once: the shop does not answer; is tried again at ")
    _making_room(stage)
    with stage.scene("And one that runs says why its node has it."):
        (task,) = stage.hold(1, target_region="seoul", schedule_strategy="geo_location")
        stage.nodes_of([task])
        _says(stage, task, "processing", "; geo_location: tokyo is 1,1")


def _shut(stage: Stage, project: str, quota: str, sentence: str) -> None:
    """A project of whose quota nothing is left."""
    stage.tell.command(f"crawlfleet project set {project} --{quota.replace('_', '-')} 0")
    stage.client.put_project(project, **{quota: 0})
    try:
        (task,) = stage.hold(1, project_id=project)
        _says(stage, task, "quota", sentence)
    finally:
        stage.client.reset_project(project)


def _left_alone(stage: Stage) -> None:
    host = stage.site.removeprefix("http://")
    with stage.scene("Its site asked to be left alone: it has no slot meanwhile, and loses no retry."):
        task = stage.submit("web_crawl", {"url": f"{stage.site}/busy"})
        try:
            stage.until_why(task, "host_backoff")
            _says(stage, task, "host_backoff", f"host {host} in back-off until ")
        finally:
            stage.client.cancel(task)
            stage.tell.command(f"crawlfleet host forgive {host}")
            stage.client.forgive_host(host)


def _making_room(stage: Stage) -> None:
    sydney = {"cluster": "lab", **only("sydney")}
    with stage.scene("It is urgent, and somebody is about to make room for it. (Sydney's agent is slow just now.)"):
        patient = stage.hold(1, priority=1, preemptible=True, **sydney)
        stage.nodes_of(patient)
        with stage.cluster.frozen("sydney"):
            (urgent,) = stage.hold(1, priority=10, **sydney)
            stage.until_why(urgent, "making_room")
            _says(stage, urgent, "making_room", "waits for 1 lower-priority task on node sydney to stop")
            _says(stage, patient[0], "recalled", f"its place is needed for {urgent}")
        stage.nodes_of([urgent])
        _says(stage, patient[0], "no_node", f"it made room for {urgent} (stopped once)")


def _says(stage: Stage, task: str, cause: str, words: str) -> None:
    said = stage.why(task)
    stage.tell.check(cause, said.data["cause"], "cause")
    if words not in said.sentence:
        stage.tell.check(words, said.sentence, "sentence")
