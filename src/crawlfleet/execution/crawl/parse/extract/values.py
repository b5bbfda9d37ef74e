"""Value converters turn the text of a match into the value that a field asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import ada_url

from crawlfleet.execution.crawl.parse.extract.dates import date_of
from crawlfleet.execution.crawl.parse.extract.numbers import integer_of, number_of
from crawlfleet.execution.crawl.parse.extract.prices import price_of

Convert = Callable[[str, str], Any]
"""Function from a text and the page's base URL to a value; None for a text that is not of the type."""
OPTIONS: Mapping[str, frozenset[str]] = {
    "price": frozenset({"currency", "decimal"}),
    "number": frozenset({"decimal"}),
    "integer": frozenset({"decimal"}),
    "date": frozenset({"day_first"}),
}
"""Options per type that describe how the page writes such values."""
_YES = frozenset(
    {"true", "yes", "y", "1", "on", "ja", "oui", "sí", "si", "sim", "vero", "да", "是", "有", "はい", "✓", "✔", "☑"}
)
_NO = frozenset(
    {"false", "no", "n", "0", "off", "nein", "non", "não", "falso", "нет", "否", "无", "無", "いいえ", "✗", "✘", "☐"}
)


def converter(kind: str, options: Mapping[str, Any]) -> Convert | None:
    """Return the converter of a type; None where the text is used as it is. It is called at compile time only."""
    match kind:
        case "price":
            return _of_text(partial(price_of, currency=options.get("currency"), decimal=options.get("decimal")))
        case "number":
            return _of_text(partial(number_of, decimal=options.get("decimal")))
        case "integer":
            return _of_text(partial(integer_of, decimal=options.get("decimal")))
        case "date":
            return _of_text(partial(date_of, day_first=options.get("day_first")))
        case "boolean":
            return _of_text(boolean_of)
        case "url":
            return absolute
        case _:
            return None


def boolean_of(text: str) -> bool | None:
    word = text.strip().lower()
    return True if word in _YES else False if word in _NO else None


def absolute(text: str, base: str) -> str | None:
    try:
        return ada_url.join_url(base, text)
    except ValueError:
        return None


def _of_text(function: Callable[[str], Any]) -> Convert:
    def convert(text: str, _base: str) -> Any:
        return function(text)

    return convert
