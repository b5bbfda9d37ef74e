"""Quantities in words."""

from __future__ import annotations

import pytest

from crawlfleet.model.notice import Language
from crawlfleet.notices.quantities import format_ordinal, format_quantity, format_span
from crawlfleet.scheduling.alerts.rule_kinds import Unit


@pytest.mark.parametrize(
    ("value", "unit", "english", "chinese"),
    [
        (0.1, Unit.RATIO, "10 %", "10 %"),
        (0.1234, Unit.RATIO, "12.3 %", "12.3 %"),
        (1234, Unit.COUNT, "1,234", "1,234"),
        (1.0, Unit.COUNT, "1", "1"),
        (0.5, Unit.SECONDS, "500 ms", "500 毫秒"),
        (2.53, Unit.SECONDS, "2.5 s", "2.5 秒"),
        (45, Unit.SECONDS, "45 s", "45 秒"),
        (300, Unit.SECONDS, "5 min", "5 分钟"),
        (5_400, Unit.SECONDS, "1 h 30 min", "1 小时 30 分钟"),
        (3_601, Unit.SECONDS, "1 h", "1 小时"),
        (90_061, Unit.SECONDS, "1 d 1 h", "1 天 1 小时"),
        (-3, Unit.SECONDS, "0 ms", "0 毫秒"),
        (1, Unit.DAYS, "1 day", "1 天"),
        (12.6, Unit.DAYS, "12.6 days", "12.6 天"),
    ],
)
def test_a_value_with_its_unit(value: float, unit: Unit, english: str, chinese: str) -> None:
    assert format_quantity(value, unit, Language.ENGLISH) == english
    assert format_quantity(value, unit, Language.CHINESE) == chinese


def test_a_span_just_below_a_minute_is_rounded_up_to_it() -> None:
    assert format_span(59.7, Language.ENGLISH) == "1 min"


def test_ordinal_numbers() -> None:
    english = [format_ordinal(number, Language.ENGLISH) for number in (1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111)]
    assert english == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "101st", "111th"]
    assert format_ordinal(3, Language.CHINESE) == "第 3 次"
