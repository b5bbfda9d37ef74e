"""Translates the errors of a JSON schema into words for people: a validator describes its schema, which the people who
read the error have not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

from crawlfleet.model import limits
from crawlfleet.wire.field_messages import bound, length, must_be, unknown_name

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


def complaint(schema: Any, error: ValidationError) -> tuple[str, str]:
    """Return the place, as the end of a path such as `.follow.allow[1]`, and the message."""
    error = _meant(error)
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return where, _detail(_part(schema, error.schema_path[:-1]), error)


def shortened(text: str) -> str:
    """Shorten a text to its beginning and its end: a refused value may be a megabyte, and a batch has thousands of
    them."""
    most = limits.NAME_CHARS
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


def _meant(error: ValidationError) -> ValidationError:
    """Return, where a value fits no alternative, the error of the alternative that was meant: the only one of its type,
    or the only one of which nothing is missing."""
    fitting = _of_its_type(error)
    whole = [branch for branch in fitting if not any(one.kind.name == "required" for one in branch)]
    for some in (fitting, whole):
        if len(some) == 1:
            return _meant(some[0][0])
    return error


def _of_its_type(error: ValidationError) -> list[list[ValidationError]]:
    return [branch for branch in _branches(error) if not any(_is_other_type(one, error) for one in branch)]


def _branches(error: ValidationError) -> list[list[ValidationError]]:
    """Return the errors of each alternative; an empty list where there are none, or where a value fits too many."""
    branches: list[list[ValidationError]] = getattr(error.kind, "context", None) or []
    return branches if all(branches) else []


def _is_other_type(one: ValidationError, error: ValidationError) -> bool:
    kind: Any = one.kind
    if one.instance_path != error.instance_path:
        return False
    return kind.name == "type" or (
        kind.name == "enum" and not any(type(option) is type(error.instance) for option in kind.options)
    )


def _detail(part: Mapping[str, Any], error: ValidationError) -> str:
    kind: Any = error.kind
    match kind.name:
        case "pattern" if "description" in part:
            return f"{_shown(error.instance)} is not {part['description']}"
        case "propertyNames" if "description" in part:
            return f"{_shown(kind.error.instance)} is not {part['description']}"
        case "enum":
            return f"{_shown(error.instance)} is none of {_listed(kind.options)}"
        case "additionalProperties":
            return _strange(kind.unexpected, part.get("properties", {}))
        case "required":
            return f"needs {kind.property}"
        case _:
            return _of_all(error) or _of_limit(part, error)


def _of_all(error: ValidationError) -> str | None:
    """Return the message that holds for all alternatives, where they have the same kind of error."""
    firsts: list[Any] = [branch[0].kind for branch in _of_its_type(error)]
    if firsts and all(kind.name == "required" for kind in firsts):
        return f"needs {_either(kind.property for kind in firsts)}"
    if firsts and all(kind.name == "additionalProperties" for kind in firsts):
        strange = [set(kind.unexpected) for kind in firsts]
        if nowhere := sorted(set.intersection(*strange)):
            return f"there is no {_shown(nowhere[0])}"
        return f"{' and '.join(sorted(set.union(*strange)))} do not go together"
    others: list[Any] = [one.kind for branch in _branches(error) for one in branch if _is_other_type(one, error)]
    if firsts or not others:
        return None
    values = [option for kind in others if kind.name == "enum" for option in kind.options]
    if values:
        return f"{_shown(error.instance)} is none of {_listed(values)}"
    return f"{must_be(name for kind in others for name in kind.types)}, not {_shown(error.instance)}"


def _of_limit(part: Mapping[str, Any], error: ValidationError) -> str:
    """Return the message about a limit that a value violates, with the value."""
    kind: Any = error.kind
    given = f", not {_shown(error.instance)}"
    match kind.name:
        case "type":
            return must_be(kind.types) + given
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            return bound(_SIGNS[kind.name], kind.limit) + given
        case "minLength" | "maxLength":
            return length("str", _SIGNS[kind.name], kind.limit) + (given if kind.limit > 1 else "")
        case "minItems" | "maxItems" | "minProperties" | "maxProperties":
            return length("list", _SIGNS[kind.name], kind.limit)
        case "pattern":
            return f"{_shown(error.instance)} does not match {part.get('pattern', 'what is asked for')}"
        case _:
            return _of_shape(part, error, given)


def _of_shape(part: Mapping[str, Any], error: ValidationError, given: str) -> str:
    match error.kind.name:
        case "const":
            return f"must be {_shown(part.get('const'))}{given}"
        case "multipleOf":
            return f"must be a multiple of {part.get('multipleOf')}{given}"
        case "uniqueItems":
            return "must not have an entry twice"
        case "anyOf" | "oneOf":
            return f"{_shown(error.instance)} fits none of the forms that are taken"
        case "not" | "falseSchema":
            return f"{_shown(error.instance)} is not taken"
        case _:
            return error.message


def _strange(names: list[str], properties: Mapping[str, Any]) -> str:
    known = [name for name, one in properties.items() if not is_internal(one)]
    return unknown_name(names[0], known, shown=f"there is no {_shown(names[0])}")


def is_internal(part: Any) -> bool:
    """Whether a parameter is set by the system itself: it is not offered to people."""
    return isinstance(part, Mapping) and part.get(INTERNAL) is True


def _part(schema: Any, way: Iterable[str | int]) -> Mapping[str, Any]:
    for step in way:
        try:
            schema = schema[step]
        except (KeyError, IndexError, TypeError):
            # The reference leads to another document: then the validator's own message has to do.
            return {}
    return schema if isinstance(schema, Mapping) else {}


def _either(names: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(names))


def _listed(options: Iterable[Any]) -> str:
    return ", ".join(option if isinstance(option, str) else _shown(option) for option in options)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}..."
