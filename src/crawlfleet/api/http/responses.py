"""Responses of msgspec types, and their descriptions in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

_encode = msgspec.json.Encoder().encode
_JSON = (b"content-type", b"application/json")


class Reply(Response):
    """A response whose body is bytes already, so that its type is not checked."""

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str] | None = None) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [(b"content-length", b"%d" % len(body)), _JSON]
        if headers:
            self.raw_headers += [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def reply(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response of a msgspec type (raw parts are passed through as they are stored)."""
    return Reply(_encode(content), status, headers)


def nothing() -> Response:
    return Response(status_code=204)


def shows(struct: type[msgspec.Struct], description: str = "As asked.", **headers: str) -> dict[str, Any]:
    """Describe a response, for `responses={200: shows(TaskView)}`; the struct must be among the module's `structs`."""
    said: dict[str, Any] = {"description": description, "content": {"application/json": {"schema": ref(struct)}}}
    if headers:
        said["headers"] = {
            name.replace("_", "-"): {"description": text, "schema": {"type": "string"}}
            for name, text in headers.items()
        }
    return said


def ref(struct: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{struct.__name__}"}
