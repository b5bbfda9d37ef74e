"""What becomes of a step: the rules, one by one, and of any graph under any outcomes."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model import limits
from crawlfleet.model.flow import Ended, FlowStatus, StepSpec, Unrun
from crawlfleet.model.ids import IdFactory, ids_from
from crawlfleet.model.status import TaskStatus, is_legal
from crawlfleet.scheduling.flows.flow_steps import (
    EndUnrun,
    FailStep,
    FanInResult,
    FanOut,
    RunStep,
    StepDecision,
    StepState,
    count_fitting_results,
    decide_step,
    flow_status,
    gather_results,
    steps_to_resume,
)

S = TaskStatus
DONE = Ended(S.COMPLETED, {"n": 3, "urls": ["x", "y"], "nothing": None})
FAILED = Ended(S.FAILED, None, "it broke")
SKIPPED = Ended(S.CANCELLED, None, "not wanted", Unrun.SKIPPED)
BROKEN = Ended(S.CANCELLED, None, "depends on step z, which ended failed", Unrun.BROKEN)
STOPPED = Ended(S.CANCELLED, None, "a person said so")
TIMEOUT = Ended(S.TIMEOUT)


def decided(ended: Mapping[str, Ended], **fields: Any) -> StepDecision:
    spec = StepSpec(**{"after": dict.fromkeys(ended, "success"), "sees": dict.fromkeys(ended, 1), **fields})
    return decide_step("me", spec, ended)


@pytest.mark.parametrize(
    ("on", "end", "expected"),
    [
        ("success", DONE, None),
        ("success", FAILED, Unrun.BROKEN),
        ("success", TIMEOUT, Unrun.BROKEN),
        ("success", STOPPED, Unrun.BROKEN),
        ("success", BROKEN, Unrun.BROKEN),
        ("success", SKIPPED, Unrun.SKIPPED),
        ("failure", DONE, Unrun.SKIPPED),
        ("failure", FAILED, None),
        ("failure", TIMEOUT, None),
        ("failure", STOPPED, None),
        ("failure", BROKEN, None),
        ("failure", SKIPPED, Unrun.SKIPPED),
        ("always", DONE, None),
        ("always", FAILED, None),
        ("always", SKIPPED, None),
        ("always", BROKEN, None),
    ],
)
def test_an_edge_and_an_end_say_whether_a_step_runs(on: str, end: Ended, expected: Unrun | None) -> None:
    found = decided({"a": end}, after={"a": on})
    assert found == RunStep(None) if expected is None else isinstance(found, EndUnrun) and found.unrun is expected


def test_what_is_broken_outranks_what_is_only_not_needed() -> None:
    for order in ("ab", "ba"):
        found = decided({"a": SKIPPED, "b": FAILED}, after=dict.fromkeys(order, "success"))
        assert found == EndUnrun(Unrun.BROKEN, "depends on step b, which ended failed")


def test_the_first_reason_is_passed_on() -> None:
    assert decided({"a": SKIPPED}) == EndUnrun(Unrun.SKIPPED, "not wanted")
    assert decided({"a": BROKEN}) == EndUnrun(Unrun.BROKEN, "depends on step z, which ended failed")


def test_a_condition_is_asked_after_the_edges() -> None:
    assert decided({"a": FAILED}, when="nonsense(") == EndUnrun(Unrun.BROKEN, "depends on step a, which ended failed")
    assert decided({"a": DONE}, when="steps.a.result.n == `3`") == RunStep(None)
    assert decided({"a": DONE}, when="steps.a.result.n == `4`") == EndUnrun(
        Unrun.SKIPPED, "condition of step me not met: steps.a.result.n == `4`"
    )
    assert decided({"a": FAILED}, after={"a": "always"}, when="steps.a.status == 'failed'") == RunStep(None)


def test_references_are_filled_where_they_stand() -> None:
    template = {"a": [{"$from": "steps.a.result.urls"}, 1], "b": {"c": {"$from": "steps.a.result.n"}}, "d": "é"}
    assert decided({"a": DONE}, template=template) == RunStep('{"a":[["x","y"],1],"b":{"c":3},"d":"é"}'.encode())


def test_a_reference_that_gives_nothing_needs_a_default() -> None:
    assert decided({"a": DONE}, template={"x": [{"$from": "steps.a.result.nothing"}]}) == FailStep(
        "parameters.x[0]: steps.a.result.nothing gives nothing"
    )
    for default in (None, 5, {"$from": "is not looked at"}):
        found = decided({"a": DONE}, template={"x": {"$from": "steps.a.result.no", "default": default}})
        assert isinstance(found, RunStep)
        assert json.loads(found.parameters or b"") == {"x": default}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"for_each": "steps.a.result.n", "max_items": 9}, "for_each: steps.a.result.n gives a number, not a list"),
        ({"for_each": "steps.a.result.no", "max_items": 9}, "for_each: steps.a.result.no gives nothing, not a list"),
        ({"for_each": "steps.a.result.urls", "max_items": 1}, "for_each: 2 items, where at most 1 are taken"),
        ({"when": "abs(steps.a.result.urls)"}, "when: abs(steps.a.result.urls): "),
        ({"template": {"x": {"$from": "to_number('nan')"}}}, "parameters: cannot be written as JSON"),
    ],
)
def test_what_is_not_as_needed_fails_the_step(fields: dict[str, Any], reason: str) -> None:
    found = decided({"a": DONE}, **fields)
    assert isinstance(found, FailStep)
    assert found.reason.startswith(reason)


def test_parameters_that_grow_too_large_fail_the_step() -> None:
    big = Ended(S.COMPLETED, "x" * (limits.PARAMETERS_BYTES // 2))
    found = decided({"a": big}, template={"x": [{"$from": "steps.a.result"}] * 3})
    assert isinstance(found, FailStep)
    assert "bytes; at most" in found.reason


def test_all_items_together_have_one_budget() -> None:
    big = Ended(S.COMPLETED, {"list": list(range(1_000)), "text": "x" * 60_000})
    template = {"x": {"$from": "steps.a.result.text"}, "i": {"$from": "item"}}
    found = decided({"a": big}, for_each="steps.a.result.list", max_items=1_000, template=template)
    assert isinstance(found, FailStep)
    assert "costs more" in found.reason


def test_a_fan_out_of_the_most_items_is_within_its_budget() -> None:
    many = Ended(S.COMPLETED, [{"url": f"https://shop.example/product/{n}"} for n in range(limits.FAN_OUT_MAX)])
    template = {"url": {"$from": "item.url"}, "index": {"$from": "index"}, "depth": 0}
    found = decided({"a": many}, for_each="steps.a.result", max_items=limits.FAN_OUT_MAX, template=template)
    assert isinstance(found, FanOut)
    assert json.loads(found.parameters[-1]) == {
        "url": f"https://shop.example/product/{limits.FAN_OUT_MAX - 1}",
        "index": limits.FAN_OUT_MAX - 1,
        "depth": 0,
    }


def test_an_empty_list_is_gathered_at_once() -> None:
    found = decided({"a": Ended(S.COMPLETED, [])}, for_each="steps.a.result", max_items=3, template={})
    assert found == FanInResult(True, b'{"results":[],"completed":0,"failed":0}')


def test_results_are_gathered_in_order() -> None:
    items = [(S.COMPLETED, b"1"), (S.FAILED, None), (S.COMPLETED, None), (None, None)]
    found = gather_results(items, 1, allow_failures=False)
    assert found == FanInResult(
        False, b'{"results":[1,null,null,null],"completed":2,"failed":2,"cut":1}', "2 of 4 items did not complete"
    )
    assert gather_results(items, 0, allow_failures=True).is_completed
    told = json.loads(gather_results(items, 0, allow_failures=True, reasons={1: 'a "bad" end', 3: "x" * 5_000}).result)
    assert told["reasons"] == {"1": 'a "bad" end', "3": "x" * 200}
    assert count_fitting_results([1, 1]) == 2
    assert count_fitting_results([1 << 19, 1 << 19, 1]) == 2
    assert count_fitting_results([1 << 21]) == 0


def test_the_whole_is_what_its_steps_are() -> None:
    assert flow_status([(S.COMPLETED, Unrun.NOT), (S.WAITING, Unrun.NOT)]) is FlowStatus.RUNNING
    assert flow_status([(S.COMPLETED, Unrun.NOT), (S.CANCELLED, Unrun.SKIPPED)]) is FlowStatus.COMPLETED
    assert flow_status([(S.TIMEOUT, Unrun.NOT), (S.CANCELLED, Unrun.BROKEN)]) is FlowStatus.FAILED
    assert flow_status([(S.CANCELLED, Unrun.NOT), (S.CANCELLED, Unrun.BROKEN)]) is FlowStatus.CANCELLED


@pytest.mark.parametrize("want", list(TaskStatus))
def test_only_a_waiting_step_ends_without_having_run(want: TaskStatus) -> None:
    is_end = want in (S.COMPLETED, S.FAILED)
    assert is_legal(S.WAITING, want, is_unrun=True) == (is_legal(S.WAITING, want) or is_end)
    assert not is_legal(S.WAITING, want) or not is_end
    for have in TaskStatus:
        if have is not S.WAITING:
            assert is_legal(have, want, is_unrun=True) == is_legal(have, want)


@given(st.integers(0, 1023), st.integers(0, 5_000), st.integers(1, 10_000))
def test_ids_that_were_set_aside_are_found_from_the_first(boot: int, before: int, count: int) -> None:
    ids = IdFactory(boot, lambda: 1_767_225_600_000)
    ids.new_ids(before)
    taken = ids.new_ids(count)
    assert ids_from(taken[0], count) == taken


# -- any graph

ENDS = (S.COMPLETED, S.FAILED, S.TIMEOUT, S.CANCELLED)


@st.composite
def runs(draw: st.DrawFn) -> tuple[dict[str, dict[str, str]], dict[str, TaskStatus], dict[str, bool]]:
    count = draw(st.integers(1, 8))
    graph, outcomes, conditions = {}, {}, {}
    for number in range(count):
        earlier = draw(st.sets(st.sampled_from([f"s{n}" for n in range(number)]), max_size=3)) if number else set()
        on = st.sampled_from(["success", "failure", "always"])
        graph[f"s{number}"] = {parent: draw(on) for parent in sorted(earlier)}
        outcomes[f"s{number}"] = draw(st.sampled_from(ENDS))
        conditions[f"s{number}"] = draw(st.booleans())
    return graph, outcomes, conditions


def played(
    graph: Mapping[str, Mapping[str, str]], outcomes: Mapping[str, TaskStatus], conditions: Mapping[str, bool]
) -> dict[str, Ended]:
    ended: dict[str, Ended] = {}
    for key, after in graph.items():
        spec = StepSpec(after=after, sees=dict.fromkeys(after, 1), when="`true`" if conditions[key] else "`false`")
        decision = decide_step(key, spec, {parent: ended[parent] for parent in after})
        if isinstance(decision, EndUnrun):
            ended[key] = Ended(S.CANCELLED, None, decision.reason, decision.unrun)
        else:
            assert decision == RunStep(None)
            ended[key] = Ended(outcomes[key])
    return ended


@given(runs())
def test_every_step_ends_as_its_edges_say(
    run: tuple[dict[str, dict[str, str]], dict[str, TaskStatus], dict[str, bool]],
) -> None:
    graph, outcomes, conditions = run
    ended = played(graph, outcomes, conditions)
    for key, after in graph.items():
        is_good = {parent: ended[parent].status is S.COMPLETED for parent in after}
        is_skipped = {parent: ended[parent].unrun is Unrun.SKIPPED for parent in after}
        is_bad = {parent: not is_good[parent] and not is_skipped[parent] for parent in after}
        fits = all(
            {"success": is_good[parent], "failure": is_bad[parent], "always": True}[on] for parent, on in after.items()
        )
        has_run = ended[key].unrun is Unrun.NOT
        assert has_run == (fits and conditions[key])
        is_broken = any(on == "success" and is_bad[parent] for parent, on in after.items())
        assert (ended[key].unrun is Unrun.BROKEN) == is_broken
        assert has_run or ended[key].reason


@given(runs())
def test_a_resumed_flow_in_which_all_goes_well_ends_well_and_keeps_what_completed(
    run: tuple[dict[str, dict[str, str]], dict[str, TaskStatus], dict[str, bool]],
) -> None:
    graph, outcomes, conditions = run
    ended = played(graph, outcomes, conditions)
    states = {key: StepState(list(after), ended[key].status, ended[key].unrun) for key, after in graph.items()}
    again = steps_to_resume(states)
    for key, end in ended.items():
        assert end.status is not S.COMPLETED or key not in again
        if end.status is not S.COMPLETED and end.unrun is not Unrun.SKIPPED:
            assert key in again
    kept = {key: end for key, end in ended.items() if key not in again}
    for key, after in graph.items():
        if key in again:
            spec = StepSpec(after=after, sees=dict.fromkeys(after, 1), when="`true`" if conditions[key] else "`false`")
            decision = decide_step(key, spec, {parent: kept[parent] for parent in after})
            is_run = not isinstance(decision, EndUnrun)
            kept[key] = Ended(S.COMPLETED) if is_run else Ended(S.CANCELLED, None, decision.reason, decision.unrun)  # type: ignore[union-attr]
    assert flow_status((end.status, end.unrun) for end in kept.values()) is FlowStatus.COMPLETED
