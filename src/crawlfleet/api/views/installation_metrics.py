"""The metrics of the whole installation, for `/metrics/installation`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.metrics_core import Metric

from crawlfleet.api.views.metric_families import HistogramSeries, MetricSpec
from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.cluster_report import is_usable
from crawlfleet.control.admin.installation_reader import Installation
from crawlfleet.model import host_stats
from crawlfleet.model.figures import task_figures
from crawlfleet.model.ids import node_text
from crawlfleet.model.node import Node
from crawlfleet.model.status import ErrorClass, ExecutionStatus, TaskStatus
from crawlfleet.observe.metrics import OTHER

MAX_PROJECTS = task_figures.SERIES_MOST[task_figures.PROJECT]
MAX_CLUSTERS = task_figures.SERIES_MOST[task_figures.CLUSTER]
MAX_NODES = task_figures.SERIES_MOST[task_figures.NODE]

TASKS = MetricSpec("tasks", "gauge", "Tasks by status, exact.", ("status",))
TASKS_WAITING = MetricSpec(
    "tasks_waiting", "gauge", "Tasks on no node by priority class; retry: those that wait for a retry.", ("class",)
)
OLDEST_WAIT = MetricSpec("oldest_wait_seconds", "gauge", "For how long the oldest ready task waits; 0 without any.")
TASKS_SUBMITTED = MetricSpec("tasks_submitted_total", "counter", "Submitted tasks.", ("task_type",))
EXECUTIONS = MetricSpec(
    "executions_total", "counter", "Executions that ended, by how they ended.", ("task_type", "outcome")
)
EXECUTION_ERRORS = MetricSpec(
    "execution_errors_total", "counter", "Executions that failed, by error class.", ("error_class",)
)
EXECUTION_DURATION = MetricSpec(
    "execution_duration_seconds",
    "histogram",
    "Run times of executions that completed, failed or timed out.",
    ("task_type",),
)
TASK_WAIT = MetricSpec(
    "task_wait_seconds", "histogram", "Waits of ended executions, from ready to assigned.", ("task_type",)
)
PROJECT_RUNNING = MetricSpec(
    "project_running", "gauge", "Tasks on nodes by project, for projects that have any.", ("project",)
)
DEAD_LETTERS = MetricSpec("dead_letters", "gauge", "Dead letters that wait for a person.")
NODES = MetricSpec("nodes", "gauge", "Nodes by status.", ("cluster", "status"))
SLOTS = MetricSpec("slots", "gauge", "Slots: used on any node, free on usable nodes.", ("cluster", "state"))
NODE_CPU = MetricSpec("node_cpu_ratio", "gauge", "Processor use of a connected node.", ("node",))
NODE_MEMORY = MetricSpec("node_memory_ratio", "gauge", "Memory use of a connected node.", ("node",))
NODE_DISK = MetricSpec("node_disk_ratio", "gauge", "Disk use of a connected node.", ("node",))
HOST_REQUESTS = MetricSpec(
    "host_requests_total",
    "counter",
    "Requests to target hosts by class of the status, or error without a response.",
    ("outcome",),
)
HOST_BLOCKS = MetricSpec("host_blocks_total", "counter", "Responses of target hosts that were block pages.")
HOSTS_IN_BACKOFF = MetricSpec("hosts_in_backoff", "gauge", "Target hosts that are in a back-off.")
SCHEDULE_TICKS = MetricSpec("schedule_ticks_total", "counter", "Ticks of schedules by result.", ("result",))
MASTERS = MetricSpec("masters", "gauge", "Masters that are alive.")
LEADER_CHANGES = MetricSpec("leader_changes_total", "counter", "Leaderships since the installation began.")
ALERTS_FIRING = MetricSpec("alerts_firing", "gauge", "Active alerts.", ("rule", "severity"))

INSTALLATION_METRICS = (
    TASKS,
    TASKS_WAITING,
    OLDEST_WAIT,
    TASKS_SUBMITTED,
    EXECUTIONS,
    EXECUTION_ERRORS,
    EXECUTION_DURATION,
    TASK_WAIT,
    PROJECT_RUNNING,
    DEAD_LETTERS,
    NODES,
    SLOTS,
    NODE_CPU,
    NODE_MEMORY,
    NODE_DISK,
    HOST_REQUESTS,
    HOST_BLOCKS,
    HOSTS_IN_BACKOFF,
    SCHEDULE_TICKS,
    MASTERS,
    LEADER_CHANGES,
    ALERTS_FIRING,
)

_BOUNDS_S = tuple(bound / 1_000 for bound in task_figures.BOUNDS_MS)
_STATUS_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")


def collect_installation_metrics(installation: Installation, configure: Configure) -> Iterator[Metric]:
    """Yield the metrics of what was read. It may run in a thread."""
    yield TASKS.sampled(((status.word,), installation.tasks.get(status, 0)) for status in TaskStatus)
    yield TASKS_WAITING.sampled(((name,), size) for name, size in installation.class_sizes.items())
    yield OLDEST_WAIT.single(installation.oldest_wait_ms / 1_000)
    yield from _execution_metrics(installation)
    projects = fold_names(installation.counts.running, MAX_PROJECTS)
    yield PROJECT_RUNNING.sampled(((project,), running) for project, running in sorted(projects.items()))
    yield DEAD_LETTERS.single(installation.counts.dead_letters)
    yield from _node_metrics(installation.nodes, installation.counts.held, configure)
    yield from _host_metrics(installation.host_figures)
    yield HOSTS_IN_BACKOFF.single(installation.counts.hosts_in_backoff)
    yield SCHEDULE_TICKS.sampled(((status.word,), count) for status, count in installation.counts.ticks.items())
    yield MASTERS.single(installation.masters)
    yield LEADER_CHANGES.single(installation.term)
    yield ALERTS_FIRING.sampled(
        ((rule, severity.value), count) for (rule, severity), count in sorted(installation.alerts.items())
    )


def _execution_metrics(installation: Installation) -> Iterator[Metric]:
    by_type = {series.partition(":")[2]: total.figures for series, total in sorted(installation.by_type.items())}
    yield TASKS_SUBMITTED.sampled(((name,), row[task_figures.SUBMITTED]) for name, row in by_type.items())
    yield EXECUTIONS.sampled(
        ((name, status.word), row[task_figures.STARTED + int(status)])
        for name, row in by_type.items()
        for status in ExecutionStatus
    )
    yield EXECUTION_ERRORS.sampled(
        ((error.word,), installation.figures[task_figures.ERRORS + int(error) - 1]) for error in ErrorClass
    )
    yield EXECUTION_DURATION.histograms(
        _series(name, task_figures.run_times(row), row[task_figures.RAN_MS]) for name, row in by_type.items()
    )
    yield TASK_WAIT.histograms(
        _series(name, task_figures.wait_times(row), row[task_figures.WAIT_MS]) for name, row in by_type.items()
    )


def _series(name: str, times: Sequence[int], sum_ms: int) -> HistogramSeries:
    return (name,), _BOUNDS_S, times, sum_ms / 1_000


def _node_metrics(nodes: Sequence[Node], held: Mapping[int, int], configure: Configure) -> Iterator[Metric]:
    sizes = Counter(node.description.cluster for node in nodes)
    names = dict.fromkeys(fold_names(sizes, MAX_CLUSTERS))
    by_status: Counter[tuple[str, str]] = Counter()
    slots: Counter[tuple[str, str]] = Counter()
    for node in nodes:
        cluster = node.description.cluster if node.description.cluster in names else OTHER
        used = held.get(node.id, 0)
        by_status[cluster, node.status.word] += 1
        slots[cluster, "used"] += used
        slots[cluster, "free"] += max(0, configure.with_effective_slots(node).slots - used) if is_usable(node) else 0
    yield NODES.sampled(sorted(by_status.items()))
    yield SLOTS.sampled(sorted(slots.items()))
    connected = sorted((node for node in nodes if node.is_session_open), key=lambda node: node.id)[:MAX_NODES]
    measured = [(node_text(node.id), node.measurement) for node in connected if node.measurement is not None]
    yield NODE_CPU.sampled(((name,), measurement.cpu) for name, measurement in measured)
    yield NODE_MEMORY.sampled(((name,), measurement.memory) for name, measurement in measured)
    yield NODE_DISK.sampled(((name,), measurement.disk) for name, measurement in measured)


def _host_metrics(figures: Sequence[int]) -> Iterator[Metric]:
    first = host_stats.STATUSES
    outcomes = dict(zip(_STATUS_CLASSES, figures[first : first + len(_STATUS_CLASSES)], strict=True))
    outcomes["error"] = sum(figures[host_stats.ERRORS : host_stats.ERRORS + len(host_stats.KINDS)])
    yield HOST_REQUESTS.sampled(((outcome,), count) for outcome, count in outcomes.items())
    yield HOST_BLOCKS.single(figures[host_stats.BLOCKED])


def fold_names(counts: Mapping[str, int], limit: int) -> dict[str, int]:
    """Return the largest counts, at most `limit`; the rest is added up under one name."""
    if len(counts) <= limit:
        return dict(counts)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    folded = dict(ranked[:limit])
    folded[OTHER] = folded.get(OTHER, 0) + sum(count for _, count in ranked[limit:])
    return folded
