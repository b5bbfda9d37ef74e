"""Validation of what a node sends with a sync: how much of each kind, and which values can be stored."""

from __future__ import annotations

from crawlfleet.control.nodes.sync_grants import check_hosts
from crawlfleet.control.nodes.sync_host_stats import check_figures
from crawlfleet.control.nodes.sync_quota_slices import check_wants
from crawlfleet.control.tasks.finish import is_storable
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.wire.sync import ProgressBody, SyncUp
from crawlfleet.wire.tasks import storage_problem


def check_sync(up: SyncUp) -> None:
    """Refuse a sync with more than an agent ever sends, or with values that the store cannot hold: InvalidInput."""
    if not is_storable(up.node, up.session, up.number):
        raise InvalidInput(f"numbers of at most {limits.INTEGER_BITS} bits", field="number")
    if len(up.started) > 2 * limits.SLOTS_MAX:
        raise InvalidInput(f"at most {2 * limits.SLOTS_MAX}", field="started")
    if len(up.outcomes) > limits.OUTCOMES_PER_SYNC:
        raise InvalidInput(f"at most {limits.OUTCOMES_PER_SYNC}", field="outcomes")
    if len(up.progress) > limits.PROGRESS_PER_SYNC:
        raise InvalidInput(f"at most {limits.PROGRESS_PER_SYNC}", field="progress")
    if len(up.held) > 2 * limits.SLOTS_MAX:
        raise InvalidInput(f"at most {2 * limits.SLOTS_MAX}", field="held")
    check_hosts(up)
    check_wants(up)
    check_figures(up)
    _check_execution_ends(up)


def _check_execution_ends(up: SyncUp) -> None:
    ends = up.measurement.ends
    if len(ends) > limits.LABELS:
        raise InvalidInput(f"at most {limits.LABELS} task types", field="ends")
    for task_type, survived, died in ends:
        if not 0 < len(task_type) <= limits.LABEL_CHARS or storage_problem(task_type):
            raise InvalidInput(f"task types of 1 to {limits.LABEL_CHARS} characters", field="ends")
        if not (0 <= survived < limits.FIGURE_MAX and 0 <= died < limits.FIGURE_MAX):
            raise InvalidInput("counts that can be added up", field="ends")


def is_valid_progress(progress: ProgressBody) -> bool:
    """Whether the figures of an execution are a JSON object of an allowed size; others are dropped."""
    figures = progress.figures
    return len(figures) <= limits.PROGRESS_BYTES and bytes(figures).startswith(b"{")
