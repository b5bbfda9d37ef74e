"""Types of answers beyond the schemas of the OpenAPI document: put together by the client, or with open content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from crawlfleet.client._generated.models import AcceptedView, GroupView, RefusedView, TaskView

FINAL_STATUSES = frozenset({"completed", "failed", "timeout", "cancelled"})

BatchMode = Literal["atomic", "each"]
BatchItem = AcceptedView | RefusedView
OnProgress = Callable[[int, int], None]
"""Callback that receives how many are done, and of how many."""
OnLook = Callable[[TaskView], None]
"""Callback that receives a task each time it is read."""
OnGroup = Callable[[GroupView], None]
"""Callback that receives a group each time it is read."""
Status = str | None
"""A status, or several with commas between them."""
Role = Literal["viewer", "operator", "admin", "enrol", "metrics"]
OnBytes = Callable[[int], None]
"""Callback that receives how many bytes have come."""
ExportFormat = Literal["jsonl", "csv", "parquet", "warc"]
ExportKind = Literal["items", "pages", "all"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]
Fields = Mapping[str, Any]


class Why(NamedTuple):
    """The reason why a task is in its state, or why a group stands still."""

    sentence: str
    data: Mapping[str, Any]
    """Data of the reason, for programs: the status, the cause, and what the cause is about."""


OnWhy = Callable[[Why], None]


class SavedExport(NamedTuple):
    path: Path
    bytes: int
    is_complete: bool
    """Whether the work had ended; if False, more may have come since."""


class LogLine(msgspec.Struct, frozen=True):
    at: int
    """Unix time in milliseconds, by the node's clock."""
    level: str
    message: str
