"""A user's strategy that goes wrong costs a worse choice and a warning, never a placement."""

import math
import random

import pytest

from crawlfleet.control.leader.strategy_registry import MAX_REPORTED, StrategyRegistry
from crawlfleet.errors import ConfigError
from crawlfleet.model.event import Kind
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.explain.placement_reason import placement_reason
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.placement.strategies import BUILT_IN, Candidates
from tests.node_states import node_state

MINE = Requirement("web_crawl", strategy="mine")


class ByName:
    def __init__(self, candidates: Candidates) -> None:
        self._names = sorted(state.node.description.name for state in candidates.nodes)

    def cost(self, state: NodeState, given: int) -> float:
        return self._names.index(state.node.description.name)

    def reason(self, state: NodeState) -> str:
        return f"{self._names.index(state.node.description.name) + 1}. by name"


class RaisesAtOnce:
    def __init__(self, candidates: Candidates) -> None:
        raise RuntimeError("no database")

    def cost(self, state: NodeState, given: int) -> float:
        return 0.0


class RaisesLater(ByName):
    def cost(self, state: NodeState, given: int) -> float:
        if given:
            raise KeyError("gone")
        return 0.0

    def reason(self, state: NodeState) -> str:
        raise ValueError("no idea")


class NoNumber(ByName):
    def cost(self, state: NodeState, given: int) -> float:
        return math.nan


class NoPrice(ByName):
    def cost(self, state: NodeState, given: int) -> float:
        return "cheap"  # type: ignore[return-value]


def placed(book: StrategyRegistry, count: int = 6) -> list[int]:
    nodes = [node_state(1, slots=4, held=2, name="c"), node_state(2, slots=4, name="b"), node_state(3, name="a")]
    placer = Placer(nodes, rng=random.Random(1), strategies=book.factories)
    return [state.node.id for state in placer.place_tasks(MINE, "p", count)]


def test_a_strategy_of_a_users_own_chooses() -> None:
    book = StrategyRegistry({"mine": ByName})
    assert placed(book) == [3, 3, 3, 3, 2, 2]
    assert book.pending_events == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (RaisesAtOnce, "RuntimeError: no database"),
        (RaisesLater, "KeyError: 'gone'"),
        (NoNumber, "ValueError: the price is not a number"),
        (NoPrice, "ValueError: could not convert string"),
    ],
)
def test_one_that_goes_wrong_is_told_once_and_every_task_is_placed(make: type[ByName], said: str) -> None:
    book = StrategyRegistry({"mine": make})
    for _ in range(3):
        assert len(placed(book)) == 6
    (event,) = book.pending_events
    assert event.kind is Kind.STRATEGY_FAILED
    assert (event.shared["strategy"], event.shared["used"]) == ("mine", "least_loaded")
    assert event.shared["error"].startswith(said)
    book.drop_events(1)
    assert book.pending_events == []


def test_one_that_raises_at_once_leaves_the_choice_to_least_loaded() -> None:
    assert sorted(placed(StrategyRegistry({"mine": RaisesAtOnce}), 4)) == [2, 2, 3, 3]


def test_one_that_nobody_has_is_told_once() -> None:
    book = StrategyRegistry()
    for _ in range(2):
        placer = Placer([node_state(1)], rng=random.Random(1), strategies=book.factories)
        assert placer.place_tasks(MINE, "p", 1)
        book.report_unknown(placer.unknown_strategies, "largest")
    assert [dict(event.shared) for event in book.pending_events] == [
        {"strategy": "mine", "error": "this master has no such strategy", "used": "largest"}
    ]


def test_names_that_nobody_has_do_not_fill_the_memory() -> None:
    book = StrategyRegistry()
    book.report_unknown((str(number) for number in range(2 * MAX_REPORTED)), "largest")
    assert len(book.pending_events) == MAX_REPORTED


def test_built_in_strategies_are_not_wrapped() -> None:
    assert StrategyRegistry({"mine": ByName}).factories["least_loaded"] is BUILT_IN["least_loaded"]


def test_a_reason_of_its_own_is_told_and_a_broken_one_is_not() -> None:
    state = node_state(1, slots=4, held=1)
    candidates = Candidates(MINE, [state], random.Random(1), 0)
    good, bad = StrategyRegistry({"mine": ByName}), StrategyRegistry({"mine": RaisesLater})
    assert placement_reason("mine", good.factories["mine"](candidates), state).sentence == "mine: 1. by name"
    assert placement_reason("mine", bad.factories["mine"](candidates), state).sentence == "mine: 1 of 4 slots in use"
    assert len(bad.pending_events) == 1


def test_what_could_not_be_loaded_is_a_strategy_that_raises() -> None:
    def unloadable(_candidates: Candidates) -> ByName:
        raise ConfigError("mine:Mine could not be loaded")

    book = StrategyRegistry({"mine": unloadable})
    assert len(placed(book)) == 6
    assert "could not be loaded" in book.pending_events[0].shared["error"]
