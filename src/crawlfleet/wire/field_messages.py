"""Validation messages about fields, in words for people: what a value must be, and which name was probably meant.

The validators (msgspec, pydantic, JSON Schema) use the names of their own types. Their errors are translated here into
one set of sentences, so that the API, the command line and the settings describe the same fault in the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import msgspec

MAX_LISTED_NAMES = 40
"""Maximum number of names that a message lists."""

TYPE_WORDS = {
    "int": "a whole number",
    "integer": "a whole number",
    "float": "a number",
    "number": "a number",
    "str": "a text",
    "string": "a text",
    "bool": "true or false",
    "boolean": "true or false",
    "array": "a list",
    "list": "a list",
    "object": "an object",
    "dict": "an object",
    "null": "null",
    "none": "null",
    "bytes": "a text",
}

_TYPES = re.compile(r"^Expected `(?P<wanted>[^`]+)`, got `(?P<given>[^`]+)`$")
_BOUND = re.compile(r"^Expected `(?P<type>[^`]+)` (?P<sign>>=|<=|>|<) (?P<limit>\S+)$")
_LENGTH = re.compile(r"^Expected `(?P<type>[^`]+)` of length (?P<sign>>=|<=) (?P<limit>\d+)$")
_ENUM = re.compile(r"^Invalid enum value (?P<value>.+)$")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<name>.*)`$", re.DOTALL)
_SIGNS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_STEP = re.compile(r"\[[^\]]*\]|[^.\[\]]+")


def did_you_mean(name: str, known_names: Iterable[str]) -> str | None:
    """Return the known name that is nearest to an unknown one."""
    names = list(known_names)
    folded = {candidate.lower().replace("-", "_"): candidate for candidate in names}
    matches = get_close_matches(name.lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None


def unknown_name(name: str, known_names: Iterable[str], *, shown: str | None = None) -> str:
    """Return `there is no 'dept'; did you mean depth?`, or a list of the known names where none is near."""
    names = list(known_names)
    sentence = f"there is no {name!r}" if shown is None else shown
    if (nearest := did_you_mean(name, names)) is not None:
        return f"{sentence}; did you mean {nearest}?"
    return f"{sentence}; there are {', '.join(names[:MAX_LISTED_NAMES])}" if names else sentence


def must_be(types: Iterable[str]) -> str:
    words = dict.fromkeys(TYPE_WORDS.get(name.strip().lower(), name.strip()) for name in types)
    return f"must be {' or '.join(words)}"


def bound_message(sign: str, limit: object) -> str:
    number = f"{limit:g}" if isinstance(limit, float) else str(limit)
    return f"must be {_SIGNS[sign]} {number.removesuffix('.0')}"


def length_message(kind: str, sign: str, limit: int) -> str:
    """Return the message about a length: the characters of a text, the entries of a list or an object."""
    if sign == ">=" and limit == 1:
        return "must not be empty"
    unit = "character" if kind in ("str", "string") else "entry"
    many = {"character": "characters", "entry": "entries"}[unit]
    return f"must have {_SIGNS[sign]} {limit} {unit if limit == 1 else many}"


def decoder_message(detail: str, kind: Any = None, path: str = "") -> str:
    """Translate an error of msgspec, without the place. `kind` is the type that was decoded, `path` the place in it."""
    if match := _TYPES.match(detail):
        given = "a fraction" if match["given"] == "float" else TYPE_WORDS.get(match["given"], match["given"])
        return f"{must_be(match['wanted'].split('|'))}, not {given}"
    if match := _BOUND.match(detail):
        return bound_message(match["sign"], match["limit"])
    if match := _LENGTH.match(detail):
        return length_message(match["type"], match["sign"], int(match["limit"]))
    if match := _UNKNOWN.match(detail):
        return unknown_name(match["name"], () if kind is None else field_names(kind, path))
    if match := _MISSING.match(detail):
        return "is needed"
    if match := _ENUM.match(detail):
        options = [] if kind is None else _field_options(kind, path)
        return f"{match['value']} is none of {', '.join(options)}" if options else f"{match['value']} is not known here"
    return detail


@lru_cache(maxsize=256)
def field_names(kind: Any, path: str) -> tuple[str, ...]:
    """Return the names of the fields of the structure at a path of a type that msgspec decodes."""
    struct = _struct_at(kind, path)
    return () if struct is None else tuple(field.encode_name for field in struct.fields)


@lru_cache(maxsize=256)
def _field_options(kind: Any, path: str) -> tuple[str, ...]:
    head, _, last = path.rpartition(".")
    struct = _struct_at(kind, head)
    fields = () if struct is None else struct.fields
    field = next((field for field in fields if field.encode_name == last), None)
    return () if field is None else tuple(str(value) for value in _literal_values(field.type))


def _literal_values(kind: msgspec.inspect.Type) -> list[object]:
    if isinstance(kind, msgspec.inspect.LiteralType):
        return list(kind.values)
    if isinstance(kind, msgspec.inspect.UnionType):
        return [value for member in kind.types for value in _literal_values(member)]
    return []


def _struct_at(kind: Any, path: str) -> msgspec.inspect.StructType | None:
    inner: msgspec.inspect.Type | None = msgspec.inspect.type_info(kind)
    for step in _STEP.findall(path):
        inner = _inner_type(inner, step)
    return _first_struct(inner)


def _inner_type(kind: msgspec.inspect.Type | None, step: str) -> msgspec.inspect.Type | None:
    if step.startswith("["):
        for member in _union_members(kind):
            if isinstance(member, msgspec.inspect.ListType):
                return member.item_type
            if isinstance(member, msgspec.inspect.DictType):
                return member.value_type
        return None
    struct = _first_struct(kind)
    fields = () if struct is None else struct.fields
    return next((field.type for field in fields if field.encode_name == step), None)


def _first_struct(kind: msgspec.inspect.Type | None) -> msgspec.inspect.StructType | None:
    return next((member for member in _union_members(kind) if isinstance(member, msgspec.inspect.StructType)), None)


def _union_members(kind: msgspec.inspect.Type | None) -> tuple[msgspec.inspect.Type, ...]:
    if kind is None:
        return ()
    return kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)


_MODEL_TYPES = {
    "int_parsing": "int",
    "int_type": "int",
    "int_from_float": "int",
    "int_parsing_size": "int",
    "float_parsing": "float",
    "float_type": "float",
    "string_type": "str",
    "string_sub_type": "str",
    "bool_parsing": "bool",
    "bool_type": "bool",
    "list_type": "list",
    "tuple_type": "list",
    "set_type": "list",
    "dict_type": "dict",
    "model_type": "dict",
    "model_attributes_type": "dict",
    "mapping_type": "dict",
    "dataclass_type": "dict",
    "none_required": "null",
}
_MODEL_BOUNDS = {
    "greater_than_equal": (">=", "ge"),
    "less_than_equal": ("<=", "le"),
    "greater_than": (">", "gt"),
    "less_than": ("<", "lt"),
}
_MODEL_LENGTHS = {
    "string_too_short": ("str", ">=", "min_length"),
    "string_too_long": ("str", "<=", "max_length"),
    "too_short": ("list", ">=", "min_length"),
    "too_long": ("list", "<=", "max_length"),
}


def model_message(error: Mapping[str, Any], known_names: Iterable[str] = ()) -> str:
    """Translate an error of pydantic. `known_names` are the fields beside one that is not known."""
    kind, context = str(error["type"]), error.get("ctx") or {}
    if kind in _MODEL_TYPES:
        return must_be([_MODEL_TYPES[kind]])
    if kind in _MODEL_BOUNDS:
        sign, name = _MODEL_BOUNDS[kind]
        return bound_message(sign, context[name])
    if kind in _MODEL_LENGTHS:
        length_type, sign, name = _MODEL_LENGTHS[kind]
        return length_message(length_type, sign, context[name])
    if kind == "extra_forbidden":
        return unknown_name(str(error["loc"][-1]), known_names)
    return _other_message(error, context)


def _other_message(error: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    match error["type"]:
        case "missing":
            return "is needed"
        case "value_error":
            return str(context["error"])
        case "literal_error" | "enum":
            return f"must be {context['expected']}"
        case "finite_number":
            return "must be a finite number"
        case "string_pattern_mismatch":
            return f"must match {context['pattern']}"
        case _:
            text = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
            text = re.sub(r"^Input should be ", "must be ", text)
            return f"{text[:1].lower()}{text[1:]}"
