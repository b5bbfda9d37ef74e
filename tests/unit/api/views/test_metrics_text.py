"""The text of metrics is read as what the library writes."""

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_plain
from prometheus_client.registry import Collector

from crawlfleet.api.views.metric_families import MetricSpec
from crawlfleet.api.views.metrics_text import write_openmetrics, write_plain

NUMBERS = st.one_of(st.integers(0, 1 << 62), st.floats(0, 1e12), st.booleans())
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))


class Collected(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def make_metrics(numbers: list[float], texts: list[str]) -> list[Metric]:
    pairs = list(dict(zip(texts, numbers, strict=False)).items())
    counts = [int(number) % 100 for number in numbers[:3]]
    return [
        MetricSpec("plain", "gauge", "A gauge.").single(numbers[0]),
        MetricSpec("named_total", "counter", "A counter.", ("name", "other")).sampled(
            ((text, "x"), number) for text, number in pairs
        ),
        MetricSpec("spans_seconds", "histogram", "Spans.", ("name",)).histograms(
            ((text,), (0.5, 2.0), counts, 1.5) for text, _ in pairs
        ),
    ]


def samples(families: Iterable[Any]) -> list[Any]:
    return [
        (family.name, family.type, sample.name, sample.labels, float(sample.value))
        for family in families
        for sample in family.samples
    ]


@given(st.lists(NUMBERS, min_size=3, max_size=6), st.lists(TEXTS, unique=True, max_size=6))
def test_both_formats_say_what_the_library_says(numbers: list[float], texts: list[str]) -> None:
    metrics = make_metrics(numbers, texts)
    plain = exposition.generate_latest(Collected(metrics)).decode()
    assert samples(parse_plain(write_plain(metrics).text.decode())) == samples(parse_plain(plain))
    written: bytes = openmetrics.generate_latest(Collected(metrics))  # type: ignore[no-untyped-call]
    ours = parse_open(write_openmetrics(metrics).text.decode())  # type: ignore[no-untyped-call]
    assert samples(ours) == samples(parse_open(written.decode()))  # type: ignore[no-untyped-call]
