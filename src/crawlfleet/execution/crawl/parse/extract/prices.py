"""Prices are parsed as shops write them: an exact amount as text, and the currency that the page names.

A sign that several currencies share ($, ¥, kr, Rs) is given as it is written, unless the field names the currency.
"""

from __future__ import annotations

import re
from typing import Any

from crawlfleet.execution.crawl.parse.extract.numbers import (
    NUMBER,
    POWERS,
    apply_power,
    is_negative,
    parse_decimal,
    to_ascii,
)

_SIGNS = {
    "€": "EUR",
    "£": "GBP",
    "₹": "INR",
    "₽": "RUB",
    "₩": "KRW",
    "₺": "TRY",
    "₴": "UAH",
    "₫": "VND",
    "฿": "THB",
    "₪": "ILS",
    "₱": "PHP",
    "₦": "NGN",
    "₸": "KZT",
    "zł": "PLN",
    "kč": "CZK",
    "ft": "HUF",
    "лв": "BGN",
    "руб": "RUB",
    "us$": "USD",
    "ca$": "CAD",
    "c$": "CAD",
    "a$": "AUD",
    "au$": "AUD",
    "nz$": "NZD",
    "hk$": "HKD",
    "nt$": "TWD",
    "s$": "SGD",
    "r$": "BRL",
    "mx$": "MXN",
    "rmb": "CNY",
    "人民币": "CNY",
    "元": "CNY",
    "円": "JPY",
    "원": "KRW",
    "$": "$",
    "¥": "¥",
    "kr": "kr",
    "rs": "Rs",
    "fr": "CHF",
    "euro": "EUR",
    "euros": "EUR",
}
_CODES = frozenset(
    {
        "USD",
        "EUR",
        "GBP",
        "JPY",
        "CNY",
        "INR",
        "AUD",
        "CAD",
        "NZD",
        "CHF",
        "SEK",
        "NOK",
        "DKK",
        "ISK",
        "PLN",
        "CZK",
        "HUF",
        "RON",
        "BGN",
        "RUB",
        "UAH",
        "TRY",
        "ILS",
        "AED",
        "SAR",
        "QAR",
        "KWD",
        "BHD",
        "OMR",
        "JOD",
        "TND",
        "EGP",
        "ZAR",
        "NGN",
        "KES",
        "MAD",
        "BRL",
        "ARS",
        "CLP",
        "COP",
        "MXN",
        "PEN",
        "KRW",
        "TWD",
        "HKD",
        "SGD",
        "MYR",
        "THB",
        "IDR",
        "PHP",
        "VND",
        "PKR",
        "LKR",
        "BDT",
        "KZT",
        "GEL",
    }
)
_THOUSANDTHS = frozenset({"KWD", "BHD", "OMR", "JOD", "TND"})
# Letters are a sign only where no word goes on: "from" is no franc.
_WORDS = sorted((sign for sign in (*_SIGNS, *_CODES) if sign.isalpha() and sign.isascii()), key=len, reverse=True)
_MARKS = sorted(_SIGNS.keys() - set(_WORDS), key=len, reverse=True)
_CURRENCY = re.compile(
    rf"{'|'.join(map(re.escape, _MARKS))}|(?<![^\W\d_])(?:{'|'.join(_WORDS)})(?![^\W\d_])", re.IGNORECASE
)
_SIMPLE = re.compile(r"([$€£])?[ \u00a0]?(\d{1,3}(?:,\d{3})*|\d+)(\.\d\d)?")
"""Pattern of the most common prices by far, which is ten times faster to match."""
_CENTS = re.compile(r"(\d)\s?([€£$])\s?(\d\d)(?!\d)")
_FROM = re.compile(
    r"\b(?:from|starting at|as low as|ab|desde|dès|à partir de|a partir de|da|vanaf|från|fra|od)\b|от\b|起",
    re.IGNORECASE,
)
_TO = re.compile(r"\s*(?:[-–—~〜～]|\b(?:to|bis|à|a|até|hasta|tot|до)\b|至|到)\s*", re.IGNORECASE)
_MAX_DISTANCE = 6
"""Limit on characters between an amount and its currency."""

Price = dict[str, Any]


def parse_price(text: str, currency: str | None = None, decimal: str | None = None) -> Price | None:
    """Return the price in a text; None without an amount. `currency` applies if the text has a shared sign or none."""
    if decimal is None and (simple := _SIMPLE.fullmatch(text)) is not None:
        sign, whole, part = simple.groups()
        named_currency = _SIGNS[sign] if sign else None
        amount = (whole.replace(",", "").lstrip("0") or "0") + (part or "")
        return {
            "amount": amount,
            "currency": named_currency if named_currency in _CODES else currency or named_currency,
        }
    text = _CENTS.sub(r"\1.\3\2", to_ascii(text))
    signs = [(match.start(), match.end(), _currency_name(match[0])) for match in _CURRENCY.finditer(text)]
    amounts = list(NUMBER.finditer(text))
    if not amounts:
        return None
    first = next((index for index, match in enumerate(amounts) if _adjacent_currency(match, signs) is not None), 0)
    sign = _adjacent_currency(amounts[first], signs)
    if sign is None and first + 1 < len(amounts) and _is_range(text, amounts[first], amounts[first + 1]):
        sign = _adjacent_currency(amounts[first + 1], signs)
    elif first and _is_range(text, amounts[first - 1], amounts[first]):
        # "10-20 €": the sign stands by the second number only.
        first -= 1
    named_currency = sign[2] if sign is not None else None
    amount = _parse_amount(text, amounts[first], named_currency, decimal, signs)
    if amount is None:
        return None
    price: Price = {
        "amount": amount,
        "currency": named_currency if named_currency in _CODES else currency or named_currency,
    }
    if first + 1 < len(amounts) and _is_range(text, amounts[first], amounts[first + 1]):
        max_amount = _parse_amount(text, amounts[first + 1], named_currency, decimal, signs)
        if max_amount is not None:
            price["amount_max"] = max_amount
    elif _FROM.search(text):
        price["is_from"] = True
    return price


def _parse_amount(
    text: str, match: re.Match[str], named_currency: str | None, decimal: str | None, signs: list[tuple[int, int, str]]
) -> str | None:
    value = parse_decimal(match[0], decimal=decimal, dot_groups=named_currency not in _THOUSANDTHS)
    if value is None:
        return None
    before = text[: match.start()]
    for start, end, _ in signs:
        if not before[end:].strip() and end <= match.start():
            before = before[:start]
    return ("-" if is_negative(before) and value.strip("0.") else "") + apply_power(value, text[match.end() :])


def _currency_name(sign: str) -> str:
    return sign.upper() if sign.upper() in _CODES else _SIGNS[sign.lower()]


def _adjacent_currency(match: re.Match[str], signs: list[tuple[int, int, str]]) -> tuple[int, int, str] | None:
    """Return the currency that stands beside a number."""
    text = match.string
    for start, end, name in signs:
        between = text[end : match.start()] if end <= match.start() else text[match.end() : start]
        is_plain = not any((char.isalnum() and char not in POWERS) or char == "/" for char in between)
        if is_plain and len(between) <= _MAX_DISTANCE:
            return start, end, name
    return None


def _is_range(text: str, first: re.Match[str], second: re.Match[str]) -> bool:
    """Return whether two numbers are the ends of a range."""
    between = _CURRENCY.sub("", text[first.end() : second.start()])
    return _TO.fullmatch(between) is not None
