"""Responses of msgspec types, and their descriptions in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.responses import Response

_encode = msgspec.json.Encoder().encode
JSON = "application/json"
_JSON_HEADER = (b"content-type", JSON.encode())


class Reply(Response):
    """A response whose body is bytes already, so that its type is not checked."""

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str] | None = None) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [(b"content-length", b"%d" % len(body)), _JSON_HEADER]
        if headers:
            self.raw_headers += [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response of a msgspec type (raw parts are passed through as they are stored)."""
    return Reply(_encode(content), status, headers)


def empty_response() -> Response:
    return Response(status_code=204)


def schema_ref(struct: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{struct.__name__}"}


Content = type[msgspec.Struct] | Mapping[str, type[msgspec.Struct] | Mapping[str, Any]]
"""A body as the OpenAPI document describes it: a struct as JSON, or a struct or a schema for each media type."""


@dataclass(frozen=True, slots=True)
class ResponseSpec:
    """A response as the OpenAPI document describes it."""

    content: Content | None
    """None: a response without a body."""
    description: str = "As asked."
    headers: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of headers by their names."""

    def describe(self) -> dict[str, Any]:
        description: dict[str, Any] = {"description": self.description}
        if self.content is not None:
            description["content"] = content_schemas(self.content)
        if self.headers:
            description["headers"] = {
                name: {"description": text, "schema": {"type": "string"}} for name, text in self.headers.items()
            }
        return description


def content_schemas(content: Content) -> dict[str, Any]:
    """Return the schemas by media type, as the document has them; structs are referred to by name."""
    by_media_type = {JSON: content} if isinstance(content, type) else content
    return {
        media_type: {"schema": schema_ref(schema) if isinstance(schema, type) else schema}
        for media_type, schema in by_media_type.items()
    }


def content_structs(content: Content | None) -> list[type[msgspec.Struct]]:
    if content is None:
        return []
    schemas = [content] if isinstance(content, type) else content.values()
    return [schema for schema in schemas if isinstance(schema, type)]
