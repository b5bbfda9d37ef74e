"""The metrics of this process, for `/metrics`."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from crawlfleet.api.http.services import Services
from crawlfleet.api.views.metric_families import HistogramSeries, MetricSpec
from crawlfleet.observe.metrics import Histogram
from crawlfleet.version import __version__

BUILD_INFO = MetricSpec("build_info", "gauge", "1, with the version of this process.", ("version",))
IS_LEADER = MetricSpec("is_leader", "gauge", "1 while this master leads.")
HTTP_REQUESTS = MetricSpec(
    "http_requests_total",
    "counter",
    "Answered requests by route template; unmatched: refused before a route was found.",
    ("route", "method", "code_class"),
)
HTTP_DURATION = MetricSpec(
    "http_request_duration_seconds",
    "histogram",
    "Time until the response began; long polls count with their wait.",
    ("route",),
)
STORE_TRANSACTION = MetricSpec(
    "store_transaction_seconds",
    "histogram",
    "Time of transactions with the wait for a connection: write, read, key_read, browse (reads for people).",
    ("kind",),
)
BROKER_UP = MetricSpec("broker_up", "gauge", "1 while the broker answers; without it everything is slower, not wrong.")
LOOP_PASS = MetricSpec("loop_pass_seconds", "histogram", "Time of one pass of a loop.", ("loop",))
LOOP_LAST_PASS = MetricSpec(
    "loop_last_pass_timestamp_seconds",
    "gauge",
    "When the last pass of a loop ended; most loops rest while another master leads.",
    ("loop",),
)
EVENT_LOOP_LAG = MetricSpec(
    "event_loop_lag_seconds", "histogram", "How late a timer of the event loop fires, measured twice a second."
)
LEDGER_DRIFT = MetricSpec(
    "ledger_drift_total", "counter", "Executions by which the slot ledger differed from the store and was corrected."
)
EVENT_STREAMS = MetricSpec("event_streams", "gauge", "Open event streams: server-sent events and WebSockets.")
NOTICES = MetricSpec(
    "notices_total",
    "counter",
    "Attempts to send messages of alerts; result: delivered, refused, abandoned.",
    ("channel", "result"),
)

PROCESS_METRICS = (
    BUILD_INFO,
    IS_LEADER,
    HTTP_REQUESTS,
    HTTP_DURATION,
    STORE_TRANSACTION,
    BROKER_UP,
    LOOP_PASS,
    LOOP_LAST_PASS,
    EVENT_LOOP_LAG,
    LEDGER_DRIFT,
    EVENT_STREAMS,
    NOTICES,
)


def collect_process_metrics(services: Services) -> Iterator[Metric]:
    """Yield the metrics of this process. It only reads memory, and may run in a thread."""
    metrics = services.metrics
    loops = services.loops
    yield BUILD_INFO.sampled([((__version__,), 1)])
    yield IS_LEADER.single(services.leadership.term is not None)
    yield HTTP_REQUESTS.sampled((labels, count) for *labels, count in metrics.requests.list_counts())
    yield HTTP_DURATION.histograms(_series(route, times) for route, times in metrics.requests.route_times().items())
    yield STORE_TRANSACTION.histograms(_series(kind, times) for kind, times in services.store.transaction_times.items())
    yield BROKER_UP.single(services.broker.failure_reason is None)
    yield LOOP_PASS.histograms(_series(loop.name, loop.pass_times) for loop in loops)
    yield LOOP_LAST_PASS.sampled(
        ((loop.name,), loop.last_pass_at / 1_000) for loop in loops if loop.last_pass_at is not None
    )
    lag = metrics.event_loop_lag
    yield EVENT_LOOP_LAG.histograms([((), lag.bounds, list(lag.counts), lag.sum_s)])
    drift = services.reconciler.drifted
    yield LEDGER_DRIFT.single(drift.missing + drift.surplus)
    yield EVENT_STREAMS.single(metrics.event_streams)
    yield NOTICES.sampled(metrics.notices.items())


def _series(label: str, histogram: Histogram) -> HistogramSeries:
    return (label,), histogram.bounds, list(histogram.counts), histogram.sum_s
