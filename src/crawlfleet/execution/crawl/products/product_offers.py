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
class OfferSummary:
    price: str | None = None
    currency: str | None = None
    price_max: str | None = None
    """Highest price, where offers differ."""
    availability: str | None = None


def summarise_offers(entity: Mapping[str, Any]) -> OfferSummary:
    """Return the lowest price of all offers, and their best availability."""
    prices: list[tuple[Decimal, str, str | None]] = []
    currency: str | None = None
    stocks: list[str] = []
    for offer in _find_offers(entity, _DEPTH):
        offer_currency = normalise_currency(first_text(offer.get("priceCurrency")))
        currency = currency or offer_currency
        for name in ("price", "lowPrice", "highPrice"):
            amount, sign = read_price(offer.get(name))
            if amount is not None:
                prices.append((Decimal(amount), amount, offer_currency or sign))
        if stock := normalise_availability(first_text(offer.get("availability"))):
            stocks.append(stock)
    stock = next((word for word in _RANK if word in stocks), stocks[0] if stocks else None)
    if not prices:
        return OfferSummary(None, currency, None, stock)
    low, high = min(prices, key=lambda price: price[0]), max(prices, key=lambda price: price[0])
    return OfferSummary(low[1], low[2] or currency, high[1] if high[0] > low[0] else None, stock)


def _find_offers(entity: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
    """Yield offers, offers in offers, price specifications, and the offers of variants."""
    if depth == 0:
        return
    for name in ("offers", "priceSpecification", "hasVariant"):
        inner = entity.get(name)
        for offer in (inner if isinstance(inner, list) else [inner])[:OFFERS_MOST]:
            if isinstance(offer, Mapping):
                yield offer
                yield from _find_offers(offer, depth - 1)


def read_price(value: Any) -> tuple[str | None, str | None]:
    """Return amount and currency of a number, or of a text written for machines or for people."""
    if isinstance(value, bool) or value is None:
        return None, None
    text = first_text(value)[:_PRICE_CHARS]
    if _AMOUNT.fullmatch(text):
        return normalise_amount(text), None
    price = parse_price(text)
    return (None, None) if price is None else (normalise_amount(price["amount"]), price["currency"])


def normalise_amount(text: str) -> str | None:
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


def normalise_currency(text: str) -> str | None:
    return text.upper() if _CODE.fullmatch(text) else text[:10] or None


def normalise_availability(text: str) -> str | None:
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
            return next((text for inner in value[:20] if (text := first_text(inner, depth - 1))), "")
        case Mapping():
            named = (value.get(name) for name in ("@value", "name", "@id", "url"))
            return next(
                (text for inner in named if isinstance(inner, str | int | float) and (text := first_text(inner))), ""
            )
        case _:
            return ""
