import random

from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.control.leader.failed_node_memory import MAX_TASKS, FailedNodeMemory
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.placement.retry_placement import avoid_failed_nodes
from tests.node_states import node_state


def nobody(_node: int) -> NodeState | None:
    return None


def ids(nodes: list[NodeState]) -> list[int]:
    return [state.node.id for state in nodes]


def test_a_task_changes_places_with_one_that_does_not_mind() -> None:
    chosen = [node_state(1), node_state(1), node_state(2)]
    assert ids(avoid_failed_nodes([10, 11, 12], chosen, {11: 1}, nobody)) == [1, 2, 1]


def test_two_that_failed_on_each_others_node_change_places() -> None:
    chosen = [node_state(1), node_state(2)]
    assert ids(avoid_failed_nodes([10, 11], chosen, {10: 1, 11: 2}, nobody)) == [2, 1]


def test_nobody_is_sent_to_where_it_failed_for_the_sake_of_another() -> None:
    chosen = [node_state(1), node_state(2)]
    assert ids(avoid_failed_nodes([10, 11], chosen, {10: 1, 11: 1}, nobody)) == [1, 2]


def test_alone_in_its_batch_a_task_gets_another_node_if_there_is_one() -> None:
    other = node_state(7)
    assert ids(avoid_failed_nodes([10], [node_state(1)], {10: 1}, lambda _node: other)) == [7]
    assert ids(avoid_failed_nodes([10], [node_state(1)], {10: 1}, nobody)) == [1]


def test_what_failed_nowhere_stays_where_it_is() -> None:
    chosen = [node_state(2), node_state(1)]
    assert ids(avoid_failed_nodes([10, 11], chosen, {12: 1}, nobody)) == [2, 1]


def test_the_placer_knows_another_node_with_room() -> None:
    nodes = [node_state(1, slots=100), node_state(2, slots=2), node_state(3, slots=1, held=1)]
    placer = Placer(nodes, rng=random.Random(1))
    asked = Requirement("web_crawl")
    assert ids(placer.place_tasks(asked, "p", 1)) == [1]
    found = [placer.place_elsewhere(1, asked, "p") for _ in range(3)]
    assert [state and state.node.id for state in found] == [2, 2, None]
    assert [state.held for state in nodes] == [1, 2, 1]


def test_a_placer_that_is_kept_counts_on_the_other_node() -> None:
    nodes = [node_state(1, slots=2), node_state(2, slots=2)]
    placer = Placer(nodes, rng=random.Random(1))
    for strategy in ("least_loaded", "round_robin"):
        asked = Requirement("web_crawl", strategy=strategy)
        (first,) = placer.place_tasks(asked, "p", 1)
        other = placer.place_elsewhere(first.node.id, asked, "p")
        assert other is not None
        assert other is not first
        placer.begin_pass()
    assert placer.place_tasks(Requirement("web_crawl"), "p", 9) == []


places = st.lists(st.integers(1, 4), min_size=1, max_size=12)


@given(places, st.data())
def test_the_same_nodes_are_used_and_nobody_is_worse_off(chosen: list[int], data: st.DataObject) -> None:
    states = {number: node_state(number) for number in range(1, 5)}
    tasks = list(range(100, 100 + len(chosen)))
    failed_on = {task: data.draw(st.integers(1, 4)) for task in tasks if data.draw(st.booleans())}
    before = [states[number] for number in chosen]
    after = avoid_failed_nodes(tasks, before, failed_on, nobody)
    assert sorted(ids(after)) == sorted(chosen)

    def wrong(nodes: list[NodeState]) -> int:
        return sum(failed_on.get(task) == state.node.id for task, state in zip(tasks, nodes, strict=True))

    assert wrong(after) <= wrong(before)
    if wrong(after):
        # Whoever is left at its node can change places with nobody.
        stuck = next(place for place, task in enumerate(tasks) if failed_on.get(task) == after[place].node.id)
        last = after[stuck].node.id
        assert all(
            state.node.id == last or failed_on.get(task) == last for task, state in zip(tasks, after, strict=True)
        )


def test_what_is_avoided_is_remembered_until_it_is_placed_and_never_without_bound() -> None:
    avoided = FailedNodeMemory()
    assert not avoided
    avoided.remember_failures({1: 7, 2: 8})
    assert avoided.failed_nodes([2, 3]) == {2: 8}
    avoided.forget_tasks([1, 2, 3])
    assert not avoided
    avoided.remember_failures(dict.fromkeys(range(MAX_TASKS + 10), 1))
    assert len(avoided.failed_nodes(range(MAX_TASKS + 10))) == MAX_TASKS
