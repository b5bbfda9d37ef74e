"""Answers that are more than the document's schemas say: put together by the client, or open at the end."""

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
"""Called with how many are done, and of how many."""
OnLook = Callable[[TaskView], None]
"""Called with a task each time it is looked at."""
OnGroup = Callable[[GroupView], None]
"""Called with a group each time it is looked at."""
Status = str | None
"""A status, or several with commas between them."""
Role = Literal["viewer", "operator", "admin", "enrol"]
OnBytes = Callable[[int], None]
"""Called with how many bytes have come."""
ExportFormat = Literal["jsonl", "csv", "parquet", "warc"]
ExportKind = Literal["items", "pages", "all"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]
Fields = Mapping[str, Any]


class Why(NamedTuple):
    """Why a task is where it is, or why a group stands still."""

    sentence: str
    data: Mapping[str, Any]
    """The same for programs: the status, the cause, and what the cause is about."""


OnWhy = Callable[[Why], None]


class SavedExport(NamedTuple):
    path: Path
    bytes: int
    is_complete: bool
    """False: of work that had not ended, so that more may have come since."""


class LogLine(msgspec.Struct, frozen=True):
    at: int
    """Unix time in milliseconds, by the node's clock."""
    level: str
    message: str
