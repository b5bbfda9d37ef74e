"""Percentiles of the spans of the last minute."""

from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.observe.recent_times import MAX_TIMES, RecentTimes


def test_without_times_there_is_no_percentile() -> None:
    assert RecentTimes().percentile(0.99) is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_a_percentile_is_the_smallest_span_that_its_part_does_not_exceed(spans: list[float], part: float) -> None:
    times = RecentTimes(monotonic=lambda: 0.0)
    for span in spans:
        times.add_time(span)
    percentile = times.percentile(part)
    assert percentile in spans
    assert sum(span <= percentile for span in spans) >= part * len(spans) - 1e-9
    assert sum(span < percentile for span in spans) < part * len(spans) + 1e-9


def test_times_before_the_window_do_not_count() -> None:
    now = 0.0
    times = RecentTimes(60.0, monotonic=lambda: now)
    times.add_time(500.0)
    now = 30.0
    times.add_time(1.0)
    assert times.percentile(1.0) == 500.0
    now = 61.0
    assert times.percentile(1.0) == 1.0
    now = 91.0
    assert times.percentile(1.0) is None


def test_the_number_of_times_is_bounded() -> None:
    times = RecentTimes(monotonic=lambda: 0.0)
    for number in range(MAX_TIMES + 10):
        times.add_time(float(number))
    assert times.percentile(0.0001) == 10.0


def test_a_99th_percentile_needs_a_hundred_spans() -> None:
    now = 0.0
    times = RecentTimes(60.0, monotonic=lambda: now)
    for number in range(99):
        times.add_time(float(number))
    percentiles = [times.p99]
    times.add_time(500.0)
    percentiles.append(times.p99)
    now = 61.0
    percentiles.append(times.p99)
    assert percentiles == [None, 98.0, None], "a single slow one does not decide"
    assert times.count == 0
