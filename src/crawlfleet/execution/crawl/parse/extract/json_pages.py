"""JSON extraction: containers over a JSON page, or over JSON in scripts of a page, by JMESPath within a budget."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

from crawlfleet.execution.crawl.parse.extract.dom import TEXT_CHARS, Tree, tidy
from crawlfleet.execution.crawl.parse.extract.extraction_plan import Container, Field
from crawlfleet.execution.crawl.parse.extract.field_counts import (
    DROPPED,
    FILLED,
    MATCHES,
    RECORDS,
    TYPE_ERRORS,
    Columns,
    column,
)
from crawlfleet.execution.crawl.parse.extract.records import LIST_MOST, RECORDS_MOST, Record, fill, is_complete
from crawlfleet.scheduling.flows.expressions import (
    BudgetExceeded,
    EvaluationBudget,
    EvaluationError,
    Expression,
    evaluate_expression,
)

BUDGET = 200_000
"""Evaluation budget of one page: about a third of a second at most."""
BUDGET_APART = 2_000_000
DEPTH_MOST = 30
"""Limit on the depth of a value in a record; deeper parts are left out."""
SCRIPTS_MOST = 100
_ANY_SCRIPT = 'script[type="application/json"], script[type="application/ld+json"]'


def decoded(text: str) -> Any | None:
    """Return the value of a JSON text; None for any other text (and for `null`)."""
    text = text.strip().removeprefix("\ufeff")
    # Some sites put a guard in front, so that the page cannot be run as a script.
    for guard in (")]}',", ")]}'", "while(1);", "for(;;);"):
        text = text.removeprefix(guard)
    try:
        return json.loads(text, strict=False, parse_int=_integer, parse_constant=_nothing)
    except (ValueError, RecursionError):
        return None


def in_scripts(tree: Tree, container: Container) -> list[Any]:
    """Return the JSON of the scripts that a container selects, or of all scripts with a JSON type."""
    if container.script is None:
        found = tree.css(_ANY_SCRIPT)
    else:
        found = [match for match in tree.select(container.script) if not isinstance(match, str)]
    values = (decoded(bare(tree.raw_text(element))) for element in found[:SCRIPTS_MOST])
    return [value for value in values if value is not None]


def json_records(
    documents: list[Any], container: Container, base: str, counts: Columns, budget: EvaluationBudget
) -> list[Record]:
    """Return the records of all documents. Raises BudgetExceeded."""
    return [record for document in documents for record in _read(document, container, base, counts, budget)]


def _read(data: Any, container: Container, base: str, counts: Columns, budget: EvaluationBudget) -> list[Record]:
    counted = column(counts, container.path)
    found = _evaluate(container.expression, data, budget, counted)
    rows = [row for row in (found if isinstance(found, list) else [found]) if row is not None][:RECORDS_MOST]
    counted[MATCHES] += len(rows)
    made: dict[Hashable, Record] = {at: {} for at in range(len(rows))}
    for field in container.fields:
        values: dict[Hashable, list[Any]] = {at: _values(field, row, budget, counts) for at, row in enumerate(rows)}
        fill(field, made.items(), values, base, column(counts, field.path))
    for inner in container.nested:
        for at, row in enumerate(rows):
            made[at][inner.name] = _read(row, inner, base, counts, budget)[:LIST_MOST]
    kept = [record for record in made.values() if is_complete(container, record)]
    counted[RECORDS] += len(rows)
    counted[FILLED] += len(kept)
    counted[DROPPED] += len(rows) - len(kept)
    return kept


def _values(field: Field, row: Any, budget: EvaluationBudget, counts: Columns) -> list[Any]:
    counted = column(counts, field.path)
    found = _evaluate(field.expression, row, budget, counted)
    values = found if field.is_list and isinstance(found, list) else [found]
    values = [value for value in values if value is not None][: LIST_MOST if field.is_list else 1]
    counted[MATCHES] += len(values)
    return [_readable(field, value) for value in values]


def _evaluate(expression: Expression | None, data: Any, budget: EvaluationBudget, counted: list[int]) -> Any:
    assert expression is not None
    try:
        return evaluate_expression(expression, data, budget)
    except BudgetExceeded:
        raise
    except EvaluationError:
        counted[TYPE_ERRORS] += 1
        return None


def _readable(field: Field, value: Any) -> Any:
    """Return a number as text if the field's type parses text; without a type, JSON stays what it is."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if field.convert is not None and is_number else storable(value)


def storable(value: Any, depth: int = DEPTH_MOST) -> Any:
    """Return a value that any store of JSON accepts: no NUL, no lone surrogates, not too deep."""
    if isinstance(value, str):
        value = value if len(value) <= TEXT_CHARS and "\0" not in value else tidy(value)
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {storable(key): storable(inner, depth - 1) for key, inner in value.items()} if depth else None
    if isinstance(value, list):
        return [storable(inner, depth - 1) for inner in value] if depth else None
    return value


def bare(text: str) -> str:
    """Return a script without the comment that hides it from old browsers."""
    text = text.strip()
    for start, end in (("<!--", "-->"), ("/*<![CDATA[*/", "/*]]>*/"), ("//<![CDATA[", "//]]>"), ("<![CDATA[", "]]>")):
        text = text.removeprefix(start).removesuffix(end).strip()
    return text.removesuffix(";")


def _integer(text: str) -> int | str:
    # Integers this large are not exact in other JSON parsers: they are ids, and exact only as text.
    return int(text) if len(text) <= 18 else text


def _nothing(_name: str) -> None:
    """Return None for NaN and Infinity, which are no JSON."""
