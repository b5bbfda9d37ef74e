import random
from dataclasses import replace

import pytest

from crawlfleet.control.leader.cluster_view import apply_ledger_changes
from crawlfleet.control.leader.slot_ledger import SlotLedger
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.explain.task import explain_placement
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.node_classes import class_key
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.placement.shared_machines import share_machines
from crawlfleet.scheduling.placement.strategies import BUILT_IN
from tests.node_states import node_state

FOUR_CPUS = (("cpu", 4.0), ("memory_mb", 8_192.0))
ONE_CPU = Requirement("web_crawl", resources=(("cpu", 1.0),))


def agents(*machines: str) -> list[NodeState]:
    nodes = [
        node_state(number, slots=10, machine=machine, resources=FOUR_CPUS)
        for number, machine in enumerate(machines, start=1)
    ]
    share_machines(nodes)
    return nodes


def test_agents_of_one_machine_offer_it_once() -> None:
    assert len(Placer(agents("m", "m", "m"), rng=random.Random(1)).place_tasks(ONE_CPU, "p", 100)) == 4
    assert len(Placer(agents("m", "n", "n"), rng=random.Random(1)).place_tasks(ONE_CPU, "p", 100)) == 8
    assert len(Placer(agents("", "", ""), rng=random.Random(1)).place_tasks(ONE_CPU, "p", 100)) == 12


@pytest.mark.parametrize("strategy", sorted(BUILT_IN))
def test_no_strategy_promises_a_machine_twice(strategy: str) -> None:
    asked = replace(ONE_CPU, strategy=strategy)
    assert len(Placer(agents("m", "m", "m"), rng=random.Random(1)).place_tasks(asked, "p", 100)) == 4


def test_slots_stay_each_agents_own() -> None:
    nodes = agents("m", "m")
    assert len(Placer(nodes, rng=random.Random(1)).place_tasks(Requirement("web_crawl"), "p", 100)) == 20


def test_what_one_agent_holds_is_gone_for_the_others() -> None:
    nodes = [
        node_state(1, machine="m", resources=FOUR_CPUS, reserved={"cpu": 3.0}),
        node_state(2, machine="m", resources=FOUR_CPUS, reserved={"cpu": 1.0}),
    ]
    share_machines(nodes)
    assert explain_placement(ONE_CPU, "p", nodes).sentence == "0 of 2 nodes: 2 no cpu left"


def test_a_machine_has_the_most_that_any_of_its_agents_sees() -> None:
    nodes = [
        node_state(1, machine="m", resources=(("cpu", 2.0),)),
        node_state(2, machine="m", resources=(("cpu", 8.0), ("gpu", 1.0))),
    ]
    share_machines(nodes)
    assert [state.declared for state in nodes] == [{"cpu": 8.0, "gpu": 1.0}] * 2


def test_classes_that_take_turns_on_one_machine_never_promise_it_twice() -> None:
    nodes = agents("m", "m", "m")
    placer = Placer(nodes, rng=random.Random(1))
    small = Requirement("web_crawl", resources=(("cpu", 0.5),))
    for _ in range(10):
        placer.place_tasks(ONE_CPU, "p", 1)
        placer.place_tasks(small, "p", 1)
    assert nodes[0].reserved["cpu"] <= 4.0


def test_giving_back_on_one_agent_makes_room_on_the_others() -> None:
    nodes = agents("m", "m")
    placer = Placer(nodes, rng=random.Random(1))
    chosen = placer.place_tasks(ONE_CPU, "p", 4)
    assert placer.place_tasks(ONE_CPU, "p", 1) == []
    placer.release_tasks([(chosen[0].node.id, ONE_CPU)])
    assert len(placer.place_tasks(ONE_CPU, "p", 9)) == 1


def test_what_one_agent_takes_makes_the_others_dearer_too() -> None:
    nodes = [*agents("m", "m"), node_state(3, slots=10, held=1, resources=(("cpu", 40.0),))]
    placer = Placer(nodes, rng=random.Random(1))
    half = Requirement("web_crawl", resources=(("cpu", 2.0),))
    first, second = placer.place_tasks(half, "p", 2)
    assert (first.node.id in {1, 2}, second.node.id) == (True, 3)
    # Also to classes that reserve nothing, or have prices of their own.
    for strategy in ("least_loaded", "content_based"):
        assert placer.place_tasks(Requirement("web_crawl", strategy=strategy), "p", 1) == [nodes[2]]


def test_a_placer_that_is_kept_follows_what_the_machine_holds() -> None:
    nodes = agents("m", "m", "")
    placer, ledger = Placer(nodes, rng=random.Random(1)), SlotLedger()
    chosen = placer.place_tasks(ONE_CPU, "p", 8)
    assert placer.place_tasks(ONE_CPU, "p", 1) == []
    held = [(state.node.id, task) for task, state in enumerate(chosen)]
    ledger.hold_all(held, ONE_CPU, 0.0, is_unknown_to_placer=False)
    apply_ledger_changes(placer, ledger)
    assert placer.place_tasks(ONE_CPU, "p", 1) == [], "it is told nothing new"
    of_the_machine = [pair for pair in held if pair[0] in {1, 2}]
    ledger.release_all(of_the_machine[:3])
    apply_ledger_changes(placer, ledger)
    assert nodes[0].reserved is nodes[1].reserved
    assert nodes[0].reserved == {"cpu": 1.0}
    assert [state.held for state in nodes] == [len(ledger.holds_on(state.node.id)) for state in nodes]
    assert len(placer.place_tasks(ONE_CPU, "p", 9)) == 3


def test_agents_that_differ_in_machine_and_address_are_alike() -> None:
    one, other = agents("m", "n")
    assert (
        class_key(one)
        == class_key(other)
        == class_key(node_state(3, machine="o", egress="192.0.2.1", resources=FOUR_CPUS))
    )


def test_another_node_is_found_with_what_its_machine_has_left() -> None:
    nodes = [*agents("m", "m"), node_state(3, slots=1, resources=FOUR_CPUS)]
    placer = Placer(nodes, rng=random.Random(1))
    whole = Requirement("web_crawl", resources=(("cpu", 4.0),))
    assert placer.place_elsewhere(3, whole, "p") in nodes[:2]
    found = placer.place_elsewhere(1, whole, "p")
    assert found is nodes[2]
    assert placer.place_tasks(whole, "p", 1) == []
