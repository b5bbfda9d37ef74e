"""Builds the OpenAPI document, with every route, the plain ones too, and every response a route may give.

FastAPI describes its own routes; the plain ones have their operation in the table of their module, and msgspec types
(`structs` of the tables) become schemas by their names.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from crawlfleet.api.http.errors import MEDIA_TYPE, Problem
from crawlfleet.api.http.route_table import SECURITY, RouteTable, operation_id

ABOUT = """Tasks go in, are placed on nodes, and every one ends exactly once.

Send `Authorization: Bearer <token>` or `X-API-Key: <token>` with every request below `/api`. Errors are
`application/problem+json` with a stable `code` and the `field` at fault. Instants are ISO 8601 in UTC.
`Idempotency-Key` makes repeating a POST safe.
"""

_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A token of `crawlfleet token create`."},
    "api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same token, as a key."},
}
_METHODS = ("get", "post", "put", "patch", "delete")
_RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
_ABOUT_ERRORS = {
    400: "The body cannot be read.",
    401: "No valid token.",
    403: "The token's role, or the caller's address, does not allow this.",
    404: "There is no such thing.",
    409: "Not in its present state.",
    413: "More than is taken.",
    415: "The body is of another type.",
    422: "Something in the request is wrong: see `field`.",
    429: "Too much at once.",
    500: "A bug: see `incident`.",
    503: "The store, or the disk of the results, does not take it at the moment: see `detail`.",
}


def route_operation_id(route: APIRoute) -> str:
    return operation_id(str(route.tags[0]), route.name) if route.tags else route.name


def install_document(app: FastAPI, tables: Sequence[RouteTable]) -> None:
    """Install the document on the application; it is built at the first request for it."""

    def load_document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _build_document(app, tables)
        return app.openapi_schema

    app.openapi = load_document  # type: ignore[method-assign]


def _build_document(app: FastAPI, tables: Sequence[RouteTable]) -> dict[str, Any]:
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    paths = document.setdefault("paths", {})
    for table in tables:
        for (method, path), operation in table.operations.items():
            paths.setdefault(path, {})[method.lower()] = operation
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    structs = dict.fromkeys(struct for table in tables for struct in table.structs)
    schemas.update(build_schemas([Problem, *structs]))
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    # By name: the document does not depend on the order in which routes are declared.
    components["schemas"] = dict(sorted(schemas.items()))
    components["securitySchemes"] = _SCHEMES
    components["responses"] = {f"Problem{status}": _describe_error(status) for status in _ABOUT_ERRORS}
    for path, item in paths.items():
        for method in _METHODS:
            if method in item:
                if item[method].get("security"):
                    item[method]["security"] = SECURITY
                _add_errors(path, method, item[method])
    return document


def _describe_error(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    description: dict[str, Any] = {"description": _ABOUT_ERRORS[status], "content": {MEDIA_TYPE: {"schema": schema}}}
    if status in {429, 503}:
        description["headers"] = _RETRY_AFTER
    if status == HTTPStatus.UNAUTHORIZED:
        description["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    return description


def _add_errors(path: str, method: str, operation: dict[str, Any]) -> None:
    responses = operation.setdefault("responses", {})
    # FastAPI's description of validation errors is not how they are reported here.
    if MEDIA_TYPE not in responses.get("422", {}).get("content", {}):
        responses.pop("422", None)
    statuses = {422, 500, 503}
    if operation.get("security"):
        statuses |= {401, 403, 429}
    if "{" in path:
        statuses.add(404)
    if method != "get":
        statuses |= {404, 409}
    if "requestBody" in operation:
        statuses |= {400, 413, 415}
    for status in sorted(statuses):
        responses.setdefault(str(status), {"$ref": f"#/components/responses/Problem{status}"})


def build_schemas(structs: Sequence[type[msgspec.Struct]]) -> dict[str, Any]:
    twins: dict[type, type] = {}
    _, schemas = msgspec.json.schema_components(
        [_twin_struct(struct, twins) for struct in structs], ref_template="#/components/schemas/{name}"
    )
    return schemas


def _twin_struct(struct: type[msgspec.Struct], twins: dict[type, type]) -> type:
    """Return the struct with its raw defaults decoded: msgspec cannot put raw ones into a schema."""
    if struct in twins:
        return twins[struct]
    hints = get_type_hints(struct, include_extras=True)
    fields: list[Any] = []
    for field in msgspec.structs.fields(struct):
        kind = _swap_structs(hints[field.name], twins)
        default: Any = field.default
        if isinstance(default, msgspec.Raw):
            default = msgspec.json.decode(default)
            kind = dict[str, Any] if isinstance(default, dict) else Any
        factory: Any = field.default_factory
        if isinstance(default, dict | list):
            default, factory = msgspec.NODEFAULT, default.copy
        fields.append((field.name, kind, _twin_field(default, factory, field.encode_name)))
    config = struct.__struct_config__
    twins[struct] = msgspec.defstruct(
        struct.__name__,
        fields,
        array_like=config.array_like,
        forbid_unknown_fields=config.forbid_unknown_fields,
        namespace={"__doc__": struct.__doc__},
        kw_only=True,
    )
    return twins[struct]


def _twin_field(default: Any, factory: Any, name: str) -> Any:
    if factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=factory, name=name)
    return msgspec.field(name=name) if default is msgspec.NODEFAULT else msgspec.field(default=default, name=name)


def _swap_structs(kind: Any, twins: dict[type, type]) -> Any:
    """Return a type in which each struct is replaced by its twin."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _twin_struct(kind, twins)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return Annotated[(_swap_structs(inner[0], twins), *inner[1:])]
    if origin in {Union, types.UnionType}:
        return functools.reduce(operator.or_, (_swap_structs(part, twins) for part in inner))
    if origin in {list, dict, tuple, set, frozenset}:
        return origin[tuple(_swap_structs(part, twins) for part in inner)]
    return kind
