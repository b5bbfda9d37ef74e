"""JSON extraction: containers over a JSON page, or over JSON in scripts of a page, by JMESPath within a budget."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

from crawlfleet.execution.crawl.parse.extract.dom import TEXT_CHARS, Dom, tidy_text
from crawlfleet.execution.crawl.parse.extract.extraction_plan import Container, Field
from crawlfleet.execution.crawl.parse.extract.field_counts import (
    DROPPED,
    FILLED,
    MATCHES,
    RECORDS,
    TYPE_ERRORS,
    FieldCounts,
    path_counts,
)
from crawlfleet.execution.crawl.parse.extract.records import MAX_RECORDS, MAX_VALUES, Record, fill_field, is_complete
from crawlfleet.scheduling.flows.expressions import (
    BudgetExceeded,
    EvaluationBudget,
    EvaluationError,
    Expression,
    evaluate_expression,
)

BUDGET = 200_000
"""Evaluation budget of one page: about a third of a second at most."""
PROCESS_BUDGET = 2_000_000
MAX_DEPTH = 30
"""Limit on the depth of a value in a record; deeper parts are left out."""
MAX_SCRIPTS = 100
_ANY_SCRIPT = 'script[type="application/json"], script[type="application/ld+json"]'


def decode_json(text: str) -> Any | None:
    """Return the value of a JSON text; None for any other text (and for `null`)."""
    text = text.strip().removeprefix("\ufeff")
    # Some sites put a guard in front, so that the page cannot be run as a script.
    for guard in (")]}',", ")]}'", "while(1);", "for(;;);"):
        text = text.removeprefix(guard)
    try:
        return json.loads(text, strict=False, parse_int=_parse_integer, parse_constant=_parse_constant)
    except (ValueError, RecursionError):
        return None


def decode_scripts(dom: Dom, container: Container) -> list[Any]:
    """Return the JSON of the scripts that a container selects, or of all scripts with a JSON type."""
    if container.script is None:
        scripts = dom.select_css(_ANY_SCRIPT)
    else:
        scripts = [match for match in dom.select_matches(container.script) if not isinstance(match, str)]
    values = (decode_json(strip_comment(dom.raw_text(element))) for element in scripts[:MAX_SCRIPTS])
    return [value for value in values if value is not None]


def extract_json_records(
    documents: list[Any], container: Container, base: str, counts: FieldCounts, budget: EvaluationBudget
) -> list[Record]:
    """Return the records of all documents. Raises BudgetExceeded."""
    return [
        record for document in documents for record in _extract_container(document, container, base, counts, budget)
    ]


def _extract_container(
    data: Any, container: Container, base: str, counts: FieldCounts, budget: EvaluationBudget
) -> list[Record]:
    container_counts = path_counts(counts, container.path)
    result = _evaluate_counted(container.expression, data, budget, container_counts)
    rows = [row for row in (result if isinstance(result, list) else [result]) if row is not None][:MAX_RECORDS]
    container_counts[MATCHES] += len(rows)
    records: dict[Hashable, Record] = {index: {} for index in range(len(rows))}
    for field in container.fields:
        values: dict[Hashable, list[Any]] = {
            index: _field_values(field, row, budget, counts) for index, row in enumerate(rows)
        }
        fill_field(field, records.items(), values, base, path_counts(counts, field.path))
    for inner in container.nested:
        for index, row in enumerate(rows):
            records[index][inner.name] = _extract_container(row, inner, base, counts, budget)[:MAX_VALUES]
    complete = [record for record in records.values() if is_complete(container, record)]
    container_counts[RECORDS] += len(rows)
    container_counts[FILLED] += len(complete)
    container_counts[DROPPED] += len(rows) - len(complete)
    return complete


def _field_values(field: Field, row: Any, budget: EvaluationBudget, counts: FieldCounts) -> list[Any]:
    field_counts = path_counts(counts, field.path)
    result = _evaluate_counted(field.expression, row, budget, field_counts)
    values = result if field.is_list and isinstance(result, list) else [result]
    values = [value for value in values if value is not None][: MAX_VALUES if field.is_list else 1]
    field_counts[MATCHES] += len(values)
    return [_prepare_value(field, value) for value in values]


def _evaluate_counted(expression: Expression | None, data: Any, budget: EvaluationBudget, counts: list[int]) -> Any:
    assert expression is not None
    try:
        return evaluate_expression(expression, data, budget)
    except BudgetExceeded:
        raise
    except EvaluationError:
        counts[TYPE_ERRORS] += 1
        return None


def _prepare_value(field: Field, value: Any) -> Any:
    """Return a number as text if the field's type parses text; without a type, JSON stays what it is."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if field.convert is not None and is_number else make_storable(value)


def make_storable(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return a value that any store of JSON accepts: no NUL, no lone surrogates, not too deep."""
    if isinstance(value, str):
        value = value if len(value) <= TEXT_CHARS and "\0" not in value else tidy_text(value)
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {make_storable(key): make_storable(inner, depth - 1) for key, inner in value.items()} if depth else None
    if isinstance(value, list):
        return [make_storable(inner, depth - 1) for inner in value] if depth else None
    return value


def strip_comment(text: str) -> str:
    """Return a script without the comment that hides it from old browsers."""
    text = text.strip()
    for start, end in (("<!--", "-->"), ("/*<![CDATA[*/", "/*]]>*/"), ("//<![CDATA[", "//]]>"), ("<![CDATA[", "]]>")):
        text = text.removeprefix(start).removesuffix(end).strip()
    return text.removesuffix(";")


def _parse_integer(text: str) -> int | str:
    # Integers this large are not exact in other JSON parsers: they are ids, and exact only as text.
    return int(text) if len(text) <= 18 else text


def _parse_constant(_name: str) -> None:
    """Return None for NaN and Infinity, which are no JSON."""
