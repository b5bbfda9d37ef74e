"""Metrics as Prometheus reads them: the declaration of a metric, and its samples.

Every metric is declared once, as a `MetricSpec`; the tables of docs/monitoring.md are compared with the declarations.
Units are base units (seconds, ratios from 0 to 1), and a counter's name ends in `_total`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

PREFIX = "crawlfleet_"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    name: str
    """Name without the prefix, as it stands in a scrape."""
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        return PREFIX + self.name

    def single(self, value: float) -> Metric:
        """Return the metric of a name that has no labels."""
        return self.sampled([((), value)])

    def sampled(self, samples: Iterable[tuple[Sequence[str], float]]) -> Metric:
        """Return the metric with its samples, each the values of the labels and the number."""
        metric = self._empty_metric()
        for values, number in samples:
            metric.samples.append(Sample(self.full_name, dict(zip(self.labels, values, strict=True)), number))
        return metric

    def histograms(self, series: Iterable[HistogramSeries]) -> Metric:
        metric = self._empty_metric()
        for values, bounds, counts, sum_s in series:
            labels = dict(zip(self.labels, values, strict=True))
            totals = list(accumulate(counts))
            for bound, total in zip((*map(floatToGoString, bounds), "+Inf"), totals, strict=True):
                metric.samples.append(Sample(f"{self.full_name}_bucket", {**labels, "le": bound}, total))
            metric.samples.append(Sample(f"{self.full_name}_count", labels, totals[-1]))
            metric.samples.append(Sample(f"{self.full_name}_sum", labels, sum_s))
        return metric

    def _empty_metric(self) -> Metric:
        # The library adds the suffix of a counter itself.
        return Metric(self.full_name.removesuffix("_total"), self.help, self.kind)


HistogramSeries = tuple[Sequence[str], Sequence[float], Sequence[int], float]
"""Values of the labels, bounds in seconds, counts by bucket (one more than bounds), and the sum in seconds."""
