"""Quantities in the words of a language: ratios, counts, spans of time and ordinal numbers."""

from __future__ import annotations

from crawlfleet.model.notice import Language
from crawlfleet.scheduling.alerts.rule_kinds import Unit

_SPAN_UNITS = {
    Language.ENGLISH: ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")),
    Language.CHINESE: ((86_400, "天"), (3_600, "小时"), (60, "分钟"), (1, "秒")),
}
_MILLISECONDS = {Language.ENGLISH: "ms", Language.CHINESE: "毫秒"}


def format_quantity(value: float, unit: Unit, language: Language) -> str:
    """Write a value with its unit."""
    match unit:
        case Unit.RATIO:
            return f"{_short_number(value * 100)} %"
        case Unit.SECONDS:
            return format_span(value, language)
        case Unit.DAYS:
            days = _short_number(value)
            if language is Language.CHINESE:
                return f"{days} 天"
            return f"{days} day" if days == "1" else f"{days} days"
        case _:
            return _short_number(value)


def format_span(seconds: float, language: Language) -> str:
    """Write a span with its two largest units, such as `1 h 30 min`; a short one in milliseconds or with a decimal."""
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{round(seconds * 1000)} {_MILLISECONDS[language]}"
    units = _SPAN_UNITS[language]
    if seconds < 10:
        return f"{_short_number(seconds)} {units[-1][1]}"
    left = round(seconds)
    parts: list[str] = []
    for size, name in units:
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number} {name}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def format_ordinal(number: int, language: Language) -> str:
    if language is Language.CHINESE:
        return f"第 {number} 次"
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _short_number(value: float) -> str:
    """Write a number with at most one decimal, and with commas from a thousand on."""
    rounded = round(value, 1)
    return f"{rounded:,.0f}" if rounded == int(rounded) else f"{rounded:,.1f}"
