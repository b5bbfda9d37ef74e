"""The graph of a flow before it is stored: what is refused, with which field."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.errors import InvalidInput
from crawlfleet.scheduling.flows.flow_graph import StepDraft, plan_steps


def drafts(**steps: Mapping[str, Any]) -> dict[str, StepDraft]:
    return {key: StepDraft(**{"after": {}, **step}) for key, step in steps.items()}


def refused(steps: Mapping[str, StepDraft]) -> tuple[str | None, str]:
    with pytest.raises(InvalidInput) as caught:
        plan_steps(steps)
    return caught.value.field, caught.value.detail


def test_parents_come_first_and_the_rest_as_it_was_written() -> None:
    steps = drafts(c={"after": {"b": "success"}}, a={}, b={"after": {"a": "always"}}, d={})
    assert list(plan_steps(steps)) == ["a", "d", "b", "c"]


def test_a_step_sees_its_parents_and_the_earlier_ones_it_names() -> None:
    named = {"x": [{"$from": "steps.a.result"}]}
    steps = drafts(a={}, b={"after": {"a": "success"}}, c={"after": {"b": "success"}, "parameters": named})
    found = plan_steps(steps)
    assert (found["b"].sees, found["b"].has_references) == (frozenset("a"), False)
    assert (found["c"].sees, found["c"].has_references) == (frozenset("ab"), True)


@pytest.mark.parametrize(
    ("steps", "field", "detail"),
    [
        (drafts(a={"after": {"a": "success"}}), "steps.a.after.a", "depends on itself"),
        (drafts(a={"after": {"x": "success"}}), "steps.a.after.x", "there is no step 'x'"),
        (drafts(a={}, b={"after": {"a": "later"}}), "steps.b.after.a", "'later' is none of success, failure, always"),
        (drafts(**{"a-b": {}}), "steps", "is no key"),
        (drafts(**{"": {}}), "steps", "is no key"),
        (drafts(**{"a" * 65: {}}), "steps", "is no key"),
        (drafts(a={"when": "steps..x"}), "steps.a.when", "position 6"),
        (drafts(a={"when": "steps.b.result"}, b={}), "steps.a.when", "step b is not before this one"),
        (drafts(a={"when": "steps.z.result"}), "steps.a.when", "there is no step 'z'"),
        (drafts(a={"when": "steps.a.result"}), "steps.a.when", "step a is not before this one"),
        (drafts(a={}, b={"after": {"a": "success"}, "when": "steps.a.urls"}), "steps.b.when", "a step has status"),
        (drafts(a={"when": "item > `1`"}), "steps.a.when", "'item' means nothing here"),
        (drafts(a={"when": "list.result"}), "steps.a.when", "an expression begins with steps"),
        (drafts(a={"for_each": "steps.b.result"}), "steps.a.for_each", "there is no step 'b'"),
        (drafts(a={"parameters": {"x": [1, {"$from": "item"}]}}), "steps.a.task.parameters.x[1]", "'item' means"),
        (drafts(a={"parameters": {"x": {"$from": 1}}}), "steps.a.task.parameters.x", "a reference is"),
        (drafts(a={"parameters": {"x": {"$from": "steps", "y": 1}}}), "steps.a.task.parameters.x", "a reference is"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(steps: Mapping[str, StepDraft], field: str, detail: str) -> None:
    found = refused(steps)
    assert found[0] == field
    assert detail in found[1]


def test_a_cycle_is_named() -> None:
    steps = drafts(
        a={},
        b={"after": {"a": "success", "d": "always"}},
        c={"after": {"b": "success"}},
        d={"after": {"c": "success"}},
        e={"after": {"d": "success"}},
    )
    assert refused(steps) == ("steps.b.after", "steps wait for each other: b -> c -> d -> b")


def test_items_are_seen_only_by_the_parameters_of_a_fan_out() -> None:
    steps = drafts(a={"for_each": [1, 2], "parameters": {"x": {"$from": "item"}, "n": {"$from": "index"}}})
    assert plan_steps(steps)["a"].has_references
    assert refused(drafts(a={"for_each": "item"}))[0] == "steps.a.for_each"


KEYS = [f"s{n}" for n in range(8)]
GRAPHS = st.dictionaries(
    st.sampled_from(KEYS),
    st.dictionaries(st.sampled_from([*KEYS, "nobody"]), st.sampled_from(["success", "always"]), max_size=3),
    min_size=1,
)


@given(GRAPHS)
def test_any_graph_is_put_in_order_or_refused(graph: dict[str, dict[str, str]]) -> None:
    steps = {key: StepDraft(after) for key, after in graph.items()}
    try:
        order = list(plan_steps(steps))
    except InvalidInput as exc:
        if "wait for each other" in exc.detail:
            cycle = exc.detail.partition(": ")[2].split(" -> ")
            assert cycle[0] == cycle[-1]
            assert all(before in graph[after] for before, after in pairwise(cycle))
        else:
            key, _, parent = (exc.field or "").removeprefix("steps.").partition(".after.")
            assert parent == key or parent not in graph
        return
    assert sorted(order) == sorted(graph)
    for at, key in enumerate(order):
        assert set(graph[key]) <= set(order[:at])
