"""Translates the errors of a JSON schema into words for people: a validator describes its schema, which the people who
read the error have not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

from crawlfleet.model import limits
from crawlfleet.wire.field_messages import bound_message, length_message, must_be, unknown_name

INTERNAL = "x-internal"
"""Key that marks, in a schema, a parameter that people do not give."""
_VALUE_CHARS = 100
_SIGNS = {
    "minimum": ">=",
    "maximum": "<=",
    "exclusiveMinimum": ">",
    "exclusiveMaximum": "<",
    "minLength": ">=",
    "maxLength": "<=",
    "minItems": ">=",
    "maxItems": "<=",
    "minProperties": ">=",
    "maxProperties": "<=",
}


def describe_error(schema: Any, error: ValidationError) -> tuple[str, str]:
    """Return the place, as the end of a path such as `.follow.allow[1]`, and the message."""
    error = _find_meant_error(error)
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return place, _error_message(_schema_part(schema, error.schema_path[:-1]), error)


def shorten_text(text: str) -> str:
    """Shorten a text to its beginning and its end: a refused value may be a megabyte, and a batch has thousands of
    them."""
    max_chars = limits.NAME_CHARS
    return text if len(text) <= max_chars else f"{text[: max_chars // 2]}...{text[-max_chars // 2 :]}"


def _find_meant_error(error: ValidationError) -> ValidationError:
    """Return, where a value fits no alternative, the error of the alternative that was meant: the only one of its type,
    or the only one of which nothing is missing."""
    fitting = _branches_of_type(error)
    whole = [branch for branch in fitting if not any(inner.kind.name == "required" for inner in branch)]
    for branches in (fitting, whole):
        if len(branches) == 1:
            return _find_meant_error(branches[0][0])
    return error


def _branches_of_type(error: ValidationError) -> list[list[ValidationError]]:
    return [branch for branch in _error_branches(error) if not any(_is_other_type(inner, error) for inner in branch)]


def _error_branches(error: ValidationError) -> list[list[ValidationError]]:
    """Return the errors of each alternative; an empty list where there are none, or where a value fits too many."""
    branches: list[list[ValidationError]] = getattr(error.kind, "context", None) or []
    return branches if all(branches) else []


def _is_other_type(inner: ValidationError, error: ValidationError) -> bool:
    kind: Any = inner.kind
    if inner.instance_path != error.instance_path:
        return False
    return kind.name == "type" or (
        kind.name == "enum" and not any(type(option) is type(error.instance) for option in kind.options)
    )


def _error_message(part: Mapping[str, Any], error: ValidationError) -> str:
    kind: Any = error.kind
    match kind.name:
        case "pattern" if "description" in part:
            return f"{_format_value(error.instance)} is not {part['description']}"
        case "propertyNames" if "description" in part:
            return f"{_format_value(kind.error.instance)} is not {part['description']}"
        case "enum":
            return f"{_format_value(error.instance)} is none of {_list_options(kind.options)}"
        case "additionalProperties":
            return _unknown_property_message(kind.unexpected, part.get("properties", {}))
        case "required":
            return f"needs {kind.property}"
        case _:
            return _common_message(error) or _limit_message(part, error)


def _common_message(error: ValidationError) -> str | None:
    """Return the message that holds for all alternatives, where they have the same kind of error."""
    firsts: list[Any] = [branch[0].kind for branch in _branches_of_type(error)]
    if firsts and all(kind.name == "required" for kind in firsts):
        return f"needs {_join_names(kind.property for kind in firsts)}"
    if firsts and all(kind.name == "additionalProperties" for kind in firsts):
        unknown = [set(kind.unexpected) for kind in firsts]
        if nowhere := sorted(set.intersection(*unknown)):
            return f"there is no {_format_value(nowhere[0])}"
        return f"{' and '.join(sorted(set.union(*unknown)))} do not go together"
    others: list[Any] = [
        inner.kind for branch in _error_branches(error) for inner in branch if _is_other_type(inner, error)
    ]
    if firsts or not others:
        return None
    values = [option for kind in others if kind.name == "enum" for option in kind.options]
    if values:
        return f"{_format_value(error.instance)} is none of {_list_options(values)}"
    return f"{must_be(name for kind in others for name in kind.types)}, not {_format_value(error.instance)}"


def _limit_message(part: Mapping[str, Any], error: ValidationError) -> str:
    """Return the message about a limit that a value violates, with the value."""
    kind: Any = error.kind
    given = f", not {_format_value(error.instance)}"
    match kind.name:
        case "type":
            return must_be(kind.types) + given
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            return bound_message(_SIGNS[kind.name], kind.limit) + given
        case "minLength" | "maxLength":
            return length_message("str", _SIGNS[kind.name], kind.limit) + (given if kind.limit > 1 else "")
        case "minItems" | "maxItems" | "minProperties" | "maxProperties":
            return length_message("list", _SIGNS[kind.name], kind.limit)
        case "pattern":
            return f"{_format_value(error.instance)} does not match {part.get('pattern', 'what is asked for')}"
        case _:
            return _shape_message(part, error, given)


def _shape_message(part: Mapping[str, Any], error: ValidationError, given: str) -> str:
    match error.kind.name:
        case "const":
            return f"must be {_format_value(part.get('const'))}{given}"
        case "multipleOf":
            return f"must be a multiple of {part.get('multipleOf')}{given}"
        case "uniqueItems":
            return "must not have an entry twice"
        case "anyOf" | "oneOf":
            return f"{_format_value(error.instance)} fits none of the forms that are taken"
        case "not" | "falseSchema":
            return f"{_format_value(error.instance)} is not taken"
        case _:
            return error.message


def _unknown_property_message(names: list[str], properties: Mapping[str, Any]) -> str:
    known_names = [name for name, schema in properties.items() if not is_internal(schema)]
    return unknown_name(names[0], known_names, shown=f"there is no {_format_value(names[0])}")


def is_internal(part: Any) -> bool:
    """Whether a parameter is set by the system itself: it is not offered to people."""
    return isinstance(part, Mapping) and part.get(INTERNAL) is True


def _schema_part(schema: Any, path: Iterable[str | int]) -> Mapping[str, Any]:
    for step in path:
        try:
            schema = schema[step]
        except (KeyError, IndexError, TypeError):
            # The reference leads to another document: then the validator's own message has to do.
            return {}
    return schema if isinstance(schema, Mapping) else {}


def _join_names(names: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(names))


def _list_options(options: Iterable[Any]) -> str:
    return ", ".join(option if isinstance(option, str) else _format_value(option) for option in options)


def _format_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}..."
