"""One file per noun. Each has a `routes = RouteTable(tag, PREFIX)` (see `http/route_table.py`), and its handlers are
declared in it by one decorator each:

    @routes.get("/tasks:stats", StatsView)       a route with FastAPI's parsing
    @routes.plain("POST", "/tasks", ...)         a hot route: plain Starlette, msgspec

A handler that changes something for a person ends with `await audited(...)`.
"""

from __future__ import annotations

PREFIX = "/api/v1"
