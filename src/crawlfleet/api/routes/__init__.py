"""One file per noun. Each exposes some of these, with full paths:

    router      APIRouter(prefix=PREFIX, tags=[...])       routes with FastAPI's parsing
    routes      [Route(f"{PREFIX}/tasks", ...)]            hot routes: plain Starlette, msgspec
    operations  {("POST", f"{PREFIX}/tasks"): {...}}       what OpenAPI says of each of the plain ones (see openapi.py)
    body_limits {f"{PREFIX}/tasks": 1 << 20}               of the plain ones that take another size of body
    structs     (TaskView, ...)                            msgspec types that the documents refer to by name

A handler that changes something for a person ends with `await audited(...)`.
"""

from __future__ import annotations

PREFIX = "/api/v1"
