"""Strategies that know more than the load: where nodes are, how they fared, who blocked them."""

from __future__ import annotations

from typing import Any

from .stage import LONG_S, Stage, only

_SAMPLES = 5


def by_place(stage: Stage) -> None:
    stage.tell.chapter("geo_location", "The same region, then the same country, then the nearest.")
    with stage.scene("A node stands in the region itself."):
        stage.chosen("frankfurt", target_region="eu-central-1", schedule_strategy="geo_location")
    with stage.scene("Nobody stands in Hamburg: another place in Germany, the nearest of them."):
        task = stage.chosen("berlin", target_region="hamburg", schedule_strategy="geo_location")
        said = stage.client.why(task).data["choice"]["reason"]
        stage.tell.check_that("same country de" in said, "why tells the country and the distance", said)
    with stage.scene("Nobody stands in Korea: the nearest on the globe."):
        stage.chosen("tokyo", target_region="seoul", schedule_strategy="geo_location")


def by_record(stage: Stage) -> None:
    stage.tell.chapter("content_based", "By how nodes fared with such content before.")
    pdf = {"content_type": "pdf"}
    with stage.scene(f"Berlin fails on {_SAMPLES} PDF files, Frankfurt reads {_SAMPLES}."):
        asked: dict[str, Any] = {"content_features": pdf, "retry": {"max_retries": 0}}
        bad = {"class": "parse", "message": "no text in this PDF"}
        tasks = [stage.submit("fail", bad, **asked, **only("berlin"))]
        tasks += [stage.submit("echo", **asked, **only("frankfurt"))]
        others = [
            *[{"task_type": "fail", "parameters": bad, **asked, **only("berlin")}] * (_SAMPLES - 1),
            *[{"task_type": "echo", **asked, **only("frankfurt")}] * (_SAMPLES - 1),
        ]
        stage.tell.note(f"... and {len(others)} more of them")
        tasks += [task.id for task in stage.client.submit_batch(others)]
        ended = [task.status for task in stage.client.wait(tasks, timeout=60)]
        stage.tell.check((_SAMPLES, _SAMPLES), (ended.count("failed"), ended.count("completed")), "failed, completed")

        about = {"content_features": pdf, "schedule_strategy": "content_based"}
        for node, share in (("berlin", "0%"), ("frankfurt", "100%")):
            (probe,) = stage.hold(1, **about, **only(node))
            said = stage.until_why(probe, "processing", f"{share} of its recent executions on pdf succeeded")
            stage.tell.note(said.sentence)
        stage.tell.note("The leader has learned. Where does the next one go, Berlin or Frankfurt?")
        stage.chosen("frankfurt", capabilities={"country": ["de"]}, **about)


def by_blocks(stage: Stage) -> None:
    stage.tell.chapter("anti_crawling", "A node that a site has blocked cools down, and so does its address.")
    stage.client.put_host(stage.site.removeprefix("http://"), rate=50, concurrency=16)
    slow = {"url": f"{stage.site}/slow"}
    sly = {"schedule_strategy": "anti_crawling"}
    with stage.scene("The site answers Berlin with 403."):
        task = stage.submit(
            "web_crawl", {"url": f"{stage.site}/forbidden"}, retry={"max_retries": 0}, **sly, **only("berlin")
        )
        (done,) = stage.client.wait([task], timeout=60)
        assert done.error is not None
        stage.tell.check("blocked", done.error.class_, "class of the failure")

        stage.tell.note("Frankfurt was never there. But it goes out by the same address as Berlin:")
        same = stage.submit("web_crawl", slow, timeout_s=LONG_S, **sly, **only("frankfurt"))
        said = stage.until_why(same, "processing", "cools down for another")
        stage.tell.check_that("blocked by 127.0.0.1" in said.sentence, "Frankfurt cools down, too", said.sentence)

        stage.tell.note("Paris has an address of its own:")
        task = stage.submit("web_crawl", slow, timeout_s=LONG_S, cluster="europe", **sly)
        (node,) = stage.nodes_of([task])
        stage.why(task)
        stage.tell.check("paris", node, "chosen")
