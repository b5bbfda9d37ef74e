"""Summaries of tasks for people: what was counted, how one ended, and where its result is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from crawlfleet.cli.output import to_builtins

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import TaskView

_SEPARATE_FIELDS = {"result", "error", "retry", "max_retries", "progress"}
_DEFAULTS = {"require_region": False, "preemptible": False, "losses": 0, "round": 1}
"""Fields that say something only where they have another value."""


def summary_fields(task: TaskView) -> dict[str, object]:
    """Everything that is known of a task, but for the data of its result."""
    values = to_builtins(task)
    fields = {
        name: value
        for name, value in values.items()
        if name not in _SEPARATE_FIELDS and _DEFAULTS.get(name, ...) != value
    }
    retry = task.retry
    fields["retry"] = f"{retry.max_retries} times, {retry.base_delay_s:g} to {retry.max_delay_s:g} s later"
    if isinstance(task.progress, Mapping):
        fields["progress"] = format_figures(task.progress)
    if task.error is not None:
        fields["error"] = f"{task.error.class_}: {task.error.message}"
    if task.result is not None:
        fields["counts"] = format_counts(task)
        fields["result"] = f"crawlfleet task show {task.id} --result prints it"
    return fields


def end_line(task: TaskView) -> str:
    """`task-... completed in 8 s: 70 pages, 2 failed (status 2), 180 items`"""
    line = f"{task.id}  {task.status}"
    if task.status == "completed":
        line += "" if (took := _took_s(task)) is None else f" in {format_span(took)}"
        counted = format_counts(task)
        return line + (f": {counted}" if counted else "")
    why = task.error.message if task.error is not None else task.reason
    return line + (f": {why}" if why else "")


def format_counts(task: TaskView) -> str:
    """What the result's metrics count."""
    metrics = task.result.metrics if task.result is not None else None
    if not isinstance(metrics, Mapping):
        return ""
    if "pages_crawled" in metrics:
        return _crawl_counts(metrics)
    return format_figures(metrics)


def _crawl_counts(metrics: Mapping[str, Any]) -> str:
    parts = [f"{metrics['pages_crawled']:,} pages"]
    failed = metrics.get("pages_failed", 0)
    parts.append(f"{failed:,} failed{_format_kinds(metrics)}")
    if skipped := metrics.get("pages_skipped", 0):
        parts.append(f"{skipped:,} skipped")
    parts.append(f"{metrics.get('items', 0):,} items")
    if stopped_by := metrics.get("stopped_by"):
        parts.append(f"stopped by {stopped_by}")
    return ", ".join(parts)


def _format_kinds(metrics: Mapping[str, Any]) -> str:
    kinds = metrics.get("failures") or metrics.get("errors") or {}
    return f" ({', '.join(f'{kind} {count:,}' for kind, count in kinds.items())})" if kinds else ""


def format_figures(figures: Mapping[str, Any]) -> str:
    """`pages 12, queued 30`: those that are numbers or words."""
    return ", ".join(f"{name} {value}" for name, value in figures.items() if isinstance(value, int | float | str))


def format_span(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, whole = divmod(round(seconds), 60)
    if not minutes:
        return f"{whole} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {whole} s"


def _took_s(task: TaskView) -> float | None:
    began: datetime | None = task.started_at or task.created_at
    return None if task.completed_at is None or began is None else (task.completed_at - began).total_seconds()
