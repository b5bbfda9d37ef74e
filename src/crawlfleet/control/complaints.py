"""What a schema's validator objects to, for people: the very place, and words instead of keywords."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from crawlfleet.model import limits

_CHOICES = ("anyOf", "oneOf")
_SHOWN = 3


def complaint(schema: Any, error: jsonschema_rs.ValidationError) -> tuple[str, str]:
    """Where it is (`.urls[1]`, from the top of what was validated), and what is wrong there."""
    nearest = _nearest(error)
    said = " or ".join(dict.fromkeys(_said(schema, one) for one in nearest[:_SHOWN]))
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in nearest[0].instance_path)
    return shortened(path), shortened(said)


def shortened(text: str) -> str:
    """Its beginning and its end: what is refused may be a megabyte, and a batch has thousands of them."""
    most = limits.NAME_CHARS
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


def _nearest(error: jsonschema_rs.ValidationError) -> list[jsonschema_rs.ValidationError]:
    """Of something that may have several shapes: what is wrong with the one that was most likely meant.

    That is the one in which the fault lies deepest; a shape of another type altogether was not.
    """
    if not error.schema_path or error.schema_path[-1] not in _CHOICES:
        return [error]
    here = len(error.instance_path)
    firsts = [_nearest(branch[0])[0] for branch in getattr(error.kind, "context", ()) if branch]
    meant = [one for one in firsts if not (one.schema_path[-1] == "type" and len(one.instance_path) == here)]
    if not meant:
        return firsts or [error]
    deepest = max(len(one.instance_path) for one in meant)
    return [one for one in meant if len(one.instance_path) == deepest]


def _said(schema: Any, error: jsonschema_rs.ValidationError) -> str:
    """A pattern says nothing to people: where the schema describes what is meant, that is said instead."""
    *way, keyword = error.schema_path
    if keyword != "pattern":
        return error.message
    for step in way:
        if isinstance(schema, list) and isinstance(step, int):
            schema = schema[step]
        else:
            schema = schema.get(step, {}) if isinstance(schema, Mapping) else {}
    description = schema.get("description") if isinstance(schema, Mapping) else None
    return f"{shortened(repr(error.instance))} is not {description}" if description else error.message
