"""`crawlfleet type`: what can be run, and which parameters each takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import Complaint, ExitCode

app = typer.Typer(no_args_is_help=True)

_WORDS = {"string": "text", "integer": "whole number", "boolean": "true or false", "array": "list"}
_LIMITS = (
    ("minimum", "from {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "to {}"),
    ("maxItems", "at most {} entries"),
    ("maxLength", "at most {} characters"),
)


@api_command(app, "list", "crawlfleet type list", "crawlfleet type list --json")
def list_types(call: Call) -> None:
    """List the task types that are known, and how many nodes run each."""
    call.out.print_listing(
        "task_types",
        call.client.task_types(),
        ("TYPE", "VERSION", "NODES", "NEEDS"),
        lambda task_type: (
            task_type.name,
            task_type.version,
            task_type.nodes or 0,
            ", ".join(_required_names(task_type.schema)),
        ),
        prose=("NEEDS",),
    )


@api_command(app, "show", "crawlfleet type show web_crawl", "crawlfleet type show web_crawl --json")
def show_type(
    call: Call, name: Annotated[str, typer.Argument(help="The type: crawlfleet type list names them.")]
) -> None:
    """Show the parameters of a task type: what each must be, and which are needed. --json prints its schema."""
    types = {task_type.name: task_type for task_type in call.client.task_types()}
    if name not in types:
        from crawlfleet.wire.field_messages import unknown_name

        detail = unknown_name(name, types, shown=f"no task type {name!r}")
        raise Complaint(detail, ExitCode.NOT_FOUND, "crawlfleet type list")
    described = types[name]
    if call.out.is_json:
        call.out.print_json(described)
        return
    needed = set(_required_names(described.schema))
    call.out.print_table(
        ("PARAMETER", "NEEDED", "IS"),
        [
            (parameter, "yes" if parameter in needed else "", _describe_schema(part, described.schema))
            for parameter, part in _public_parameters(described.schema)
        ],
        empty="it takes any parameters",
        prose=("IS",),
        drop=("NEEDED",),
    )
    for names in _alternative_names(described.schema):
        call.out.print_note(f"one of {', '.join(names)} is needed")


def _public_parameters(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Those that people give: the system sets the others itself."""
    for name, part in schema.get("properties", {}).items():
        if not (isinstance(part, Mapping) and part.get("x-internal") is True):
            yield name, part


def _required_names(schema: Mapping[str, Any]) -> list[str]:
    return [name for name in schema.get("required", ()) if isinstance(name, str)]


def _alternative_names(schema: Mapping[str, Any]) -> list[list[str]]:
    names = [
        name for option in schema.get("anyOf", ()) if isinstance(option, Mapping) for name in _required_names(option)
    ]
    return [names] if len(names) > 1 else []


def _describe_schema(part: Any, schema: Mapping[str, Any]) -> str:
    """`whole number, from 0, to 1000`, or what the schema says of it."""
    if not isinstance(part, Mapping):
        return ""
    if isinstance(reference := part.get("$ref"), str):
        return _describe_schema(schema.get("$defs", {}).get(reference.rpartition("/")[2]), schema)
    if "enum" in part:
        return f"one of {', '.join(map(str, part['enum']))}"
    parts = [_describe_kind(part, schema)]
    parts += [text.format(f"{part[key]:,}") for key, text in _LIMITS if isinstance(part.get(key), int | float)]
    if isinstance(text := part.get("description"), str):
        parts.append(text)
    return ", ".join(filter(None, parts))


def _describe_kind(part: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    for key in ("anyOf", "oneOf"):
        if isinstance(options := part.get(key), list):
            return " or ".join(dict.fromkeys(filter(None, (_describe_schema(option, schema) for option in options))))
    kinds = part.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    return " or ".join(_WORDS.get(kind, str(kind)) for kind in kinds)
