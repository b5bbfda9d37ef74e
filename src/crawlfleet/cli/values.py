"""Values people type: JSON, files, priorities."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.model.queue import PriorityClasses

if TYPE_CHECKING:
    from crawlfleet.cli.command import Call

PRIORITIES = PriorityClasses()._asdict()
STANDARD_INPUT = "-"


def read_priority(text: str, call: Call) -> int:
    """Return a priority from 1 to 10. For high, normal and low the master is asked which number the class begins
    with."""
    if text in PRIORITIES:
        priority: int = call.client.config().effective[f"priority_{text}"]
        return priority
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 10):
        usage_error(f"--priority: {text!r} is neither a number from 1 to 10 nor one of {', '.join(PRIORITIES)}")
    return int(text)


_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def parse_span_s(text: str, option: str) -> float:
    """Seconds of a span such as 90s, 15m, 24h, 7d or 2w."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS_S or not (number.isascii() and number.isdigit()) or len(number) > 6:
        usage_error(f"{option}: {text!r} is no span such as 90s, 15m, 24h, 7d or 2w")
    return float(int(number) * _UNITS_S[unit])


def parse_json_object(text: str, option: str) -> dict[str, Any]:
    """As typed, or from a file: @params.json, @- for standard input."""
    if text.startswith("@"):
        text = read_text(text[1:], option)
    try:
        value = _parse_json(text)
    except ValueError as exc:
        hint = """an example: '{"url": "https://example.com"}'; @FILE reads a file"""
        usage_error(f"{option}: not JSON: {exc}", hint)
    if not isinstance(value, dict):
        usage_error(f"{option}: must be a JSON object", """an example: '{"url": "https://example.com"}' """)
    return value


def parse_pairs(pairs: list[str], option: str) -> dict[str, Any]:
    """NAME=VALUE pairs; a value that is JSON is that, any other is text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, has_value, text = pair.partition("=")
        if not has_value or not name:
            usage_error(f"{option}: {pair!r} is not of the form NAME=VALUE")
        try:
            values[name] = _parse_json(text)
        except ValueError:
            values[name] = text
    return values


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def parse_parameters(text: str, pairs: list[str] | None) -> dict[str, Any]:
    """Those of --params, and over them each --param."""
    return parse_json_object(text, "--params") | parse_pairs(pairs or [], "--param")


def read_text(name: str, option: str) -> str:
    try:
        if name == STANDARD_INPUT:
            return sys.stdin.read()
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        usage_error(f"{option}: cannot read {name}: {getattr(exc, 'strerror', None) or exc}")


def read_tasks(name: str) -> Iterator[dict[str, Any]]:
    """Of a file with one JSON object a line, a JSON list, or an object with a list `tasks`."""
    text = read_text(name, "FILE")
    whole = text.lstrip()
    if whole.startswith("[") or (whole.startswith("{") and _is_one_document(whole)):
        try:
            document = _parse_json(whole)
        except ValueError as exc:
            usage_error(f"FILE: not JSON: {exc}")
        tasks = document if isinstance(document, list) else document.get("tasks", [document])
        yield from _require_objects(enumerate(tasks, 1), "task")
        return
    yield from _require_objects(_parse_lines(text), "line")


def _is_one_document(text: str) -> bool:
    try:
        _parse_json(text)
    except ValueError:
        return False
    return True


def _parse_lines(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield number, _parse_json(line)
            except ValueError as exc:
                usage_error(f"FILE: line {number}: not JSON: {exc}")


def _require_objects(numbered: Any, what: str) -> Iterator[dict[str, Any]]:
    for number, value in numbered:
        if not isinstance(value, dict):
            usage_error(f"FILE: {what} {number}: must be a JSON object")
        yield value
