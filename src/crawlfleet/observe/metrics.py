"""Counters and histograms of this process: plain integers that cost next to nothing to raise and that a scrape reads.

Nothing here knows of Prometheus; `api/views/process_metrics.py` turns the integers into its text. They are raised on
the event loop only; a scrape reads them in a thread, where a value may be one event old.

A label must never have a value that a caller invents (a task, an execution, a URL, an address). Where a label may still
get too many values, the rest is counted under `OTHER`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds, in seconds, of the buckets of a histogram of spans."""
OTHER = "~other"
"""Value of a label for everything beyond its limit."""
MAX_SERIES = 500
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
CODE_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")
UNMATCHED = "unmatched"
"""Route of a request that was answered before a route was found for it: no token, or no such path."""


class Histogram:
    """Counts of observed spans by bucket. `counts` has one more place than `bounds`, for everything above them."""

    __slots__ = ("bounds", "counts", "sum_s")

    def __init__(self, bounds: Sequence[float] = BOUNDS_S) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum_s += seconds

    @property
    def count(self) -> int:
        return sum(self.counts)


class HistogramSet:
    """Histograms by the value of one label."""

    __slots__ = ("_by_label",)

    def __init__(self) -> None:
        self._by_label: dict[str, Histogram] = {}

    def observe(self, label: str, seconds: float) -> None:
        histogram = self._by_label.get(label)
        if histogram is None:
            histogram = self._by_label[label] = Histogram()
        histogram.observe(seconds)

    def items(self) -> list[tuple[str, Histogram]]:
        return list(self._by_label.items())


class CounterSet:
    """A counter by the values of its labels; at most `MAX_SERIES` combinations, the rest adds to `OTHER`."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, *values: str, count: int = 1) -> None:
        assert len(values) == len(self.labels), f"the labels are {self.labels}"
        if values not in self._counts and len(self._counts) >= MAX_SERIES:
            values = (OTHER,) * len(self.labels)
        self._counts[values] = self._counts.get(values, 0) + count

    def items(self) -> list[tuple[tuple[str, ...], int]]:
        return list(self._counts.items())


class _RequestFigures:
    __slots__ = ("by_class", "times")

    def __init__(self) -> None:
        self.by_class = [0] * len(CODE_CLASSES)
        self.times = Histogram()


class RequestMetrics:
    """HTTP requests by route template and method: how many, by class of status, and how long until the response
    began."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], _RequestFigures] = {}

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request. `route` is a template such as `/api/v1/tasks/{task_id}`, never a path."""
        figures = self._routes.get((route, method))
        if figures is None:
            # Any word may stand as the method of a request.
            key = (route, method if method in METHODS else OTHER)
            figures = self._routes.setdefault(key, _RequestFigures())
        figures.by_class[status // 100 - 1] += 1
        figures.times.observe(seconds)

    def list_counts(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield route, method, class of status, and count."""
        for (route, method), figures in list(self._routes.items()):
            for code_class, count in zip(CODE_CLASSES, figures.by_class, strict=True):
                if count:
                    yield route, method, code_class, count

    def route_times(self) -> dict[str, Histogram]:
        """Return the times by route, over all methods."""
        by_route: dict[str, Histogram] = {}
        for (route, _), figures in list(self._routes.items()):
            sums = by_route.setdefault(route, Histogram())
            sums.counts = [have + more for have, more in zip(sums.counts, figures.times.counts, strict=True)]
            sums.sum_s += figures.times.sum_s
        return by_route


class ProcessMetrics:
    """The figures of one master process that have no other owner."""

    def __init__(self) -> None:
        self.requests = RequestMetrics()
        self.event_loop_lag = Histogram()
        """Delays of a timer of the event loop: how long a ready call waits for its turn."""
        self.event_streams = 0
        """Open event streams, server-sent events and WebSockets together."""
        self.notices = CounterSet(("channel", "result"))
        """Messages of alerts, by channel and result."""
