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

KNOWN_MOST = 40
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


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is nearest to an unknown one."""
    names = list(known)
    folded = {one.lower().replace("-", "_"): one for one in names}
    found = get_close_matches(name.lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def unknown_name(name: str, known: Iterable[str], *, shown: str | None = None) -> str:
    """Return `there is no 'dept'; did you mean depth?`, or a list of the known names where none is near."""
    names = list(known)
    said = f"there is no {name!r}" if shown is None else shown
    if (near := did_you_mean(name, names)) is not None:
        return f"{said}; did you mean {near}?"
    return f"{said}; there are {', '.join(names[:KNOWN_MOST])}" if names else said


def must_be(types: Iterable[str]) -> str:
    words = dict.fromkeys(TYPE_WORDS.get(one.strip().lower(), one.strip()) for one in types)
    return f"must be {' or '.join(words)}"


def bound(sign: str, limit: object) -> str:
    number = f"{limit:g}" if isinstance(limit, float) else str(limit)
    return f"must be {_SIGNS[sign]} {number.removesuffix('.0')}"


def length(kind: str, sign: str, limit: int) -> str:
    """Return the message about a length: the characters of a text, the entries of a list or an object."""
    if sign == ">=" and limit == 1:
        return "must not be empty"
    unit = "character" if kind in ("str", "string") else "entry"
    many = {"character": "characters", "entry": "entries"}[unit]
    return f"must have {_SIGNS[sign]} {limit} {unit if limit == 1 else many}"


def decoder_message(detail: str, kind: Any = None, path: str = "") -> str:
    """Translate an error of msgspec, without the place. `kind` is the type that was decoded, `path` the place in it."""
    if found := _TYPES.match(detail):
        given = "a fraction" if found["given"] == "float" else TYPE_WORDS.get(found["given"], found["given"])
        return f"{must_be(found['wanted'].split('|'))}, not {given}"
    if found := _BOUND.match(detail):
        return bound(found["sign"], found["limit"])
    if found := _LENGTH.match(detail):
        return length(found["type"], found["sign"], int(found["limit"]))
    if found := _UNKNOWN.match(detail):
        return unknown_name(found["name"], () if kind is None else field_names(kind, path))
    if found := _MISSING.match(detail):
        return "is needed"
    if found := _ENUM.match(detail):
        options = [] if kind is None else _options(kind, path)
        return f"{found['value']} is none of {', '.join(options)}" if options else f"{found['value']} is not known here"
    return detail


@lru_cache(maxsize=256)
def field_names(kind: Any, path: str) -> tuple[str, ...]:
    """Return the names of the fields of the structure at a path of a type that msgspec decodes."""
    found = _struct_at(kind, path)
    return () if found is None else tuple(field.encode_name for field in found.fields)


@lru_cache(maxsize=256)
def _options(kind: Any, path: str) -> tuple[str, ...]:
    head, _, last = path.rpartition(".")
    found = _struct_at(kind, head)
    field = None if found is None else next((one for one in found.fields if one.encode_name == last), None)
    return () if field is None else tuple(str(value) for value in _literals(field.type))


def _literals(kind: msgspec.inspect.Type) -> list[object]:
    if isinstance(kind, msgspec.inspect.LiteralType):
        return list(kind.values)
    if isinstance(kind, msgspec.inspect.UnionType):
        return [value for one in kind.types for value in _literals(one)]
    return []


def _struct_at(kind: Any, path: str) -> msgspec.inspect.StructType | None:
    found: msgspec.inspect.Type | None = msgspec.inspect.type_info(kind)
    for step in _STEP.findall(path):
        found = _inner(found, step)
    return _struct(found)


def _inner(kind: msgspec.inspect.Type | None, step: str) -> msgspec.inspect.Type | None:
    if step.startswith("["):
        for one in _members(kind):
            if isinstance(one, msgspec.inspect.ListType):
                return one.item_type
            if isinstance(one, msgspec.inspect.DictType):
                return one.value_type
        return None
    struct = _struct(kind)
    return None if struct is None else next((one.type for one in struct.fields if one.encode_name == step), None)


def _struct(kind: msgspec.inspect.Type | None) -> msgspec.inspect.StructType | None:
    return next((one for one in _members(kind) if isinstance(one, msgspec.inspect.StructType)), None)


def _members(kind: msgspec.inspect.Type | None) -> tuple[msgspec.inspect.Type, ...]:
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


def model_message(error: Mapping[str, Any], known: Iterable[str] = ()) -> str:
    """Translate an error of pydantic. `known` are the fields beside one that is not known."""
    kind, context = str(error["type"]), error.get("ctx") or {}
    if kind in _MODEL_TYPES:
        return must_be([_MODEL_TYPES[kind]])
    if kind in _MODEL_BOUNDS:
        sign, name = _MODEL_BOUNDS[kind]
        return bound(sign, context[name])
    if kind in _MODEL_LENGTHS:
        of, sign, name = _MODEL_LENGTHS[kind]
        return length(of, sign, context[name])
    return unknown_name(str(error["loc"][-1]), known) if kind == "extra_forbidden" else _other_message(error, context)


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
