"""Structured logs on standard error or in a file: one line per event, in colour for people or in JSON for machines.

With a log file, the file gets every line, and standard error only errors, for the person or the service manager that
started the process.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import warnings
from collections.abc import MutableMapping
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

import structlog

from crawlfleet.observe.log_file import LogFile
from crawlfleet.observe.log_level import LEVEL_NUMBERS, PROCESS_LEVEL
from crawlfleet.observe.secret_masking import mask_fields, mask_secrets
from crawlfleet.observe.terminal_text import escape_controls, escape_line
from crawlfleet.observe.tracing import current_trace_id

FORMATS = ("auto", "console", "json")


def configure_logs(level: str = "info", style: str = "auto", file: Path | None = None) -> LogFile | None:
    """Configure logging; return the log file, if there is one. `auto` is the format for people if the lines go to a
    terminal, and JSON otherwise."""
    PROCESS_LEVEL.start_with(level)
    is_json = style == "json" or (style == "auto" and (file is not None or not sys.stderr.isatty()))
    sink = _LogSink(sys.stderr, file)
    rendered: Any = (
        structlog.processors.JSONRenderer()
        if is_json
        else structlog.dev.ConsoleRenderer(colors=file is None, exception_formatter=_write_traceback)
    )
    # JSON escapes control characters of a terminal; text for people is escaped here.
    shown: list[Any] = (
        [structlog.processors.format_exc_info, _mask_values] if is_json else [_mask_values, _escape_values]
    )
    structlog.configure(
        processors=[
            _drop_unimportant,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _add_trace,
            *shown,
            rendered,
        ],
        # The level changes at run time, and loggers are cached: lines are dropped by the first processor.
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=lambda *_: _LineLogger(sink),
        cache_logger_on_first_use=True,
    )
    # Libraries that use the standard logging module: warnings and errors only.
    logging.basicConfig(handlers=[_LibraryHandler()], level=logging.WARNING, force=True)
    # requests mutes this warning as well, but another thread that leaves `warnings.catch_warnings` may undo that.
    warnings.filterwarnings("ignore", message="SOCKS support in urllib3")
    if sink.file is not None:
        _reopen_on_hangup(sink.file)
    return sink.file


def _reopen_on_hangup(file: LogFile) -> None:
    """Reopen the log file on SIGHUP, which would end the process otherwise: rotating programs send it."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, lambda *_: file.request_reopen())


class _LogSink:
    """Where lines go: the log file, and standard error without one, for errors, and when the file cannot be written."""

    def __init__(self, stream: TextIO, path: Path | None) -> None:
        self._stream = stream
        self.file = None if path is None else LogFile(path, self._report_fault, self._report_recovery)

    def write_line(self, line: str, *, is_error: bool) -> None:
        is_in_file = self.file is not None and self.file.write_line(line)
        if is_error or not is_in_file:
            self._print_line(line)

    def _print_line(self, line: str) -> None:
        try:
            self._stream.write(f"{line}\n")
            self._stream.flush()
        except (OSError, ValueError):
            # Standard error is closed, or its disk is full: there is no place left for the line.
            return

    def _report_fault(self, exc: OSError) -> None:
        assert self.file is not None
        structlog.get_logger().critical(
            "log_file_unavailable",
            file=str(self.file.path),
            error=exc.strerror,
            hint="lines go to standard error until the file can be written",
        )

    def _report_recovery(self, lines_lost: int) -> None:
        structlog.get_logger().warning("log_file_available", lines_on_standard_error=lines_lost)


class _LineLogger:
    """The end of the chain of processors: it gets the rendered line by the name of its level."""

    def __init__(self, sink: _LogSink) -> None:
        self._sink = sink

    def _write_line(self, line: str) -> None:
        self._sink.write_line(line, is_error=False)

    def _write_error(self, line: str) -> None:
        self._sink.write_line(line, is_error=True)

    debug = info = warning = _write_line
    error = critical = _write_error


def _drop_unimportant(_logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if LEVEL_NUMBERS[method] < PROCESS_LEVEL.threshold:
        raise structlog.DropEvent
    return event


def _add_trace(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if (trace_id := current_trace_id()) is not None:
        event["trace_id"] = trace_id
    return event


def _mask_values(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    # The exception of a line for people is masked when it is written.
    given = {"exc_info": event.pop("exc_info")} if "exc_info" in event else {}
    return {**mask_fields(event), **given}


def _escape_values(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape the values of an event, as a structlog processor, so that foreign names and messages cannot control the
    terminal that shows the log."""
    return {key: escape_line(value) if isinstance(value, str) else value for key, value in event.items()}


def _write_traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    written = StringIO()
    structlog.dev.plain_traceback(written, exc_info)
    stream.write(escape_controls(mask_secrets(written.getvalue())))


class _LibraryHandler(logging.Handler):
    """Writes the lines of libraries in the format of our own: they quote what callers sent."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            message = str(record.msg)
        # Libraries may have levels of their own, between the five.
        level = max(number for number in LEVEL_NUMBERS.values() if number <= max(record.levelno, logging.DEBUG))
        given = {"exc_info": record.exc_info} if record.exc_info else {}
        structlog.get_logger().log(level, message, library=record.name, **given)
