"""Price notations of shops in several countries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

NBSP = "\u00a0"


@dataclass(frozen=True, slots=True)
class Notation:
    """The notation of prices in one currency."""

    currency: str
    """Currency code of ISO 4217."""
    decimals: int
    write: Callable[[str, str], str]
    """Function that writes a price from the whole part without separators and the decimals, which may be empty."""


def _grouped(whole: str, separator: str) -> str:
    return f"{int(whole):,}".replace(",", separator)


def _indian(whole: str) -> str:
    """Group digits in the Indian way: three digits, then pairs."""
    front, back = whole[:-3], whole[-3:]
    pairs: list[str] = []
    while front:
        front, pair = front[:-2], front[-2:]
        pairs.insert(0, pair)
    return ",".join([*pairs, back])


PLAIN = Notation("USD", 2, lambda whole, rest: f"${whole}.{rest}")
NOTATIONS = (
    Notation("USD", 2, lambda whole, rest: f"${_grouped(whole, ',')}.{rest}"),
    Notation("USD", 2, lambda whole, rest: f"US$ {_grouped(whole, ',')}.{rest}"),
    Notation("EUR", 2, lambda whole, rest: f"{_grouped(whole, '.')},{rest} €"),
    Notation("EUR", 2, lambda whole, rest: f"EUR {_grouped(whole, NBSP)},{rest}"),
    Notation("EUR", 2, lambda whole, rest: f"€{whole},-" if rest == "00" else f"€{whole},{rest}"),
    Notation("GBP", 2, lambda whole, rest: f"£{_grouped(whole, ',')}.{rest}"),
    Notation("CHF", 2, lambda whole, rest: f"CHF {_grouped(whole, '’')}.{rest}"),
    Notation("SEK", 2, lambda whole, rest: f"{_grouped(whole, NBSP)},{rest} kr"),
    Notation("INR", 2, lambda whole, rest: f"₹{_indian(whole)}.{rest}"),
    Notation("JPY", 0, lambda whole, rest: f"¥{_grouped(whole, ',')}"),
    Notation("CNY", 2, lambda whole, rest: f"{whole}.{rest}元"),
    Notation("BRL", 2, lambda whole, rest: f"R$ {_grouped(whole, '.')},{rest}"),
)


def amount(cents: int, notation: Notation) -> str:
    """Return the price in machine-readable form: 1299.00, or 1299 where the currency has no cents."""
    return f"{cents // 100}.{cents % 100:02}" if notation.decimals else f"{cents // 100}"


def shown(cents: int, notation: Notation) -> str:
    return notation.write(str(cents // 100), f"{cents % 100:02}" if notation.decimals else "")
