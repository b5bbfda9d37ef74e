"""The cost of a JSON schema: an upper bound of the work that one value can cause when it is validated.

A few lines of nested `$ref` and `allOf` make a validator evaluate one value a billion times, and the validator holds
the interpreter lock while it works: neither a thread nor a deadline would help. The bound is computed before a schema
is used.

In-place keywords (`allOf`, `$ref`) add up at the same value; the schema of a property or an item applies one level
down, and only schemas of the same property add up there. Recursion is followed as deep as JSON may be nested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from crawlfleet.model import limits

COST_MOST = 1_000
SUBSCHEMAS_MOST = 2_000
_STEPS_MOST = 150_000
"""Maximum number of steps of the computation itself."""
_CHAIN_MOST = 200
_PATTERN_COST = 20
_FORMAT_COST = 10

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("not", "if", "then", "else")
_IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
_ANY_PROPERTY = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_ANY_ITEM = ("additionalItems", "unevaluatedItems", "contains")
_DYNAMIC = ("$dynamicRef", "$recursiveRef")
_DEFINITIONS = ("$defs", "definitions")

Slot = tuple[str, str | int | None]
"""Place in an object (by name) or an array (by index) where a schema is applied; None: each entry of it."""


class TooCostly(Exception):
    """Raised for a schema that is not accepted, with the reason in words for the person who wrote it."""


def schema_cost(schema: Mapping[str, Any]) -> int:
    """Return the highest number of evaluations at one value of the parameters. Raises TooCostly when that cannot be
    bounded."""
    return _Analysis(schema).compute_cost()


class _Analysis:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._steps = 0
        self._schemas: dict[int, Mapping[str, Any]] = {}
        self._here: dict[int, int] = {}
        self._below: dict[int, Counter[tuple[Slot, int]]] = {}
        self._open: set[int] = set()

    def compute_cost(self) -> int:
        """Return the highest number of evaluations at any depth."""
        self._unfold_schema(self._root)
        unread = [target for _, target in self._below[id(self._root)]]
        while unread:
            number = unread.pop()
            if number not in self._here:
                self._unfold_schema(self._schemas[number])
                unread += [target for _, target in self._below[number]]
        applied = dict(self._here)
        highest = applied[id(self._root)]
        for _ in range(limits.JSON_DEPTH):
            deeper = {number: self._cost_below(number, applied) for number in applied}
            highest = max(highest, deeper[id(self._root)])
            if max(deeper.values()) > COST_MOST:
                raise TooCostly(_TOO_MUCH)
            if deeper == applied or not any(deeper.values()):
                break
            applied = deeper
        return highest

    def _unfold_schema(self, schema: Mapping[str, Any]) -> None:
        """Compute what the schema evaluates at its own value, and which schemas it applies one level below."""
        number = id(schema)
        if number in self._here:
            return
        if number in self._open:
            raise TooCostly("a $ref leads back to its own schema without going into a property or an item")
        if len(self._open) >= _CHAIN_MOST:
            raise TooCostly(f"chains more than {_CHAIN_MOST} references")
        self._open.add(number)
        # Keywords about the rest of a value evaluate what stands beside them once more.
        factor = 2 if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
        here = _own_cost(schema)
        below = Counter((slot, self._enter_schema(sub)) for slot, sub in _child_schemas(schema))
        for sub in self._in_place_schemas(schema):
            self._count_steps(1)
            if not isinstance(sub, Mapping):
                here += 1
                continue
            self._enter_schema(sub)
            self._unfold_schema(sub)
            here += factor * self._here[id(sub)]
            for key, times in self._below[id(sub)].items():
                below[key] += factor * times
            self._count_steps(len(self._below[id(sub)]))
            if here > COST_MOST:
                raise TooCostly(_TOO_MUCH)
        self._open.discard(number)
        self._here[number], self._below[number] = here, below
        if here > COST_MOST:
            raise TooCostly(_TOO_MUCH)

    def _cost_below(self, number: int, applied: Mapping[int, int]) -> int:
        """Return the cost at one value one level below: the value of a named property or item also has the schemas that
        apply to each."""
        each: Counter[str] = Counter()
        named: Counter[Slot] = Counter()
        for ((kind, name), target), times in self._below[number].items():
            if name is None:
                each[kind] += times * applied[target]
            else:
                named[kind, name] += times * applied[target]
        self._count_steps(1 + len(self._below[number]))
        most_named = {kind: max((n for slot, n in named.items() if slot[0] == kind), default=0) for kind in _KINDS}
        return max(each[kind] + most_named[kind] for kind in _KINDS)

    def _in_place_schemas(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        for keyword in _IN_PLACE_LISTS:
            if isinstance(listed := schema.get(keyword), list | tuple):
                yield from listed
        for keyword in _IN_PLACE:
            if isinstance(sub := schema.get(keyword), Mapping):
                yield sub
        for keyword in _IN_PLACE_MAPS:
            if isinstance(mapped := schema.get(keyword), Mapping):
                yield from (sub for sub in mapped.values() if isinstance(sub, Mapping))
        if any(keyword in schema for keyword in _DYNAMIC):
            raise TooCostly(f"{' and '.join(_DYNAMIC)} are not taken: their targets depend on the value")
        if isinstance(reference := schema.get("$ref"), str):
            yield self._resolve_reference(reference)

    def _resolve_reference(self, reference: str) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            raise TooCostly(f"$ref {reference!r}: only paths within the schema are taken, such as #/$defs/name")
        target: Any = self._root
        for step in reference.split("/")[1:]:
            key = _unescape_step(step)
            try:
                target = target[int(key)] if isinstance(target, list | tuple) else target[key]
            except (KeyError, IndexError, ValueError, TypeError):
                raise TooCostly(f"$ref {reference!r} leads nowhere") from None
        return target

    def _enter_schema(self, schema: Mapping[str, Any]) -> int:
        number = id(schema)
        if number not in self._schemas:
            if len(self._schemas) >= SUBSCHEMAS_MOST:
                raise TooCostly(f"has more than {SUBSCHEMAS_MOST} schemas in it")
            if number != id(self._root) and isinstance(schema.get("$id"), str):
                raise TooCostly("$id is taken at the top of the schema only")
            self._schemas[number] = schema
        return number

    def _count_steps(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _STEPS_MOST:
            raise TooCostly(_TOO_MUCH)


_KINDS = ("property", "item")
_TOO_MUCH = f"its references and alternatives unfold to more than {COST_MOST} evaluations of one value"


def _own_cost(schema: Mapping[str, Any]) -> int:
    cost = 1 + sum(keyword not in _DEFINITIONS for keyword in schema)
    for keyword in ("enum", "required"):
        if isinstance(listed := schema.get(keyword), list | tuple):
            cost += len(listed) // 2
    if isinstance(patterns := schema.get("patternProperties"), Mapping):
        cost += _PATTERN_COST * len(patterns)
    return cost + _PATTERN_COST * ("pattern" in schema) + _FORMAT_COST * ("format" in schema)


def _child_schemas(schema: Mapping[str, Any]) -> Iterator[tuple[Slot, Mapping[str, Any]]]:
    """Yield the schemas that are applied one level below."""
    if isinstance(properties := schema.get("properties"), Mapping):
        yield from ((("property", str(name)), sub) for name, sub in properties.items() if isinstance(sub, Mapping))
    if isinstance(patterns := schema.get("patternProperties"), Mapping):
        yield from ((("property", None), sub) for sub in patterns.values() if isinstance(sub, Mapping))
    yield from ((("property", None), sub) for word in _ANY_PROPERTY if isinstance(sub := schema.get(word), Mapping))
    yield from ((("item", None), sub) for word in _ANY_ITEM if isinstance(sub := schema.get(word), Mapping))
    for keyword in ("items", "prefixItems"):
        match schema.get(keyword):
            case Mapping() as sub:
                yield ("item", None), sub
            case list() | tuple() as subs:
                yield from ((("item", index), sub) for index, sub in enumerate(subs) if isinstance(sub, Mapping))


def _unescape_step(step: str) -> str:
    return unquote(step).replace("~1", "/").replace("~0", "~")
