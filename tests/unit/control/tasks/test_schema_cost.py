"""The cost of schemas: what unfolds is refused before it is used, and what people write is not."""

from __future__ import annotations

import time
from typing import Any

import jsonschema_rs
import pytest

from crawlfleet.control.tasks.schema_cost import COST_MOST, SUBSCHEMAS_MOST, TooCostly, schema_cost
from crawlfleet.execution.executors.registry import builtin_schemas


def unfolding(levels: int) -> dict[str, Any]:
    """A small schema that a validator applies 2 ** levels times to one value."""
    steps = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**steps, f"d{levels}": {"type": "object"}}, "allOf": [{"$ref": "#/$defs/d0"}]}


REPEATED = {"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]}
OVERLAPPING = {"properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}}
EITHER = {"anyOf": [{"additionalProperties": {"$ref": "#"}}, {"additionalProperties": {"$ref": "#"}}]}
REST = {"unevaluatedProperties": {"$ref": "#"}, "allOf": [{"properties": {"a": {"$ref": "#"}}}]}


@pytest.mark.parametrize(
    "schema",
    [
        unfolding(10),
        unfolding(60),
        REPEATED,
        OVERLAPPING,
        EITHER,
        REST,
        {"$ref": "#"},
        {"items": {"enum": [*range(4_000)]}},
        {"not": {"$ref": "#"}},
        {"allOf": [{"type": "object"}] * 600},
        {"items": {"allOf": [{"pattern": "a"}] * 60}},
        {"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(900)}, "$ref": "#/$defs/d0"},
        {"$dynamicRef": "#a"},
        {"$ref": "other.json"},
        {"$ref": "#anchor"},
        {"$ref": "#/$defs/none"},
        {"properties": {str(n): {} for n in range(SUBSCHEMAS_MOST + 1)}},
        {"properties": {"a": {"$id": "http://elsewhere/", "type": "object"}}},
    ],
)
def test_a_schema_without_a_bound_is_refused_quickly(schema: dict[str, Any]) -> None:
    began = time.process_time()
    with pytest.raises(TooCostly):
        schema_cost(schema)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("name", sorted(builtin_schemas()))
def test_built_in_schemas_are_well_below_the_bound(name: str) -> None:
    assert schema_cost(builtin_schemas()[name]) < COST_MOST / 10


@pytest.mark.parametrize(
    ("schema", "most"),
    [
        ({}, 1),
        ({"type": "object"}, 2),
        (unfolding(4), 200),
        ({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "value": {"type": "integer"}}}, 10),
        ({"type": "array", "items": {"$ref": "#"}}, 10),
        ({"properties": {"$id": {"type": "string"}}}, 10),
        ({"$defs": {"a/b": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a~1b"}}}, 10),
        ({"prefixItems": [{"$ref": "#"}, {"$ref": "#"}], "items": False}, 10),
        ({"items": [True, {"type": "null"}]}, 10),
        ({"properties": {str(n): {"type": "string"} for n in range(1_000)}}, 10),
    ],
)
def test_what_people_write_costs_little(schema: dict[str, Any], most: int) -> None:
    assert 0 < schema_cost(schema) <= most


@pytest.mark.parametrize("levels", range(4))
def test_the_cost_is_not_below_what_a_validator_does(levels: int) -> None:
    """A validator lists each evaluation of the schema that nothing fits."""
    schema = unfolding(levels)
    schema["$defs"][f"d{levels}"] = {"type": "string"}
    errors = jsonschema_rs.validator_for(schema, offline=True).iter_errors({})
    assert len(list(errors)) == 2**levels <= schema_cost(schema)
