"""Writes docs/api.md from the OpenAPI document and docs/errors.md from the codes that the code itself knows. `--check`
only says whether the files are as they should be.

    python scripts/generate_api_docs.py [--check]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# The client and the settings bring errors of their own.
from crawlfleet import client  # noqa: F401
from crawlfleet.api.app import create_app
from crawlfleet.api.http import errors as problems
from crawlfleet.errors import CrawlfleetError
from crawlfleet.observe.metrics import ProcessMetrics
from crawlfleet.ports.clock import SystemClock
from crawlfleet.scheduling.explain import task
from crawlfleet.scheduling.tasks.retry import RULES
from crawlfleet.settings import loading  # noqa: F401
from scripts.error_meanings import AT_THE_CALLER, CLASSES, MEANINGS, NEVER_TOLD, Meaning

DOCS = Path(__file__).resolve().parent.parent / "docs"
_METHODS = ("get", "post", "put", "patch", "delete")
_TOLD_BY = ("crawlfleet.errors", "crawlfleet.api.", "crawlfleet.control.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 when a file is out of date")
    is_check = parser.parse_args().check
    stale = []
    for path, text in {DOCS / "api.md": api_text(openapi_document()), DOCS / "errors.md": errors_text()}.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not is_check:
                path.write_text(text, encoding="utf-8")
                print(f"wrote docs/{path.name}")
    if stale and is_check:
        print(f"out of date: {', '.join(stale)}", file=sys.stderr)
        return 1
    return 0


class _NoServices:
    """The document says what the routes are, not what they do: whatever stands behind them is not touched."""

    clock = SystemClock()
    metrics = ProcessMetrics()

    def __getattr__(self, name: str) -> None:
        return None


def openapi_document() -> dict[str, Any]:
    services: Any = _NoServices()
    return create_app(services).openapi()


_API_HEAD = """\
# HTTP API

Written by `scripts/generate_api_docs.py` from the OpenAPI document, which a master serves at `/openapi.json`, and at
`/docs` for people.

Every request below `/api` needs `Authorization: Bearer TOKEN` or `X-API-Key: TOKEN`. Bodies are JSON; a field that is
not known is refused. Errors are `application/problem+json` with a stable `code` and the `field` at fault: see
[errors](errors.md). Instants are ISO 8601 in UTC. Lists come in pages: ask again with `next_cursor` as `cursor`, until
it is null. A page of large records is shorter than `limit`.
"""


def api_text(document: Mapping[str, Any]) -> str:
    by_tag: dict[str, list[tuple[str, str, Any]]] = {}
    for path, item in document["paths"].items():
        for method in (name for name in _METHODS if name in item):
            by_tag.setdefault(item[method]["tags"][0], []).append((path, method, item[method]))
    lines = [_API_HEAD]
    for tag, operations in by_tag.items():
        lines += [f"## {tag.replace('-', ' ').capitalize()}", ""]
        for path, method, said in sorted(operations, key=lambda one: (one[0], _METHODS.index(one[1]))):
            lines += _operation(path, method, said)
    lines += ["## Schemas", "", "A field without a default is always there in an answer, and needed in a body.", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += _schema(name, schema)
    return "\n".join(lines).rstrip() + "\n"


def _operation(path: str, method: str, said: Mapping[str, Any]) -> list[str]:
    lines = [f"### `{method.upper()} {path}`", ""]
    if sentence := _sentence(said):
        lines += [sentence, ""]
    if parameters := said.get("parameters"):
        lines += ["| parameter | in | type | what it is |", "|---|---|---|---|"]
        for one in parameters:
            about = one.get("description") or one["schema"].get("description") or ""
            lines.append(f"| `{one['name']}` | {one['in']} | {_kind(one['schema'])} | {_cell(about)} |")
        lines.append("")
    for media, content in said.get("requestBody", {}).get("content", {}).items():
        lines += [f"Body ({media}): {_kind(content['schema'])}", ""]
    for status, answer in said["responses"].items():
        if status.startswith("2"):
            shown = ", ".join(f"{_kind(one['schema'])} ({media})" for media, one in answer.get("content", {}).items())
            told = [text for text in (shown, _answered(answer)) if text]
            lines += [f"Answers {status}{': ' if told else ''}{'. '.join(told)}", ""]
    errors = [status for status in said["responses"] if not status.startswith("2")]
    return [*lines, f"Errors: {', '.join(errors)}", ""] if errors else lines


def _sentence(said: Mapping[str, Any]) -> str:
    text = " ".join(str(said.get("description") or "").split())
    summary = str(said.get("summary") or "")
    # FastAPI makes a summary of the function's name, which says nothing that the path does not.
    return text if summary == summary.title() else f"{summary}. {text}"


def _answered(answer: Mapping[str, Any]) -> str:
    said = _cell(str(answer.get("description") or ""))
    return "" if said in {"Successful Response", "As asked."} else said


def _schema(name: str, schema: Mapping[str, Any]) -> list[str]:
    lines = [f"### {name}", ""]
    if about := schema.get("description"):
        lines += [" ".join(str(about).split()), ""]
    fields = schema.get("properties", {})
    if not fields:
        return [*lines, _kind(schema), ""]
    lines += ["| field | type | default | what it is |", "|---|---|---|---|"]
    for field, inner in fields.items():
        # A field that may be left out and has no default shows nothing there.
        default = f"`{json.dumps(inner['default'])}`" if "default" in inner else ""
        lines.append(f"| `{field}` | {_kind(inner)} | {default} | {_cell(inner.get('description', ''))} |")
    return [*lines, ""]


def _kind(schema: Mapping[str, Any]) -> str:
    """A type as people say it."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_kind(one) for one in schema[word]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return _plain_kind(schema)


def _plain_kind(schema: Mapping[str, Any]) -> str:
    match schema.get("type"):
        case "array":
            return f"list of {_kind(schema.get('items', {}))}"
        case "object" if isinstance(schema.get("additionalProperties"), Mapping):
            return f"object of {_kind(schema['additionalProperties'])}"
        case "integer" | "number" as kind:
            return f"{kind}{_bounds(schema, 'minimum', 'maximum')}"
        case "string" if schema.get("format") == "date-time":
            return "instant"
        case "string":
            return f"text{_bounds(schema, 'minLength', 'maxLength', ' characters')}"
        case None:
            return "anything"
        case kind:
            return str(kind)


def _bounds(schema: Mapping[str, Any], least: str, most: str, unit: str = "") -> str:
    low, high = schema.get(least), schema.get(most)
    if high is None:
        return f", at least {low:g}{unit}" if low else ""
    return f", {low or 0:g} to {high:,g}{unit}" if high < 1e9 else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


_ERRORS_HEAD = """\
# Errors

Written by `scripts/generate_api_docs.py`.

An error of the API is `application/problem+json` ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)):

```json
{"type": "urn:crawlfleet:error:invalid_input", "title": "Unprocessable Entity", "status": 422,
 "code": "invalid_input", "detail": "Expected `int` <= 10", "field": "priority"}
```

`code` is stable: programs may branch on it. `field` names what in the request is wrong. `hint`, where there is one,
says what to do next. Inside the answer to a batch or a bulk change the same codes stand beside each item, and its
neighbours are not touched. 429 and 503 carry `Retry-After`.

## Codes

| code | HTTP | what it means | what to do |
|---|---|---|---|"""


def errors_text() -> str:
    lines = [_ERRORS_HEAD]
    statuses = told_codes()
    _agree(statuses.keys(), MEANINGS, "MEANINGS")
    for code, meaning in sorted(MEANINGS.items(), key=lambda one: (statuses[one[0]], one[0])):
        lines.append(f"| `{code}` | {statuses[code]} | {_cell(meaning.what)} | {_cell(meaning.to_do)} |")
    lines += ["", "## At the caller", "", "These never cross the wire: the client and the command line raise them.", ""]
    lines += _caller_rows()
    lines += ["", "## Classes of failed executions", "", _CLASSES_HEAD, *_class_rows()]
    lines += ["", "## Words in `why`", "", _WHY_HEAD, *_why_rows()]
    return "\n".join(lines) + "\n"


def told_codes() -> dict[str, int]:
    """Every code that an answer of a master may carry, with its status."""
    found = {str(code): status for code, status in problems.STATUS_OF_CODE.items()}
    found |= {code: status for status, code in problems._CODE_OF_STATUS.items()} | {"internal": 500}
    for cls in _classes(CrawlfleetError):
        if cls.__module__.startswith(_TOLD_BY) and cls.code not in {*NEVER_TOLD, *AT_THE_CALLER}:
            found.setdefault(cls.code, cls.http_status)
    return found


def _classes(root: type[CrawlfleetError]) -> Iterator[type[CrawlfleetError]]:
    yield root
    for below in root.__subclasses__():
        yield from _classes(below)


def _caller_rows() -> list[str]:
    known = {cls.code for cls in _classes(CrawlfleetError)} - set(MEANINGS) - set(NEVER_TOLD)
    _agree(known, AT_THE_CALLER, "AT_THE_CALLER")
    rows = ["| code | what it means | what to do |", "|---|---|---|"]
    return rows + [f"| `{code}` | {_cell(one.what)} | {_cell(one.to_do)} |" for code, one in AT_THE_CALLER.items()]


_CLASSES_HEAD = """\
A failed execution has a class, which decides whether and when the task is tried again. The task's own `retry` says how
often (`max_retries`) and how long to wait (`base_delay_s`, doubled each time up to `max_delay_s`, then a random half to
whole of it). A failure that says it is permanent is not retried, whatever its class.

| class | for example | retried | wait |
|---|---|---|---|"""


def _class_rows() -> Iterator[str]:
    _agree([error.word for error in RULES], CLASSES, "CLASSES")
    for error, rule in RULES.items():
        most = "as often as the task says" if rule.max_retries is None else f"at most {rule.max_retries} time"
        wait = "as the task says" if rule.delay_factor == 1 else f"{rule.delay_factor:g} times as long"
        retried, waits = (most, wait) if rule.may_retry else ("no", "")
        yield f"| `{error.word}` | {CLASSES[error.word]} | {retried} | {waits} |"


_WHY_HEAD = """\
`GET /api/v1/tasks/{id}/why` counts, under `placement.refusals`, the nodes that each filter removed. A word may end in
`:` and the capability or resource it is about.

| word | said to people as |
|---|---|"""


def _why_rows() -> Iterator[str]:
    for word, text in task._PHRASES.items():
        yield f"| `{word}` | {text.format('NAME')} |"


def _agree(found: Any, written: Mapping[str, Meaning | str], name: str) -> None:
    if missing := set(found) ^ set(written):
        raise SystemExit(f"scripts/error_meanings.py: {name} and the code disagree about {', '.join(sorted(missing))}")


if __name__ == "__main__":
    raise SystemExit(main())
