"""Lanes that had no task placed for long."""

from random import Random

from crawlfleet.model.project import Project, Quotas, Use
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.lane_order import ReadyLane
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.placement.stuck_lanes import MAX_EXPLAINED, STUCK_S, StuckLaneTracker, explain_stuck_lane
from tests.node_states import node_state


def ready(priority: int = 5, queue: str = "default") -> ReadyLane:
    return ReadyLane(Lane.with_id(queue, "p", priority, Requirement("web_crawl")), oldest=7, size=3, rank=priority)


def names(found: list[ReadyLane]) -> list[int]:
    return [one.lane.priority for one in found]


def test_a_lane_is_told_of_once_until_it_is_served() -> None:
    stuck, one = StuckLaneTracker(), ready()
    assert stuck.overdue_lanes([one], (), 100.0) == []
    assert stuck.overdue_lanes([one], (), 100.0 + STUCK_S - 1) == []
    assert stuck.overdue_lanes([one], (), 100.0 + STUCK_S) == [one]
    assert stuck.waited_s(one.lane.id, 100.0 + STUCK_S) == STUCK_S
    assert stuck.overdue_lanes([one], (), 101.0 + STUCK_S) == [one]  # not told yet: the store was away
    stuck.mark_reported(one.lane.id)
    assert stuck.overdue_lanes([one], (), 500.0) == []
    stuck.record_served([one.lane.id])
    assert stuck.overdue_lanes([one], (), 501.0) == []
    assert stuck.overdue_lanes([one], (), 501.0 + STUCK_S) == [one]


def test_a_lane_that_went_empty_begins_anew() -> None:
    stuck, one = StuckLaneTracker(), ready()
    stuck.overdue_lanes([one], (), 0.0)
    stuck.mark_reported(one.lane.id)
    stuck.overdue_lanes([], (), 20.0)
    assert stuck.overdue_lanes([one], (), 40.0) == []
    assert stuck.overdue_lanes([one], (), 40.0 + STUCK_S) == [one]


def test_a_paused_queue_is_nobodys_trouble() -> None:
    stuck, one, slow = StuckLaneTracker(), ready(), ready(queue="slow")
    stuck.overdue_lanes([one, slow], {"slow"}, 0.0)
    assert stuck.overdue_lanes([one, slow], {"slow"}, 100.0) == [one]
    assert stuck.overdue_lanes([slow], (), 101.0) == []


def test_many_are_looked_at_a_few_at_a_time_and_none_is_forgotten() -> None:
    stuck, many = StuckLaneTracker(), [ready(priority) for priority in range(1, 26)]
    stuck.overdue_lanes(many, (), 0.0)
    found: list[int] = []
    for look in range(3):
        now = names(stuck.overdue_lanes(many, (), STUCK_S + look))
        assert len(now) <= MAX_EXPLAINED
        for one in many:
            if one.lane.priority in now:
                stuck.mark_reported(one.lane.id)
        found += now
    assert sorted(found) == list(range(1, 26))


def test_one_that_only_waits_for_its_turn_does_not_stand_before_the_others() -> None:
    stuck, many = StuckLaneTracker(), [ready(priority) for priority in range(1, 26)]
    stuck.overdue_lanes(many, (), 0.0)
    for one in stuck.overdue_lanes(many, (), STUCK_S):
        stuck.postpone_lane(one.lane.id, STUCK_S)
    assert names(stuck.overdue_lanes(many, (), STUCK_S + 1))[0] == MAX_EXPLAINED + 1


def test_the_reason_is_that_of_why() -> None:
    lane = ready().lane

    def asked(project: Project | None = None, held: int = 0, running: int = 0) -> tuple[str, str] | None:
        placer = Placer([node_state(slots=2, held=held)], rng=Random(1))
        return explain_stuck_lane(lane, project, lambda _: Use(running), placer)

    assert asked() is None
    assert asked(held=2) == ("no_node", "0 of 1 node: 1 full")
    limited = Project("p", quotas=Quotas(running=3))
    assert asked(limited, running=3) == ("quota", "quota 'running' of project p: 3 of 3 in use")
    assert asked(limited, running=2) is None
