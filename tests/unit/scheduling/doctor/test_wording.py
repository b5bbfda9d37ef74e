"""Words for spans, sizes and lists."""

import pytest

from crawlfleet.scheduling.doctor.wording import count_text, list_names, size_text, span_text


@pytest.mark.parametrize(
    ("span_s", "text"),
    [
        (0.5, "less than a second"),
        (1, "1 second"),
        (59, "59 seconds"),
        (3_599, "59 minutes"),
        (7_200, "2 hours"),
        (86_400, "1 day"),
        (9e9, "104,166 days"),
    ],
)
def test_a_span_is_told_in_its_largest_unit(span_s: float, text: str) -> None:
    assert span_text(span_s) == text


@pytest.mark.parametrize(("size", "text"), [(5, "5 bytes"), (1 << 10, "1.0 KiB"), (3 << 29, "1.5 GiB")])
def test_a_size_is_told_in_its_largest_unit(size: int, text: str) -> None:
    assert size_text(size) == text


def test_counts_and_lists() -> None:
    assert (count_text(1, "task"), count_text(1_000, "task")) == ("1 task", "1,000 tasks")
    assert list_names(["a"]) == "a"
    assert list_names(list("abcdefg")) == "a, b, c, d, e and 2 more"
