"""The log level of a process: what is set for it alone goes before what is set for all, and that before its start."""

import logging

import pytest

from crawlfleet.observe.log_level import LEVEL_NUMBERS, LEVELS, LogLevel, parse_level


def test_the_five_levels_in_small_and_capital_letters() -> None:
    assert LEVELS == ("debug", "info", "warning", "error", "critical")
    assert [parse_level(level.upper()) for level in LEVELS] == list(LEVELS)
    assert list(LEVEL_NUMBERS.values()) == [10, 20, 30, 40, 50]


@pytest.mark.parametrize("value", ["", "warn", "trace", " info", "NOTSET", 10, None, True, ["info"]])
def test_nothing_else_is_a_level(value: object) -> None:
    with pytest.raises(ValueError, match="one of debug, info, warning, error, critical"):
        parse_level(value)


def test_the_more_particular_setting_is_in_effect() -> None:
    level = LogLevel("warning")
    seen = [level.effective]
    for own, shared in ((None, "info"), ("debug", "info"), ("debug", "critical"), (None, "critical"), (None, None)):
        level.set_own(own)
        level.set_shared(shared)
        seen.append(level.effective)
    level.start_with("error")
    seen.append(level.effective)
    assert seen == ["warning", "info", "debug", "debug", "critical", "warning", "error"]
    assert level.threshold == logging.ERROR
