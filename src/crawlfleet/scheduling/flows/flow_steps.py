"""Decides what a step of a flow does when the last of its parents has ended.

A step is decided once, when all it depends on has ended, so that the decision follows from their ends alone, in
whatever order they came. The store calls this inside the transaction in which the last of them ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from crawlfleet.model import limits
from crawlfleet.model.flow import ONS, Edge, Ended, FlowStatus, StepKey, StepSpec, Unrun
from crawlfleet.model.status import TaskStatus
from crawlfleet.scheduling.flows.expressions import (
    EvaluationBudget,
    EvaluationError,
    evaluate_expression,
    is_truthy,
    parse_expression,
)
from crawlfleet.scheduling.flows.flow_graph import REFERENCE, is_reference

MAX_SEEN_BYTES = 4 << 20
"""Limit on the results that one step may look at."""
MAX_GATHERED_BYTES = 1 << 20
"""Limit on the results that a fan-in puts together; a result that does not fit is null, and counted."""
MAX_REASONS = 1_000
"""Limit on the items of a fan-out for which the result has the reason why they did not complete."""
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class RunStep:
    parameters: bytes | None
    """Filled parameters; None: as they are."""


@dataclass(frozen=True, slots=True)
class FanOut:
    parameters: Sequence[bytes]
    """Filled parameters of each item."""


@dataclass(frozen=True, slots=True)
class EndUnrun:
    """The step ends cancelled, without having run."""

    unrun: Unrun
    reason: str


@dataclass(frozen=True, slots=True)
class FailStep:
    reason: str


@dataclass(frozen=True, slots=True)
class FanInResult:
    is_completed: bool
    result: bytes
    reason: str | None = None


StepDecision = RunStep | FanOut | EndUnrun | FailStep | FanInResult


class _InvalidValue(Exception):
    """An expression has a value that does not fit; the message has where and why."""


def decide_step(key: StepKey, spec: StepSpec, ended: Mapping[StepKey, Ended]) -> StepDecision:
    """Decide a step; `ended` are the steps it may refer to, as far as they have ended."""
    if (not_run := _check_edges(spec, ended)) is not None:
        return not_run
    budget = EvaluationBudget()
    data: dict[str, Any] = {"steps": {name: _step_data(step) for name, step in ended.items()}}
    try:
        if spec.when is not None and not is_truthy(_evaluate(spec.when, data, budget, "when")):
            return EndUnrun(Unrun.SKIPPED, f"condition of step {key} not met: {spec.when}"[: limits.MESSAGE_CHARS])
        if spec.for_each is None:
            return RunStep(None if spec.template is None else _fill_parameters(spec.template, data, budget))
        items = _fan_out_items(spec, data, budget)
        if not items:
            return gather_results([], 0, allow_failures=spec.allow_failures)
        return FanOut(
            [
                _fill_parameters(spec.template, {**data, "item": item, "index": index}, budget)
                for index, item in enumerate(items)
            ]
        )
    except _InvalidValue as exc:
        return FailStep(str(exc)[: limits.MESSAGE_CHARS])


def count_fitting_results(sizes: Sequence[int]) -> int:
    """How many of the first results, of these sizes, a fan-in has room for."""
    bytes_left = MAX_GATHERED_BYTES
    for count, size in enumerate(sizes):
        bytes_left -= size
        if bytes_left < 0:
            return count
    return len(sizes)


def gather_results(
    items: Sequence[tuple[TaskStatus | None, bytes | None]],
    cut: int,
    *,
    allow_failures: bool,
    reasons: Mapping[int, str] | None = None,
) -> FanInResult:
    """Gather the results of a fan-out as JSON, in the order of its list; null for an item that did not complete.

    `cut` is how many results were left out for want of room. `reasons` has why items did not complete, by index.
    """
    completed = sum(status is TaskStatus.COMPLETED for status, _ in items)
    failed = len(items) - completed
    results = b",".join(result or b"null" for _, result in items)
    counts = f'"completed":{completed},"failed":{failed}' + (f',"cut":{cut}' if cut else "")
    if reasons:
        shown = {index: text[:_SHOWN_CHARS] for index, text in islice(reasons.items(), MAX_REASONS)}
        counts += f',"reasons":{json.dumps(shown)}'
    reason = f"{failed} of {len(items)} items did not complete" if failed else None
    return FanInResult(not failed or allow_failures, b'{"results":[%s],%s}' % (results, counts.encode()), reason)


class StepState(NamedTuple):
    after: Sequence[StepKey]
    status: TaskStatus
    unrun: Unrun


def steps_to_resume(steps: Mapping[StepKey, StepState]) -> set[StepKey]:
    """Steps that run again: those that ended badly, and those after them that did not complete.

    `steps` are in order, parents first. What was skipped because of one that runs again is looked at again as well.
    """
    resumed: set[StepKey] = set()
    for key, step in steps.items():
        is_over = step.status.is_final and step.status is not TaskStatus.COMPLETED
        if is_over and (step.unrun is not Unrun.SKIPPED or not resumed.isdisjoint(step.after)):
            resumed.add(key)
    return resumed


def flow_status(steps: Iterable[tuple[TaskStatus, Unrun]]) -> FlowStatus:
    """The status of a flow, from its steps."""
    step_states = {(status, unrun) for status, unrun in steps if unrun is not Unrun.SKIPPED or not status.is_final}
    statuses = {status for status, _ in step_states}
    if any(not status.is_final for status in statuses):
        return FlowStatus.RUNNING
    if not statuses.isdisjoint({TaskStatus.FAILED, TaskStatus.TIMEOUT}):
        return FlowStatus.FAILED
    return FlowStatus.CANCELLED if TaskStatus.CANCELLED in statuses else FlowStatus.COMPLETED


def _check_edges(spec: StepSpec, ended: Mapping[StepKey, Ended]) -> EndUnrun | None:
    """Whether the edges keep the step from running: a broken edge goes before one that is only not needed."""
    skipped: EndUnrun | None = None
    for parent, on in spec.after.items():
        match ONS[on], _parent_end(ended.get(parent)):
            case Edge.ALWAYS, _:
                continue
            case Edge.SUCCESS, Unrun.BROKEN:
                return EndUnrun(Unrun.BROKEN, _why_broken(parent, ended.get(parent)))
            case Edge.SUCCESS, Unrun.SKIPPED:
                skipped = skipped or EndUnrun(Unrun.SKIPPED, ended[parent].reason or f"step {parent} was skipped")
            case Edge.FAILURE, Unrun.NOT | Unrun.SKIPPED:
                skipped = skipped or EndUnrun(Unrun.SKIPPED, f"step {parent} did not fail")
    return skipped


def _parent_end(parent: Ended | None) -> Unrun:
    """How a parent ended: completed, skipped, or anything else; a parent that is gone did not complete."""
    if parent is not None and parent.status is TaskStatus.COMPLETED:
        return Unrun.NOT
    return Unrun.SKIPPED if parent is not None and parent.unrun is Unrun.SKIPPED else Unrun.BROKEN


def _why_broken(key: StepKey, parent: Ended | None) -> str:
    if parent is None:
        return f"step {key}, on which it depends, is gone"
    if parent.unrun is Unrun.BROKEN and parent.reason:
        return parent.reason
    return f"depends on step {key}, which ended {parent.status.word}"


def _step_data(step: Ended) -> dict[str, Any]:
    results = step.result.get("results") if isinstance(step.result, dict) else None
    return {"status": step.status.word, "result": step.result, "results": results, "reason": step.reason}


def _fan_out_items(spec: StepSpec, data: Mapping[str, Any], budget: EvaluationBudget) -> list[Any]:
    if isinstance(spec.for_each, str):
        items = _evaluate(spec.for_each, data, budget, "for_each")
        if not isinstance(items, list):
            raise _InvalidValue(f"for_each: {_shorten(spec.for_each)} gives {_type_phrase(items)}, not a list")
    else:
        items = list(spec.for_each or ())
    if len(items) > spec.max_items:
        raise _InvalidValue(f"for_each: {len(items)} items, where at most {spec.max_items} are taken")
    return items


def _evaluate(text: str, data: Mapping[str, Any], budget: EvaluationBudget, where: str) -> Any:
    try:
        return evaluate_expression(parse_expression(text), data, budget)
    except EvaluationError as exc:
        raise _InvalidValue(f"{where}: {_shorten(text)}: {exc}") from exc


def _fill_parameters(template: Any, data: Mapping[str, Any], budget: EvaluationBudget) -> bytes:
    filled = _fill_template(template, data, budget, "parameters")
    try:
        body = json.dumps(filled, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (ValueError, RecursionError) as exc:
        raise _InvalidValue(f"parameters: cannot be written as JSON: {exc}") from exc
    if len(body) > limits.PARAMETERS_BYTES:
        raise _InvalidValue(f"parameters: {len(body)} bytes; at most {limits.PARAMETERS_BYTES} are taken")
    return body


def _fill_template(template: Any, data: Mapping[str, Any], budget: EvaluationBudget, path: str) -> Any:
    """The template with every reference replaced. Its depth was checked when it was submitted."""
    budget.charge(1)
    if is_reference(template):
        value = _evaluate(template[REFERENCE], data, budget, path)
        if value is None:
            if "default" not in template:
                raise _InvalidValue(f"{path}: {_shorten(template[REFERENCE])} gives nothing")
            value = template["default"]
        return value
    if isinstance(template, dict):
        return {name: _fill_template(inner, data, budget, f"{path}.{name}") for name, inner in template.items()}
    if isinstance(template, list):
        return [_fill_template(inner, data, budget, f"{path}[{index}]") for index, inner in enumerate(template)]
    if isinstance(template, str):
        budget.charge_value(template)
    return template


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def _type_phrase(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case dict():
            return "an object"
        case _:
            return "a number"
