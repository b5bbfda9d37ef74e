from typing import Any

import pytest

from crawlfleet.model.node import Measurement, Node, NodeDescription
from crawlfleet.model.requirement import Capability, Requirement
from crawlfleet.model.status import ClusterStatus, Health, NodeStatus
from crawlfleet.scheduling.placement.filters import Ask, NodeState, count_fitting, first_refusal, is_full_word
from tests.node_states import node_state


def ask(project: str = "p", overcommit: float = 1.0, **requirement: Any) -> Ask:
    return Ask(Requirement(**{"task_type": "web_crawl"} | requirement), project, overcommit)


def test_a_node_in_order_takes_a_plain_task() -> None:
    assert first_refusal(node_state(), ask()) is None


@pytest.mark.parametrize(
    ("node", "asked", "refusal"),
    [
        ({}, {"task_type": "browser"}, "wrong_task_type"),
        ({"task_types": ()}, {}, "wrong_task_type"),
        ({"cluster": "a"}, {"cluster": "b"}, "wrong_cluster"),
        ({"cluster": "a"}, {"cluster": "a"}, None),
        ({"cluster": "a"}, {"cluster": None}, None),
        ({"cluster_project": "other"}, {}, "cluster_reserved"),
        ({"cluster_project": "p"}, {}, None),
        ({"node_type": "standard"}, {"node_type": "gpu"}, "wrong_node_type"),
        ({"node_type": "gpu"}, {"node_type": "gpu"}, None),
        ({"region": "eu"}, {"target_region": "us", "require_region": True}, "wrong_region"),
        ({"region": "us"}, {"target_region": "us", "require_region": True}, None),
        ({"region": "eu"}, {"target_region": "us"}, None),
        ({"region": "eu"}, {"require_region": True}, None),
        ({"cluster_status": ClusterStatus.INACTIVE}, {}, "cluster_inactive"),
        ({"cluster_status": ClusterStatus.MAINTENANCE}, {}, "cluster_maintenance"),
        ({"status": NodeStatus.PENDING}, {}, "node_pending"),
        ({"status": NodeStatus.MAINTENANCE}, {}, "node_maintenance"),
        ({"status": NodeStatus.MAINTENANCE, "is_departing": True}, {}, "node_leaving"),
        ({"status": NodeStatus.OFFLINE}, {}, "node_offline"),
        ({"status": NodeStatus.UNRESPONSIVE}, {}, "node_unresponsive"),
        ({"is_session_open": False}, {}, "no_session"),
        ({"health": Health.UNHEALTHY}, {}, "unhealthy"),
        ({"health": Health.DEGRADED}, {}, None),
        ({"health": Health.UNKNOWN}, {}, None),
        ({"is_pull_only": True}, {}, "no_pull"),
        ({"slots": 2, "held": 2}, {}, "no_slot"),
        ({"slots": 2, "held": 5}, {}, "no_slot"),
        ({"slots": 0}, {}, "no_slot"),
        ({"measurement": Measurement(memory=0.95)}, {}, "memory_exhausted"),
        ({"measurement": Measurement(memory=0.94, cpu=1.0)}, {}, None),
    ],
)
def test_what_keeps_a_task_off_a_node(node: dict[str, Any], asked: dict[str, Any], refusal: str | None) -> None:
    assert first_refusal(node_state(**node), ask(**asked)) == refusal


@pytest.mark.parametrize(
    ("offered", "wanted", "refusal"),
    [
        (None, 1.0, "lacks:x"),
        (0.0, 1.0, "lacks:x"),
        (1.0, 2.0, "too_little:x"),
        (2.0, 2.0, None),
        (3.0, 2.0, None),
        (None, 0.0, None),
        (None, ("a",), "lacks:x"),
        ((), ("a",), "lacks:x"),
        (("a",), ("a",), None),
        (("a", "b"), ("a",), None),
        (("a",), ("a", "b"), "lacks:x/b"),
        (None, (), None),
        (1.0, ("a",), "lacks:x/a"),
        (("a",), 1.0, "lacks:x"),
    ],
)
def test_capabilities_are_at_least_and_superset(
    offered: Capability | None, wanted: Capability, refusal: str | None
) -> None:
    capabilities = () if offered is None else (("x", offered),)
    state = node_state(capabilities=(("other", 1.0), *capabilities))
    assert first_refusal(state, ask(capabilities=(("x", wanted),))) == refusal


def test_every_capability_asked_for_counts() -> None:
    state = node_state(capabilities=(("a", 1.0), ("b", 1.0)))
    assert first_refusal(state, ask(capabilities=(("a", 1.0), ("b", 1.0)))) is None
    assert first_refusal(state, ask(capabilities=(("a", 1.0), ("c", 1.0)))) == "lacks:c"


@pytest.mark.parametrize(
    ("declared", "reserved", "wanted", "overcommit", "refusal"),
    [
        ({"cpu": 4.0}, {}, {"cpu": 4.0}, 1.0, None),
        ({"cpu": 4.0}, {}, {"cpu": 4.25}, 1.0, "too_small:cpu"),
        ({"cpu": 4.0}, {}, {"cpu": 4.25}, 1.5, None),
        ({"cpu": 4.0}, {"cpu": 3.5}, {"cpu": 0.5}, 1.0, None),
        ({"cpu": 4.0}, {"cpu": 3.75}, {"cpu": 0.5}, 1.0, "no_room:cpu"),
        ({"cpu": 4.0}, {"cpu": 3.75}, {"cpu": 0.5}, 1.25, None),
        ({"cpu": 4.0}, {"cpu": 3.75}, {"cpu": 0.5}, 0.5, "no_room:cpu"),
        ({"cpu": 4.0}, {}, {"memory_mb": 64.0}, 1.0, "too_small:memory_mb"),
        ({}, {}, {"gpu": 1.0}, 9.0, "too_small:gpu"),
        ({"cpu": 4.0, "memory_mb": 64.0}, {"memory_mb": 64.0}, {"memory_mb": 64.0}, 1.0, "no_room:memory_mb"),
        ({"cpu": 4.0}, {"cpu": 4.0}, {}, 1.0, None),
    ],
)
def test_resources_are_reserved_from_what_a_node_declares(
    declared: dict[str, float],
    reserved: dict[str, float],
    wanted: dict[str, float],
    overcommit: float,
    refusal: str | None,
) -> None:
    state = node_state(resources=tuple(declared.items()), reserved=reserved)
    assert first_refusal(state, ask(resources=tuple(wanted.items()), overcommit=overcommit)) == refusal


def test_what_the_node_is_not_is_named_before_what_is_full() -> None:
    state = node_state(slots=1, held=1, health=Health.UNHEALTHY)
    assert first_refusal(state, ask(task_type="shop")) == "wrong_task_type"
    assert first_refusal(state, ask()) == "unhealthy"


@pytest.mark.parametrize("refusal", ["no_slot", "no_room:cpu", "memory_exhausted"])
def test_full_words(refusal: str) -> None:
    assert is_full_word(refusal)


@pytest.mark.parametrize("refusal", ["too_small:cpu", "wrong_region", "unhealthy", "lacks:no_slot"])
def test_words_that_do_not_mean_full(refusal: str) -> None:
    assert not is_full_word(refusal)


@pytest.mark.parametrize(
    ("held", "reserved_cpu", "resources", "overcommit", "fit"),
    [
        (0, 0.0, (), 1.0, 4),
        (3, 0.0, (), 1.0, 1),
        (9, 0.0, (), 1.0, 0),
        (0, 0.0, (), 2.0, 4),
        (0, 0.0, (("cpu", 1.0),), 1.0, 2),
        (0, 0.0, (("cpu", 1.0),), 1.5, 3),
        (0, 0.5, (("cpu", 1.0),), 1.0, 1),
        (0, 3.0, (("cpu", 1.0),), 1.0, 0),
        (0, 0.0, (("gpu", 1.0),), 1.0, 0),
        (0, 0.0, (("cpu", 0.1),), 0.15, 3),
    ],
)
def test_how_many_tasks_fit(
    held: int, reserved_cpu: float, resources: tuple[tuple[str, float], ...], overcommit: float, fit: int
) -> None:
    state = node_state(slots=4, held=held, resources=(("cpu", 2.0),), reserved={"cpu": reserved_cpu})
    assert count_fitting(state, ask(resources=resources, overcommit=overcommit)) == fit


def test_the_measurement_of_the_record_serves_when_there_is_no_newer_one() -> None:
    recorded = Measurement(memory=0.99)
    node = Node(1, NodeDescription("n", task_types=("web_crawl",)), NodeStatus.ONLINE, measurement=recorded)
    assert NodeState(node).measurement == recorded
    assert NodeState(node, measurement=Measurement()).measurement == Measurement()


def test_slots_set_by_a_person_outrank_those_the_node_offers() -> None:
    node = Node(1, NodeDescription("n", slots=8), NodeStatus.ONLINE, slots_wanted=2)
    assert NodeState(node).slots == 2
