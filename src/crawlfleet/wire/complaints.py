"""What is wrong with parameters, in words for people: a validator speaks of its schema, and people have not read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_VALUE_CHARS = 100
_KNOWN = 40


def complaint(schema: Any, error: ValidationError) -> tuple[str, str]:
    """Where, as the end of a path such as `.follow.allow[1]`, and what."""
    error = _meant(error)
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return where, _detail(_part(schema, error.schema_path[:-1]), error)


def _meant(error: ValidationError) -> ValidationError:
    """Where a value fits no alternative, what is wrong with the only one of its type: that one was meant."""
    fitting = [branch for branch in _branches(error) if _other_type(branch, error) is None]
    return _meant(fitting[0][0]) if len(fitting) == 1 else error


def _branches(error: ValidationError) -> list[list[ValidationError]]:
    """What is wrong with each alternative; nothing where there are none, or a value fits too many."""
    branches: list[list[ValidationError]] = getattr(error.kind, "context", None) or []
    return branches if all(branches) else []


def _other_type(branch: Iterable[ValidationError], error: ValidationError) -> ValidationError | None:
    of_type = (one for one in branch if one.kind.name == "type" and one.instance_path == error.instance_path)
    return next(of_type, None)


def _detail(part: Mapping[str, Any], error: ValidationError) -> str:
    kind: Any = error.kind
    match kind.name:
        case "pattern" if "description" in part:
            return f"{_shown(error.instance)} is not {part['description']}"
        case "enum":
            return f"{_shown(error.instance)} is none of {_listed(kind.options)}"
        case "additionalProperties":
            return _strange(kind.unexpected, list(part.get("properties", ())))
        case "required":
            return f"needs {kind.property}"
        case _:
            return _of_all(error) or error.message


def _of_all(error: ValidationError) -> str | None:
    """Where all alternatives have the same to say."""
    firsts: list[Any] = [branch[0].kind for branch in _branches(error)]
    types: list[Any] = [_other_type(branch, error) for branch in _branches(error)]
    if firsts and all(kind.name == "required" for kind in firsts):
        return f"needs {_either(kind.property for kind in firsts)}"
    if types and None not in types:
        return f"{_shown(error.instance)} is not of type {_either(name for one in types for name in one.kind.types)}"
    return None


def _strange(names: list[str], known: list[str]) -> str:
    told = f"; there are {', '.join(known[:_KNOWN])}" if known else ""
    return f"there is no {_shown(names[0])}{told}"


def _part(schema: Any, way: Iterable[str | int]) -> Mapping[str, Any]:
    for step in way:
        try:
            schema = schema[step]
        except (KeyError, IndexError, TypeError):
            # A reference leads elsewhere: then the validator's own words have to do.
            return {}
    return schema if isinstance(schema, Mapping) else {}


def _either(names: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(names))


def _listed(options: Iterable[Any]) -> str:
    return ", ".join(option if isinstance(option, str) else _shown(option) for option in options)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}..."
