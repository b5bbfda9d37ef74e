"""The front page at the root path: it links a person who opened a master's address to the rest."""

from __future__ import annotations

from html import escape

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from crawlfleet.api.http import docs_page
from crawlfleet.version import __version__

PATH = "/"
_COMMAND = "crawlfleet status --url {url} --token TOKEN"


def install_front_page(app: FastAPI, *, has_docs: bool) -> None:
    links = {"health": "/healthz", "ready": "/readyz"}
    if has_docs:
        links |= {"docs": docs_page.PATH, "openapi": "/openapi.json"}

    async def serve_front_page(request: Request) -> Response:
        command = _COMMAND.format(url=str(request.base_url).rstrip("/"))
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(_render_page(links, command), headers=docs_page.HEADERS)
        return JSONResponse({"name": "crawlfleet", "version": __version__, **links, "api": "/api/v1", "cli": command})

    app.add_route(PATH, serve_front_page, methods=["GET"], include_in_schema=False)


def _render_page(links: dict[str, str], command: str) -> str:
    rows = "".join(f'<li><a href="{path}">{escape(name)}</a></li>' for name, path in links.items())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>crawlfleet</title>'
        f"<style>{docs_page.STYLE}</style></head><body><h1>crawlfleet {escape(__version__)}</h1>"
        f"<p>This is a master of a crawlfleet installation.</p><ul>{rows}</ul>"
        f"<p>At the command line: <code>{escape(command)}</code></p></body></html>"
    )
