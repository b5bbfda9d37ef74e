"""Product offers: price and availability of a product, in the many forms that schema.org allows. It is pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from crawlfleet.execution.crawl.parse.extract.dom import tidy_text
from crawlfleet.execution.crawl.parse.extract.prices import parse_price
from crawlfleet.model.product import AMOUNT_CHARS, WORD_CHARS

OFFERS_MOST = 200
_DEPTH = 4
_PRICE_CHARS = 100
_DIGITS = 20
_LARGE = 1e15
_AMOUNT = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,15})?")
_CODE = re.compile(r"[A-Za-z]{3}")
_STOCK = {
    "instock": "in_stock",
    "available": "in_stock",
    "onlineonly": "in_stock",
    "instoreonly": "in_store_only",
    "outofstock": "out_of_stock",
    "oos": "out_of_stock",
    "unavailable": "out_of_stock",
    "soldout": "sold_out",
    "preorder": "preorder",
    "presale": "preorder",
    "availablefororder": "backorder",
    "backorder": "backorder",
    "limitedavailability": "limited",
    "discontinued": "discontinued",
    "pending": "preorder",
}
_RANK = ("in_stock", "limited", "in_store_only", "preorder", "backorder")
"""Availabilities in the order in which a customer would choose among several offers."""


@dataclass(frozen=True, slots=True)
class Offered:
    price: str | None = None
    currency: str | None = None
    price_max: str | None = None
    """Highest price, where offers differ."""
    availability: str | None = None


def offered(thing: Mapping[str, Any]) -> Offered:
    """Return the lowest price of all offers, and their best availability."""
    prices: list[tuple[Decimal, str, str | None]] = []
    currency: str | None = None
    stocks: list[str] = []
    for offer in _offers(thing, _DEPTH):
        said = currency_of(first_text(offer.get("priceCurrency")))
        currency = currency or said
        for name in ("price", "lowPrice", "highPrice"):
            amount, sign = price_in(offer.get(name))
            if amount is not None:
                prices.append((Decimal(amount), amount, said or sign))
        if stock := availability_of(first_text(offer.get("availability"))):
            stocks.append(stock)
    stock = next((word for word in _RANK if word in stocks), stocks[0] if stocks else None)
    if not prices:
        return Offered(None, currency, None, stock)
    low, high = min(prices, key=lambda one: one[0]), max(prices, key=lambda one: one[0])
    return Offered(low[1], low[2] or currency, high[1] if high[0] > low[0] else None, stock)


def _offers(thing: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
    """Yield offers, offers in offers, price specifications, and the offers of variants."""
    if depth == 0:
        return
    for name in ("offers", "priceSpecification", "hasVariant"):
        inner = thing.get(name)
        for one in (inner if isinstance(inner, list) else [inner])[:OFFERS_MOST]:
            if isinstance(one, Mapping):
                yield one
                yield from _offers(one, depth - 1)


def price_in(value: Any) -> tuple[str | None, str | None]:
    """Return amount and currency of a number, or of a text written for machines or for people."""
    if isinstance(value, bool) or value is None:
        return None, None
    text = first_text(value)[:_PRICE_CHARS]
    if _AMOUNT.fullmatch(text):
        return amount_of(text), None
    found = parse_price(text)
    return (None, None) if found is None else (amount_of(found["amount"]), found["currency"])


def amount_of(text: str) -> str | None:
    """Return an amount in one spelling: 1299 and 12.50, so that 12.5 is no other price; None for a negative price."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if not value.is_finite() or value < 0 or value.adjusted() > _DIGITS:
        return None
    whole, _, rest = f"{value:f}".partition(".")
    rest = rest.rstrip("0")
    return f"{whole}.{rest.ljust(2, '0')}"[:AMOUNT_CHARS] if rest else whole


def currency_of(text: str) -> str | None:
    return text.upper() if _CODE.fullmatch(text) else text[:10] or None


def availability_of(text: str) -> str | None:
    """Return the availability as one word: `https://schema.org/InStock`, `in stock` and `instock` are the same."""
    word = re.sub(r"[\W_]", "", text.rpartition("/")[2].rpartition("#")[2]).lower()
    return _STOCK.get(word, word[:WORD_CHARS]) or None


def first_text(value: Any, depth: int = _DEPTH) -> str:
    """Return the first text in any value that stands in place of a text; empty for none."""
    match value:
        case str():
            return tidy_text(value)
        case bool() | None:
            return ""
        case int():
            return str(value)
        case float():
            return f"{Decimal(repr(value)):f}" if abs(value) < _LARGE else ""
        case list() if depth:
            return next((text for one in value[:20] if (text := first_text(one, depth - 1))), "")
        case Mapping():
            named = (value.get(name) for name in ("@value", "name", "@id", "url"))
            return next((text for one in named if isinstance(one, str | int | float) and (text := first_text(one))), "")
        case _:
            return ""
