"""Numbers are parsed as people write them: 1,234.56 and 1.234,56 and 1 234,56 and 1'234.56 and 12,34,567."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

READ_CHARS = 300
"""Limit on characters of a text that are searched for a number."""
_SPACES = " \u00a0\u2009\u202f"
_MARKS = "'’`٬"
NUMBER = re.compile(
    # Groups separated by spaces or marks have three digits each: "iPhone 15 9.99" is two numbers.
    rf"\d{{1,3}}(?:(?:[{_SPACES}]\d{{3}}(?!\d))+|(?:[{_MARKS}]\d{{3}}(?!\d))+)(?:[.,]\d+)?|\d+(?:[.,٫]\d+)*|(?<!\d)\.\d+"
)
_SIGNED = re.compile(r"[-−–]\s?$")
_INDIAN = re.compile(r"\d{1,2}(,\d\d)+,\d{3}")
_WESTERN = re.compile(r"\d{1,3}([.,])\d{3}(\1\d{3})*")
POWERS = {"万": 4, "萬": 4, "亿": 8, "億": 8}


def to_ascii(text: str) -> str:
    """Return the text with full-width forms and foreign digits as ASCII."""
    text = text[:READ_CHARS]
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text)
    return "".join(str(unicodedata.digit(char)) if char.isdigit() and not char.isascii() else char for char in text)


def parse_decimal(token: str, *, decimal: str | None = None, dot_groups: bool = False) -> str | None:
    """Return the decimal number of a token of NUMBER, as text without groups; None when it cannot be determined.

    `decimal` is the mark that the page is known to use. `dot_groups` reads 1.234 as one thousand two hundred (prices
    hardly ever have three decimals).
    """
    token = token.replace("٫", ".")
    for char in _SPACES + _MARKS:
        token = token.replace(char, "")
    if decimal is not None:
        whole, _, part = token.replace("." if decimal == "," else ",", "").partition(decimal)
        return None if decimal in part else _format_decimal(whole, part)
    dot, comma = token.rfind("."), token.rfind(",")
    if dot >= 0 and comma >= 0:
        last, other = (".", ",") if dot > comma else (",", ".")
        whole, _, part = token.rpartition(last)
        return _format_decimal(whole.replace(other, ""), part) if last not in whole and _is_grouped(whole) else None
    mark = "." if dot >= 0 else ","
    if mark not in token:
        return _format_decimal(token, "")
    whole, _, part = token.rpartition(mark)
    is_many = mark in whole
    looks_grouped = _is_grouped(token) and not token.startswith("0") and whole != ""
    if is_many:
        return _format_decimal(token.replace(mark, ""), "") if looks_grouped else None
    if looks_grouped and (mark == "," or dot_groups):
        return _format_decimal(whole + part, "")
    return _format_decimal(whole, part)


def parse_number(text: str, decimal: str | None = None) -> float | int | None:
    """Return the one number in a text; None where there is none, or several."""
    text = to_ascii(text)
    matches = list(NUMBER.finditer(text))
    if len(matches) != 1:
        return None
    value = parse_decimal(matches[0][0], decimal=decimal)
    if value is None:
        return None
    exact = apply_power(value, text[matches[0].end() :])
    sign = "-" if is_negative(text[: matches[0].start()]) else ""
    return float(sign + exact) if "." in exact else int(sign + exact)


def parse_integer(text: str, decimal: str | None = None) -> int | None:
    number = parse_number(text, decimal)
    return int(number) if number is not None and number == int(number) else None


def is_negative(before: str) -> bool:
    """Return whether the text before a number negates it; a dash behind a word or a number joins instead."""
    sign = _SIGNED.search(before)
    return sign is not None and not before[: sign.start()].rstrip()


def apply_power(value: str, after: str) -> str:
    """Apply a Chinese power of ten behind the number: 1.2万 is twelve thousand."""
    power = POWERS.get(after.lstrip()[:1])
    if power is None:
        return value
    number = Decimal(value).scaleb(power)
    return format(number.to_integral_value() if number == number.to_integral_value() else number, "f")


def _is_grouped(text: str) -> bool:
    if not any(mark in text for mark in ".,"):
        return True
    return _WESTERN.fullmatch(text) is not None or _INDIAN.fullmatch(text) is not None


def _format_decimal(whole: str, part: str) -> str | None:
    whole = whole.lstrip("0") or "0"
    if len(whole) + len(part) > 40:
        return None
    return f"{whole}.{part}" if part else whole
