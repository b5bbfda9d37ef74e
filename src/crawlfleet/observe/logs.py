"""Structured logs on standard error: one line per event, in colour for people or in JSON for machines."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import MutableMapping
from io import StringIO
from typing import Any, TextIO

import structlog

from crawlfleet.observe.terminal_text import escape_controls, escape_line

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "console", "json")


def configure_logs(level: str = "info", style: str = "auto") -> None:
    """Configure logging. `auto` is the format for people if standard error is a terminal, and JSON otherwise."""
    is_json = style == "json" or (style == "auto" and not sys.stderr.isatty())
    rendered: Any = (
        structlog.processors.JSONRenderer()
        if is_json
        else structlog.dev.ConsoleRenderer(exception_formatter=_write_traceback)
    )
    # JSON escapes control characters of a terminal; text for people is escaped here.
    shown: list[Any] = [structlog.processors.format_exc_info] if is_json else [_escape_values]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *shown,
            rendered,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    # Libraries that use the standard logging module: warnings and errors only.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_EscapingFormatter("%(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    # requests mutes this warning as well, but another thread that leaves `warnings.catch_warnings` may undo that.
    warnings.filterwarnings("ignore", message="SOCKS support in urllib3")


def _escape_values(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape the values of an event, as a structlog processor, so that foreign names and messages cannot control the
    terminal that shows the log."""
    return {key: escape_line(value) if isinstance(value, str) else value for key, value in event.items()}


def _write_traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    written = StringIO()
    structlog.dev.plain_traceback(written, exc_info)
    stream.write(escape_controls(written.getvalue()))


class _EscapingFormatter(logging.Formatter):
    """Escapes the log lines of libraries, which quote what callers sent."""

    def format(self, record: logging.LogRecord) -> str:
        return escape_controls(super().format(record))
