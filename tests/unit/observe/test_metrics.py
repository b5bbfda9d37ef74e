"""Counters and histograms of a process: exact, and bounded whatever comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.observe.metrics import BOUNDS_S, MAX_SERIES, OTHER, CounterSet, Histogram, RequestMetrics


@given(st.lists(st.floats(min_value=0, max_value=100)))
def test_a_histogram_counts_each_span_in_the_first_bucket_that_holds_it(spans: list[float]) -> None:
    histogram = Histogram()
    for span in spans:
        histogram.observe(span)
    assert histogram.count == len(spans)
    assert histogram.sum_s == pytest.approx(sum(spans))
    for place, bound in enumerate(BOUNDS_S):
        assert sum(histogram.counts[: place + 1]) == sum(span <= bound for span in spans)


def test_requests_are_counted_by_route_method_and_class() -> None:
    requests = RequestMetrics()
    for status in (200, 201, 404, 500):
        requests.count_request("/a/{b}", "GET", status, 0.02)
    requests.count_request("/a/{b}", "DELETE", 204, 3.0)
    assert sorted(requests.list_counts()) == [
        ("/a/{b}", "DELETE", "2xx", 1),
        ("/a/{b}", "GET", "2xx", 2),
        ("/a/{b}", "GET", "4xx", 1),
        ("/a/{b}", "GET", "5xx", 1),
    ]
    (times,) = requests.route_times().values()
    assert times.count == 5
    assert times.sum_s == pytest.approx(3.08)


def test_invented_methods_share_one_label() -> None:
    requests = RequestMetrics()
    for number in range(1_000):
        requests.count_request("unmatched", f"BREW{number}", 405, 0.001)
    assert list(requests.list_counts()) == [("unmatched", OTHER, "4xx", 1_000)]


def test_a_counter_has_a_bounded_number_of_series() -> None:
    counter = CounterSet(("channel", "result"))
    for number in range(10_000):
        counter.add(f"channel {number}", "sent")
    counter.add("channel 1", "sent", count=2)
    counts = dict(counter.items())
    assert len(counts) == MAX_SERIES + 1
    assert counts["channel 1", "sent"] == 3
    assert sum(counts.values()) == 10_002


def test_a_counter_refuses_other_labels() -> None:
    with pytest.raises(AssertionError, match="channel"):
        CounterSet(("channel", "result")).add("mail")
