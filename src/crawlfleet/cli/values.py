"""Values people type: JSON, files, priorities."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from crawlfleet.cli.exit_codes import usage_error

PRIORITIES = {"high": 10, "normal": 5, "low": 1}
STANDARD_INPUT = "-"


def priority(text: str) -> int:
    """1 to 10, or high, normal, low."""
    if text in PRIORITIES:
        return PRIORITIES[text]
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 10):
        usage_error(f"--priority: {text!r} is neither a number from 1 to 10 nor one of {', '.join(PRIORITIES)}")
    return int(text)


def json_object(text: str, option: str) -> dict[str, Any]:
    """As typed, or from a file: @params.json, @- for standard input."""
    if text.startswith("@"):
        text = read_text(text[1:], option)
    try:
        found = _loaded(text)
    except ValueError as exc:
        hint = """an example: '{"url": "https://example.com"}'; @FILE reads a file"""
        usage_error(f"{option}: not JSON: {exc}", hint)
    if not isinstance(found, dict):
        usage_error(f"{option}: must be a JSON object", """an example: '{"url": "https://example.com"}' """)
    return found


def assigned(pairs: list[str], option: str) -> dict[str, Any]:
    """NAME=VALUE pairs; a value that is JSON is that, any other is text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, has_value, text = pair.partition("=")
        if not has_value or not name:
            usage_error(f"{option}: {pair!r} is not of the form NAME=VALUE")
        try:
            found[name] = _loaded(text)
        except ValueError:
            found[name] = text
    return found


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def parameters(text: str, pairs: list[str] | None) -> dict[str, Any]:
    """Those of --params, and over them each --param."""
    return json_object(text, "--params") | assigned(pairs or [], "--param")


def read_text(name: str, option: str) -> str:
    try:
        if name == STANDARD_INPUT:
            return sys.stdin.read()
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        usage_error(f"{option}: cannot read {name}: {getattr(exc, 'strerror', None) or exc}")


def tasks_in(name: str) -> Iterator[dict[str, Any]]:
    """Of a file with one JSON object a line, a JSON list, or an object with a list `tasks`."""
    text = read_text(name, "FILE")
    whole = text.lstrip()
    if whole.startswith("[") or (whole.startswith("{") and _is_one_document(whole)):
        try:
            read = _loaded(whole)
        except ValueError as exc:
            usage_error(f"FILE: not JSON: {exc}")
        found = read if isinstance(read, list) else read.get("tasks", [read])
        yield from _objects(enumerate(found, 1), "task")
        return
    yield from _objects(_lines(text), "line")


def _is_one_document(text: str) -> bool:
    try:
        _loaded(text)
    except ValueError:
        return False
    return True


def _lines(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield number, _loaded(line)
            except ValueError as exc:
                usage_error(f"FILE: line {number}: not JSON: {exc}")


def _objects(found: Any, what: str) -> Iterator[dict[str, Any]]:
    for number, value in found:
        if not isinstance(value, dict):
            usage_error(f"FILE: {what} {number}: must be a JSON object")
        yield value
