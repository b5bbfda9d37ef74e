"""The samples of a declared metric."""

from crawlfleet.api.views.metric_families import MetricSpec


def test_a_histogram_adds_its_buckets_up() -> None:
    spec = MetricSpec("wait_seconds", "histogram", "A wait.", ("kind",))
    metric = spec.histograms([(("fast",), (0.01, 2.5), (3, 0, 2), 7.5)])
    assert [(sample.name, dict(sample.labels), sample.value) for sample in metric.samples] == [
        ("crawlfleet_wait_seconds_bucket", {"kind": "fast", "le": "0.01"}, 3),
        ("crawlfleet_wait_seconds_bucket", {"kind": "fast", "le": "2.5"}, 3),
        ("crawlfleet_wait_seconds_bucket", {"kind": "fast", "le": "+Inf"}, 5),
        ("crawlfleet_wait_seconds_count", {"kind": "fast"}, 5),
        ("crawlfleet_wait_seconds_sum", {"kind": "fast"}, 7.5),
    ]


def test_a_counter_is_named_once_with_its_suffix() -> None:
    metric = MetricSpec("ends_total", "counter", "Ends.", ("outcome",)).sampled([(("failed",), 4)])
    assert (metric.name, metric.samples[0].name) == ("crawlfleet_ends", "crawlfleet_ends_total")
