"""Checks the graph of a flow before anything is stored: dependencies, and which steps may refer to which."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crawlfleet.errors import InvalidInput
from crawlfleet.model.flow import ONS, StepKey
from crawlfleet.scheduling.flows.expressions import Expression, InvalidExpression, parse_expression

REFERENCE = "$from"
_DEFAULT = "default"
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""Pattern of the keys that an expression can name without quotes."""
_STEP_FIELDS = ("status", "result", "results", "reason")
_ITEM_NAMES = ("item", "index")


@dataclass(frozen=True, slots=True)
class StepDraft:
    """A step as it was submitted."""

    after: Mapping[StepKey, str]
    when: str | None = None
    for_each: str | list[Any] | None = None
    parameters: Any = None


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A checked step."""

    sees: frozenset[StepKey]
    has_references: bool


def plan_steps(drafts: Mapping[StepKey, StepDraft]) -> dict[StepKey, StepPlan]:
    """Check the steps and plan each one, parents first. Raises InvalidInput, with the field named."""
    for key, draft in drafts.items():
        _check_names(key, draft, drafts)
    ancestors: dict[StepKey, frozenset[StepKey]] = {}
    planned = {}
    for key in _topological_order(drafts):
        draft = drafts[key]
        ancestors[key] = frozenset(draft.after).union(*(ancestors[parent] for parent in draft.after))
        named, has_references = _check_expressions(key, draft, ancestors[key], drafts)
        planned[key] = StepPlan(frozenset(draft.after) | named, has_references)
    return planned


def _check_names(key: StepKey, draft: StepDraft, drafts: Mapping[StepKey, StepDraft]) -> None:
    if not _KEY.fullmatch(key):
        raise InvalidInput(f"{key[:100]!r} is no key: letters, digits and _, at most 64", field="steps")
    for parent, on in draft.after.items():
        field = f"steps.{key}.after.{parent[:64]}"
        if parent == key:
            raise InvalidInput(f"step {key} depends on itself", field=field)
        if parent not in drafts:
            raise InvalidInput(f"there is no step {parent[:64]!r}", field=field)
        if on not in ONS:
            raise InvalidInput(f"{on[:64]!r} is none of {', '.join(ONS)}", field=field)


def _topological_order(drafts: Mapping[StepKey, StepDraft]) -> Iterator[StepKey]:
    """The keys of the steps, parents first, otherwise as they were written."""
    open_parents = {key: len(draft.after) for key, draft in drafts.items()}
    children: dict[StepKey, list[StepKey]] = {key: [] for key in drafts}
    for key, draft in drafts.items():
        for parent in draft.after:
            children[parent].append(key)
    ready = deque(key for key, count in open_parents.items() if not count)
    left = dict.fromkeys(drafts)
    while ready:
        key = ready.popleft()
        del left[key]
        yield key
        for child in children[key]:
            open_parents[child] -= 1
            if not open_parents[child]:
                ready.append(child)
    if left:
        cycle = _find_cycle(left, drafts)
        raise InvalidInput(f"steps wait for each other: {' -> '.join(cycle)}", field=f"steps.{cycle[0]}.after")


def _find_cycle(left: Mapping[StepKey, None], drafts: Mapping[StepKey, StepDraft]) -> list[StepKey]:
    """One of the cycles among steps none of which can begin: each of them has a parent among them."""
    path = [next(iter(left))]
    while True:
        parent = next(parent for parent in drafts[path[-1]].after if parent in left)
        if parent in path:
            return [parent, *reversed(path[path.index(parent) :])]
        path.append(parent)


def _check_expressions(
    key: StepKey, draft: StepDraft, ancestors: frozenset[StepKey], drafts: Mapping[StepKey, StepDraft]
) -> tuple[frozenset[StepKey], bool]:
    """The steps that the step's expressions name, and whether its parameters have references."""
    field = f"steps.{key}"
    expressions = [
        (f"{field}.{word}", text, False)
        for word, text in (("when", draft.when), ("for_each", draft.for_each))
        if isinstance(text, str)
    ]
    references = list(expressions_in(draft.parameters, f"{field}.task.parameters"))
    expressions += [(path, text, draft.for_each is not None) for path, text in references]
    step_keys: set[StepKey] = set()
    for path, text, in_fan_out in expressions:
        try:
            step_keys.update(_check_references(parse_expression(text), ancestors, drafts, in_fan_out=in_fan_out))
        except InvalidExpression as exc:
            raise InvalidInput(str(exc), field=path) from exc
    return frozenset(step_keys), bool(references)


def _check_references(
    expression: Expression, ancestors: frozenset[StepKey], drafts: Mapping[StepKey, StepDraft], *, in_fan_out: bool
) -> Iterator[StepKey]:
    for first, *rest in expression.referenced_names():
        if first in _ITEM_NAMES and in_fan_out:
            continue
        if first != "steps":
            roots = ("steps", *_ITEM_NAMES) if in_fan_out else ("steps",)
            raise InvalidExpression(f"{first!r} means nothing here; an expression begins with {' or '.join(roots)}")
        if not rest:
            continue
        step = rest[0]
        if step not in drafts:
            raise InvalidExpression(f"there is no step {step!r}")
        if step not in ancestors:
            raise InvalidExpression(f"step {step} is not before this one: name it in `after`")
        if len(rest) > 1 and rest[1] not in _STEP_FIELDS:
            raise InvalidExpression(f"a step has {', '.join(_STEP_FIELDS)}, not {rest[1]!r}")
        yield step


def expressions_in(template: Any, path: str) -> Iterator[tuple[str, str]]:
    """The references in parameters, each with its path. Raises InvalidInput for a malformed one."""
    stack: list[tuple[Any, str]] = [(template, path)]
    while stack:
        value, value_path = stack.pop()
        if isinstance(value, dict):
            if REFERENCE in value:
                others = value.keys() - {REFERENCE, _DEFAULT}
                if others or not isinstance(value[REFERENCE], str):
                    raise InvalidInput(
                        f"a reference is {{{REFERENCE!r}: expression}}, with a default or not", field=value_path
                    )
                yield value_path, value[REFERENCE]
            else:
                stack.extend((inner, f"{value_path}.{name}"[:200]) for name, inner in value.items())
        elif isinstance(value, list):
            stack.extend((inner, f"{value_path}[{position}]"[:200]) for position, inner in enumerate(value))


def is_reference(value: Any) -> bool:
    return isinstance(value, dict) and REFERENCE in value
