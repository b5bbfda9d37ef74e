"""Value converters turn the text of a match into the value that a field asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import ada_url

from crawlfleet.execution.crawl.parse.extract.dates import parse_date
from crawlfleet.execution.crawl.parse.extract.numbers import parse_integer, parse_number
from crawlfleet.execution.crawl.parse.extract.prices import parse_price

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


def make_converter(kind: str, options: Mapping[str, Any]) -> Convert | None:
    """Return the converter of a type; None where the text is used as it is. It is called at compile time only."""
    match kind:
        case "price":
            return _ignore_base(partial(parse_price, currency=options.get("currency"), decimal=options.get("decimal")))
        case "number":
            return _ignore_base(partial(parse_number, decimal=options.get("decimal")))
        case "integer":
            return _ignore_base(partial(parse_integer, decimal=options.get("decimal")))
        case "date":
            return _ignore_base(partial(parse_date, day_first=options.get("day_first")))
        case "boolean":
            return _ignore_base(parse_boolean)
        case "url":
            return absolute_url
        case _:
            return None


def parse_boolean(text: str) -> bool | None:
    word = text.strip().lower()
    return True if word in _YES else False if word in _NO else None


def absolute_url(text: str, base: str) -> str | None:
    try:
        return ada_url.join_url(base, text)
    except ValueError:
        return None


def _ignore_base(parse: Callable[[str], Any]) -> Convert:
    def convert_text(text: str, _base: str) -> Any:
        return parse(text)

    return convert_text
