"""The documentation page of the API for people: made from the OpenAPI document, it loads nothing and runs no scripts.

A machine that crawls may not be able to reach a content delivery network, and this page shows which commands a cluster
takes.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

PATH = "/docs"
DOCUMENT_PATH = "/openapi.json"
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
details { border: 1px solid #ddd; border-radius: 4px; margin: .3rem 0; padding: .3rem .6rem; }
summary { cursor: pointer; } h2 { margin-top: 2rem; } code, pre { font: 13px/1.4 ui-monospace, monospace; }
pre { overflow-x: auto; background: #f6f6f6; padding: .6rem; } td, th { text-align: left; vertical-align: top;
padding: .1rem 1rem .1rem 0; } b { display: inline-block; min-width: 4rem; } .get { color: #06c; }
.post { color: #080; } .put, .patch { color: #a60; } .delete { color: #c00; }
"""
_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_DIGEST}'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
_METHODS = ("get", "post", "put", "patch", "delete")
_REF = re.compile(r"#/components/schemas/([\w.-]+)")


def install_docs_page(app: FastAPI) -> None:
    """Add the page and the document that it is made from."""
    pages = _Pages(app)

    async def serve_docs(_: Request) -> Response:
        return HTMLResponse((await pages.get_pages())[0], headers=HEADERS)

    async def serve_document(_: Request) -> Response:
        return Response((await pages.get_pages())[1], media_type="application/json")

    app.add_route(PATH, serve_docs, methods=["GET"], include_in_schema=False)
    app.add_route(DOCUMENT_PATH, serve_document, methods=["GET"], include_in_schema=False)


class _Pages:
    """The page and the document, both made once, in a thread, at the first request for one of them: callers without a
    token may request them as often as they like, and making them takes a tenth of a second."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._made: tuple[bytes, bytes] | None = None
        self._making = asyncio.Lock()

    async def get_pages(self) -> tuple[bytes, bytes]:
        async with self._making:
            if self._made is None:
                self._made = await asyncio.to_thread(self._render_pages)
            return self._made

    def _render_pages(self) -> tuple[bytes, bytes]:
        document = self._app.openapi()
        return "".join(_render_page(document)).encode(), json.dumps(document, separators=(",", ":")).encode()


def _render_page(document: Mapping[str, Any]) -> Iterator[str]:
    info = document["info"]
    title = escape(f"{info['title']} {info['version']}")
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    yield f"<style>{STYLE}</style></head><body><h1>{title}</h1>{_render_paragraphs(info.get('description', ''))}"
    yield '<p>The same for programs: <a href="/openapi.json">openapi.json</a>.</p>'
    by_tag: dict[str, list[str]] = {}
    for path, item in document["paths"].items():
        for method in (one for one in _METHODS if one in item):
            operation = item[method]
            by_tag.setdefault(operation.get("tags", ["other"])[0], []).append(
                _render_operation(path, method, operation, document)
            )
    for tag, operations in by_tag.items():
        yield f"<h2>{escape(tag)}</h2>{''.join(operations)}"
    yield "<h2>schemas</h2>"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f'<details id="schema-{escape(name)}"><summary>{escape(name)}</summary>{_render_schema(schema)}</details>'
    yield "</body></html>"


def _render_operation(path: str, method: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    parts = [
        f'<details id="{escape(operation["operationId"])}"><summary><b class="{method}">{method.upper()}</b> '
        f"<code>{escape(path)}</code> {escape(operation.get('summary', ''))}</summary>"
        f"{_render_paragraphs(operation.get('description', ''))}"
    ]
    rows: list[tuple[str, ...]] = [
        (
            f"<code>{escape(one['name'])}</code>",
            one["in"] + (", required" if one.get("required") else ""),
            _render_inline_schema(one.get("schema", {})),
            _render_inline(one.get("description", "")),
        )
        for one in operation.get("parameters", ())
    ]
    parts += [_render_table("parameters", rows)]
    content = operation.get("requestBody", {}).get("content", {})
    parts += [
        _render_table(
            "body", [(escape(kind), _render_inline_schema(one.get("schema", {}))) for kind, one in content.items()]
        )
    ]
    answers = [
        (status, _resolve_answer(one, document)) for status, one in sorted(operation.get("responses", {}).items())
    ]
    rows = [
        (
            escape(status),
            _render_inline(one.get("description", "")),
            ", ".join(_render_inline_schema(kind.get("schema", {})) for kind in one.get("content", {}).values()),
        )
        for status, one in answers
    ]
    return "".join([*parts, _render_table("answers", rows), "</details>"])


def _resolve_answer(answer: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    ref = answer.get("$ref", "")
    return document["components"]["responses"][ref.rpartition("/")[2]] if ref else answer


def _render_table(title: str, rows: list[tuple[str, ...]]) -> str:
    shown = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<h4>{title}</h4><table>{shown}</table>" if rows else ""


def _render_inline_schema(schema: Mapping[str, Any]) -> str:
    return f"<code>{_link_schemas(json.dumps(schema))}</code>" if schema else ""


def _render_schema(schema: Mapping[str, Any]) -> str:
    return f"<pre>{_link_schemas(json.dumps(schema, indent=2, ensure_ascii=False))}</pre>"


def _link_schemas(text: str) -> str:
    return _REF.sub(r'<a href="#schema-\1">\1</a>', escape(text, quote=False))


def _render_paragraphs(markdown: str) -> str:
    return "".join(f"<p>{_render_inline(part)}</p>" for part in markdown.split("\n\n") if part.strip())


def _render_inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
