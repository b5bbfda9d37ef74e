"""Making room, by example: who goes, and who stays."""

from __future__ import annotations

from typing import Any

import pytest

from crawlfleet.model.node import Measurement
from crawlfleet.model.project import Project, Quotas, Use
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import ClusterStatus, NodeStatus
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.preemption import (
    FreedCapacity,
    PreemptibleTask,
    PreemptionRules,
    WaitingLane,
    plan_preemptions,
)
from crawlfleet.scheduling.placement.shared_machines import share_machines
from crawlfleet.scheduling.quotas.project_quota import Allowance
from tests.node_states import node_state

SMALL = Requirement("web_crawl", preemptible=True)
URGENT = Requirement("web_crawl")


def full(node: int = 1, slots: int = 2, **fields: Any) -> NodeState:
    return node_state(node, slots=slots, held=slots, **fields)


def low(
    task: int, node: int = 1, *, since: int = 0, priority: int = 1, times: int = 0, cpu: float = 0.0
) -> PreemptibleTask:
    asked = Requirement("web_crawl", resources=(("cpu", cpu),), preemptible=True) if cpu else SMALL
    return PreemptibleTask(task, node, asked, priority, priority, since, times)


def high(size: int = 1, *, lane: int = 1, priority: int = 10, cpu: float = 0.0, waited_s: float = 5.0) -> WaitingLane:
    asked = Requirement("web_crawl", resources=(("cpu", cpu),)) if cpu else URGENT
    return WaitingLane(lane, asked, "p", priority, priority, size, waited_s)


def chosen(
    waiting: list[WaitingLane], nodes: list[NodeState], held: list[PreemptibleTask], budget: int = 10, **rules: Any
) -> list[FreedCapacity]:
    return plan_preemptions(waiting, nodes, held, [], budget=budget, rules=PreemptionRules(**rules))


def allowed(**quotas: float) -> dict[str, Allowance]:
    return {"p": Allowance(Project("p", quotas=Quotas(**quotas)), Use())}  # type: ignore[arg-type]


def tasks(rooms: list[FreedCapacity]) -> list[list[int]]:
    return [[victim.task for victim in room.victims] for room in rooms]


def test_the_youngest_goes() -> None:
    held = [low(1, since=10), low(2, since=30), low(3, 2, since=20), low(4, 2, since=5)]
    assert tasks(chosen([high()], [full(1), full(2)], held)) == [[2]]
    assert tasks(chosen([high(3)], [full(1), full(2)], held)) == [[2], [3], [1]]


def test_each_room_is_for_one_task_of_the_lane() -> None:
    rooms = chosen([high(2, lane=7)], [full()], [low(1, since=1), low(2)])
    assert [(room.lane, room.position, room.node) for room in rooms] == [(7, 0, 1), (7, 1, 1)]


@pytest.mark.parametrize(
    ("waiting", "held"),
    [
        ([high(priority=5)], [low(1, priority=5)]),
        ([high(priority=5)], [low(1, priority=4)]),
        ([high(waited_s=0.2)], [low(1)]),
        ([high()], [low(1, times=3)]),
        ([high()], [low(1)._replace(requirement=URGENT)]),
        ([high()._replace(requirement=Requirement("other"))], [low(1)]),
        ([high(cpu=8.0)], [low(1)]),
    ],
    ids=["equal", "gap", "impatient", "often", "not preemptible", "wrong type", "too large"],
)
def test_nobody_goes(waiting: list[WaitingLane], held: list[PreemptibleTask]) -> None:
    assert chosen(waiting, [full(resources=(("cpu", 4.0),))], held) == []


@pytest.mark.parametrize(
    "node",
    [
        {"status": NodeStatus.MAINTENANCE},
        {"cluster_status": ClusterStatus.INACTIVE},
        {"cluster_project": "other"},
        {"is_session_open": False},
        {"measurement": Measurement(memory=0.99)},
    ],
)
def test_nobody_goes_where_the_waiting_task_could_not_run(node: dict[str, Any]) -> None:
    assert chosen([high()], [full(**node)], [low(1)]) == []


def test_a_gap_of_one_is_enough_where_it_is_set_so() -> None:
    assert tasks(chosen([high(priority=5)], [full()], [low(1, priority=4)], min_rank_gap=1)) == [[1]]


def test_one_large_task_goes_rather_than_two_small_ones() -> None:
    node = full(slots=3, resources=(("cpu", 4.0),), reserved={"cpu": 4.0})
    held = [low(1, since=30, cpu=1.0), low(2, since=20, cpu=1.0), low(3, cpu=2.0)]
    assert tasks(chosen([high(cpu=2.0)], [node], held)) == [[3]]


def test_several_go_for_one_when_no_single_one_is_enough() -> None:
    node = full(slots=3, resources=(("cpu", 3.0),), reserved={"cpu": 3.0})
    held = [low(1, since=1, cpu=1.0), low(2, since=2, cpu=1.0), low(3, since=3, cpu=1.0)]
    assert tasks(chosen([high(cpu=2.0)], [node], held)) == [[3, 2]]
    assert chosen([high(cpu=2.0)], [node], held, budget=1) == []
    assert chosen([high(cpu=3.0)], [node], held, max_victims=2) == []


def test_a_node_whose_slots_were_lowered_has_to_lose_more() -> None:
    assert tasks(chosen([high()], [node_state(slots=1, held=2)], [low(1), low(2, since=9)])) == [[2, 1]]


def test_what_is_stopping_already_counts_as_room() -> None:
    nodes, held = [full()], [low(1)]
    assert plan_preemptions([high()], nodes, held, [(1, SMALL)], budget=10) == []
    assert tasks(plan_preemptions([high(2)], [full()], held, [(1, SMALL)], budget=10)) == [[1]]


def test_nobody_goes_when_the_room_would_be_another_s() -> None:
    """It was submitted long ago and ranks first by its age; it cannot have anybody stopped itself."""
    old = WaitingLane(5, URGENT, "p", 1, 10, 1, 900.0)
    assert chosen([old, high()], [full()], [low(1)]) == []
    elsewhere = old._replace(requirement=Requirement("other"))
    assert tasks(chosen([elsewhere, high()], [full()], [low(1)])) == [[1]]


def test_the_budget_is_for_all_together() -> None:
    held = [low(1), low(2), low(3, 2), low(4, 2)]
    assert len(chosen([high(2), high(2, lane=2)], [full(1), full(2)], held, budget=3)) == 3
    assert chosen([high()], [full()], [low(1)], budget=0) == []


def test_nobody_is_stopped_for_what_a_quota_holds_back() -> None:
    held = [low(1, since=10), low(2, since=20)]
    waiting = [high(5), high(5, lane=2, priority=9)]
    rooms = plan_preemptions(waiting, [full()], held, [], budget=10, allowances=allowed(running=1))
    assert [(room.lane, [victim.task for victim in room.victims]) for room in rooms] == [(1, [2])]
    assert plan_preemptions(waiting, [full()], held, [], budget=10, allowances=allowed(running=0)) == []


def test_what_finds_no_room_uses_up_no_quota() -> None:
    nowhere = WaitingLane(3, Requirement("nobody runs it"), "p", 10, 10, 5, 5.0)
    rooms = plan_preemptions([nowhere, high()], [full()], [low(1)], [], budget=10, allowances=allowed(running=1))
    assert tasks(rooms) == [[1]]


def test_resources_that_are_promised_more_than_once_are_room() -> None:
    nodes = [full(resources=(("cpu", 2.0),), reserved={"cpu": 2.0})]
    waiting, held = [high(cpu=2.0)], [low(1, cpu=1.0), low(2, cpu=1.0, since=1)]
    assert tasks(plan_preemptions(waiting, nodes, held, [], budget=10, overcommit=1.5)) == [[2]]


def test_agents_of_one_machine_stay_on_one_account() -> None:
    machine: dict[str, Any] = {"machine": "m", "resources": (("cpu", 4.0),)}
    nodes = [
        node_state(1, slots=1, held=1, reserved={"cpu": 1.0}, **machine),
        node_state(2, slots=2, held=1, reserved={"cpu": 3.0}, **machine),
    ]
    share_machines(nodes)
    held = [low(1, 1, since=9, cpu=1.0), low(2, 2, cpu=3.0)]
    rooms = plan_preemptions([high(2, cpu=2.0)], nodes, held, [], budget=10)
    assert tasks(rooms) == [[2], [1]], "what the one leaves of its cores is there for the other"
    assert nodes[0].reserved is nodes[1].reserved
