"""Checks the graph of a flow before anything is stored: dependencies, and which steps may refer to which."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crawlfleet.errors import InvalidInput
from crawlfleet.model.flow import ONS, StepKey
from crawlfleet.scheduling.flows.expressions import BadExpression, Expression, parse

REFERENCE = "$from"
_DEFAULT = "default"
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""Pattern of the keys that an expression can name without quotes."""
_OF_A_STEP = ("status", "result", "results", "reason")
_OF_AN_ITEM = ("item", "index")


@dataclass(frozen=True, slots=True)
class Draft:
    """A step as it was submitted."""

    after: Mapping[StepKey, str]
    when: str | None = None
    for_each: str | list[Any] | None = None
    parameters: Any = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked step."""

    sees: frozenset[StepKey]
    has_references: bool


def plan(drafts: Mapping[StepKey, Draft]) -> dict[StepKey, Plan]:
    """Check the steps and plan each one, parents first. Raises InvalidInput, with the field named."""
    for key, draft in drafts.items():
        _check_names(key, draft, drafts)
    before: dict[StepKey, frozenset[StepKey]] = {}
    planned = {}
    for key in _in_order(drafts):
        draft = drafts[key]
        before[key] = frozenset(draft.after).union(*(before[parent] for parent in draft.after))
        named, has_references = _check_expressions(key, draft, before[key], drafts)
        planned[key] = Plan(frozenset(draft.after) | named, has_references)
    return planned


def _check_names(key: StepKey, draft: Draft, drafts: Mapping[StepKey, Draft]) -> None:
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


def _in_order(drafts: Mapping[StepKey, Draft]) -> Iterator[StepKey]:
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
        cycle = _cycle(left, drafts)
        raise InvalidInput(f"steps wait for each other: {' -> '.join(cycle)}", field=f"steps.{cycle[0]}.after")


def _cycle(left: Mapping[StepKey, None], drafts: Mapping[StepKey, Draft]) -> list[StepKey]:
    """One of the cycles among steps none of which can begin: each of them has a parent among them."""
    way = [next(iter(left))]
    while True:
        parent = next(parent for parent in drafts[way[-1]].after if parent in left)
        if parent in way:
            return [parent, *reversed(way[way.index(parent) :])]
        way.append(parent)


def _check_expressions(
    key: StepKey, draft: Draft, before: frozenset[StepKey], drafts: Mapping[StepKey, Draft]
) -> tuple[frozenset[StepKey], bool]:
    """The steps that the step's expressions name, and whether its parameters have references."""
    field = f"steps.{key}"
    found = [
        (f"{field}.{word}", text, False)
        for word, text in (("when", draft.when), ("for_each", draft.for_each))
        if isinstance(text, str)
    ]
    references = list(expressions_in(draft.parameters, f"{field}.task.parameters"))
    found += [(path, text, draft.for_each is not None) for path, text in references]
    named: set[StepKey] = set()
    for path, text, is_of_item in found:
        try:
            named.update(_named(parse(text), before, drafts, is_of_item=is_of_item))
        except BadExpression as exc:
            raise InvalidInput(str(exc), field=path) from exc
    return frozenset(named), bool(references)


def _named(
    expression: Expression, before: frozenset[StepKey], drafts: Mapping[StepKey, Draft], *, is_of_item: bool
) -> Iterator[StepKey]:
    for first, *rest in expression.names():
        if first in _OF_AN_ITEM and is_of_item:
            continue
        if first != "steps":
            known = ("steps", *_OF_AN_ITEM) if is_of_item else ("steps",)
            raise BadExpression(f"{first!r} means nothing here; an expression begins with {' or '.join(known)}")
        if not rest:
            continue
        step = rest[0]
        if step not in drafts:
            raise BadExpression(f"there is no step {step!r}")
        if step not in before:
            raise BadExpression(f"step {step} is not before this one: name it in `after`")
        if len(rest) > 1 and rest[1] not in _OF_A_STEP:
            raise BadExpression(f"a step has {', '.join(_OF_A_STEP)}, not {rest[1]!r}")
        yield step


def expressions_in(template: Any, path: str) -> Iterator[tuple[str, str]]:
    """The references in parameters, each with its path. Raises InvalidInput for a malformed one."""
    stack: list[tuple[Any, str]] = [(template, path)]
    while stack:
        value, at = stack.pop()
        if isinstance(value, dict):
            if REFERENCE in value:
                others = value.keys() - {REFERENCE, _DEFAULT}
                if others or not isinstance(value[REFERENCE], str):
                    raise InvalidInput(f"a reference is {{{REFERENCE!r}: expression}}, with a default or not", field=at)
                yield at, value[REFERENCE]
            else:
                stack.extend((inner, f"{at}.{name}"[:200]) for name, inner in value.items())
        elif isinstance(value, list):
            stack.extend((inner, f"{at}[{position}]"[:200]) for position, inner in enumerate(value))


def is_reference(value: Any) -> bool:
    return isinstance(value, dict) and REFERENCE in value
