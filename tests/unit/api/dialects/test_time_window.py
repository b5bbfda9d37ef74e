"""Windows of statistics, as people write them."""

import pytest

from crawlfleet.api.dialects.time_window import parse_window
from crawlfleet.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "window_ms"),
    [
        ("1m", 60_000),
        ("90m", 5_400_000),
        ("1h", 3_600_000),
        ("24h", 86_400_000),
        ("7d", 604_800_000),
        ("400d", 34_560_000_000),
    ],
)
def test_a_number_and_a_unit(text: str, window_ms: int) -> None:
    assert parse_window(text) == window_ms


@pytest.mark.parametrize(
    "text", ["", "1", "h", "0h", "-1h", "1.5h", "1w", "401d", "99999d", "1h ", " 1h", "١h", "1h\n"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_window(text)
    assert caught.value.field == "window"
