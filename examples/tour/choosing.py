"""Strategies that look at nodes alone: what they hold, whose turn it is, what they have left."""

from __future__ import annotations

from collections import Counter

from .stage import Stage, only


def by_load(stage: Stage) -> None:
    stage.tell.chapter(
        "least_loaded and least_tasks", "The smallest share in use, or the fewest tasks: not always the same node."
    )
    pdf_reading = {"pdf_reading": 1}
    with stage.scene("Virginia holds a few tasks in its 16 slots, Paris one in its two. The next one reads PDF files."):
        stage.nodes_of([*stage.hold(2, **only("virginia")), *stage.hold(1, **only("paris"))])
        stage.chosen("virginia", capabilities=pdf_reading, schedule_strategy="least_loaded")
        # Virginia holds one more now: Paris has the fewest all the more.
        stage.chosen("paris", capabilities=pdf_reading, schedule_strategy="least_tasks")


def by_turn(stage: Stage) -> None:
    stage.tell.chapter("round_robin, weighted and random", "By turn, by weight, by chance.")
    with stage.scene("Six tasks over the three nodes of Europe, one after the other: two each."):
        nodes = stage.nodes_of(stage.hold(6, cluster="europe", schedule_strategy="round_robin"))
        stage.tell.check({"berlin": 2, "frankfurt": 2, "paris": 2}, dict(sorted(Counter(nodes).items())), "tasks")
    with stage.scene("Four tasks over the two nodes of Germany. Berlin has weight 3, Frankfurt 1: three and one."):
        nodes = stage.nodes_of(stage.hold(4, capabilities={"country": ["de"]}, schedule_strategy="weighted"))
        stage.tell.check({"berlin": 3, "frankfurt": 1}, dict(sorted(Counter(nodes).items())), "tasks")
    with stage.scene("Eight tasks over Europe by chance: anywhere there, and hardly all on one."):
        tasks = stage.hold(8, cluster="europe", schedule_strategy="random")
        drawn = Counter(stage.nodes_of(tasks))
        stage.why(tasks[0])
        inside = set(drawn) <= {"berlin", "frankfurt", "paris"}
        stage.tell.check_that(inside and len(drawn) > 1, "several nodes, all of Europe", dict(drawn))


def by_size(stage: Stage) -> None:
    stage.tell.chapter("largest", "The most CPU and memory left, reservations counted.")
    with stage.scene("Virginia has 32 cores and 64 GB, Tokyo 8 and 16, the others one of each."):
        task = stage.chosen("virginia", schedule_strategy="largest")
        stage.client.cancel(task)
        reserved = stage.hold(1, min_resources={"cpu": 32, "memory_mb": 65_536})
        stage.tell.check(["virginia"], stage.nodes_of(reserved), "the only one with room for all of that")
        stage.chosen("tokyo", schedule_strategy="largest")


def by_own_rule(stage: Stage) -> None:
    stage.tell.chapter(
        "A strategy of your own", "examples/own_strategy is installed beside the master: the cheapest node first."
    )
    with stage.scene("Every worker said what it costs (--capability price_per_hour=...). Tokyo is the cheapest."):
        stage.chosen("tokyo", schedule_strategy="cheapest")
        stage.hold(3, schedule_strategy="cheapest")
        stage.tell.note("Tokyo is full now; of the others that take anything, Berlin costs least.")
        stage.chosen("berlin", schedule_strategy="cheapest")
