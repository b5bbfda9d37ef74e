"""The application as a whole: health, errors of every kind, and a document that leaves nothing out."""

import asyncio
import base64
import hashlib
import html
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from crawlfleet.api.app import ROUTE_TABLES, create_app
from crawlfleet.api.http.errors import STATUS_OF_CODE
from crawlfleet.api.http.settings import ApiSettings
from crawlfleet.bootstrap.services import build_services
from crawlfleet.errors import InvariantBroken, OutcomeUnknown, OverLimit, StoreUnavailable
from crawlfleet.model.refusal import Code
from tests.api.kit import Site, open_site, serving


async def test_health_is_told_without_a_token(site: Site) -> None:
    for path in ("/healthz", "/readyz"):
        answer = await site.get(path, role=None)
        assert (answer.status, answer.json) == (200, {"status": "ok", "reasons": []})


async def test_a_loop_that_does_not_run_is_told(site: Site) -> None:
    (reaper,) = [task for task in asyncio.all_tasks() if task.get_name().endswith(":reaper")]
    reaper.set_name("somebody else")
    answer = await site.get("/healthz", role=None)
    assert (answer.status, answer.json["reasons"]) == (503, ["the loop reaper does not run"])
    assert "Retry-After" in answer.headers
    assert (await site.get("/readyz", role=None)).status == 503


async def test_without_a_leader_it_is_not_ready(site: Site) -> None:
    term = site.master.lead.term
    assert term is not None
    await site.store.resign(term)
    answer = await site.get("/readyz", role=None)
    assert (answer.status, answer.json["reasons"]) == (503, ["no master leads yet"])
    assert (await site.get("/healthz", role=None)).status == 200


async def test_without_its_store_it_is_alive_but_not_ready(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.store, "read_leader", _raising(StoreUnavailable("secret address")))
    answer = await site.get("/readyz", role=None)
    assert (answer.status, answer.json["reasons"]) == (503, ["the store does not answer"])
    assert b"secret address" not in answer.content


async def test_a_store_that_takes_nothing_is_not_ready_though_it_answers(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = StoreUnavailable("secret address", told="the disk of the store is full")
    monkeypatch.setattr(site.store, "record_beat", _raising(full))
    await site.master.leader.wait_for_passes(1)
    answer = await site.get("/readyz", role=None)
    assert (answer.status, answer.json["reasons"]) == (503, ["the disk of the store is full"])
    monkeypatch.undo()
    await site.master.leader.wait_for_passes(1)
    assert (await site.get("/readyz", role=None)).status == 200


def _raising(error: Exception) -> Callable[..., Awaitable[Any]]:
    async def raising(*_: Any, **__: Any) -> Any:
        raise error

    return raising


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (StoreUnavailable("db.internal:5432"), 503, "store_unavailable"),
        (OutcomeUnknown("db.internal:5432"), 503, "outcome_unknown"),
        (OverLimit("too many tasks wait", retry_after_s=7), 429, "over_limit"),
        (InvariantBroken("db.internal:5432"), 500, "internal"),
        (RuntimeError("db.internal:5432"), 500, "internal"),
        (KeyError("db.internal:5432"), 500, "internal"),
    ],
)
async def test_errors_of_ours_are_told_without_their_words(
    site: Site, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: str
) -> None:
    monkeypatch.setattr(site.master.submit, "submit_tasks", _raising(error))
    monkeypatch.setattr(site.store, "task_totals", _raising(error))
    for answer in (
        await site.post("/api/v1/tasks", {"task_type": "echo"}),
        await site.get("/api/v1/tasks:stats"),
    ):
        assert answer.told == (status, code, None)
        assert b"db.internal" not in answer.content
        assert ("Retry-After" in answer.headers) == (status in {429, 503})
        if status == 429:
            assert answer.headers["Retry-After"] == "7"
        if status == 500:
            assert answer.json["incident"] in answer.json["detail"]


async def test_unknown_paths_and_methods_are_problems_too(site: Site) -> None:
    assert (await site.get("/api/v1/nothing")).told == (404, "not_found", None)
    assert (await site.get("/nothing", role=None)).told == (404, "not_found", None)
    assert (await site.get("/api/v1/tasks/")).status == 404
    answer = await site.send("PUT", "/api/v1/tasks", {})
    assert answer.told == (405, "method_not_allowed", None)
    assert answer.headers["Allow"] == "GET, POST"
    assert (await site.send("DELETE", "/api/v1/tasks:batch")).headers["Allow"] == "POST"


async def test_a_body_that_is_no_json_is_told_by_every_route(site: Site) -> None:
    for data in (b"{", b"\xff", b"[" * 100_000, b'{"priority": "\xff"}'):
        answer = await site.post("/api/v1/tasks:prioritize", data=data)
        assert answer.told == (400, "malformed", "body"), data[:10]


async def test_every_code_has_a_status() -> None:
    assert set(STATUS_OF_CODE) == set(Code)


@pytest.fixture
async def document(site: Site) -> AsyncIterator[dict[str, Any]]:
    yield (await site.get("/openapi.json", role=None)).json


def every_route(app: Any) -> set[tuple[str, str]]:
    """Of all modules, whichever way they are served."""
    found: set[tuple[str, str]] = set()
    for table in ROUTE_TABLES:
        served: list[Any] = [*table.plain_routes, *table.router.routes]
        for route in served:
            assert isinstance(route, Route) or hasattr(route, "methods")
            path = route.path.replace(":path}", "}")
            found |= {(method.lower(), path) for method in route.methods - {"HEAD"}}
    return found


async def test_every_route_is_in_the_document(site: Site, document: dict[str, Any]) -> None:
    told = {(method, path) for path, item in document["paths"].items() for method in item}
    assert told == every_route(create_app(build_services(site.master)))
    served = {route.path for route in create_app(build_services(site.master)).routes if isinstance(route, Route)}
    assert {"/openapi.json", "/docs"} <= served


async def test_every_operation_has_an_id_of_its_own_and_its_errors(document: dict[str, Any]) -> None:
    seen: set[str] = set()
    for path, item in document["paths"].items():
        for method, said in item.items():
            assert said["operationId"] not in seen, said["operationId"]
            seen.add(said["operationId"])
            assert {"422", "500", "503"} <= set(said["responses"]), (method, path)
            if path.startswith("/api/"):
                assert said["security"] == [{"bearer": []}, {"api_key": []}], (method, path)
                assert {"401", "403", "429"} <= set(said["responses"]), (method, path)
            # 101: a WebSocket.
            assert any(status.startswith("2") or status == "101" for status in said["responses"]), (method, path)
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert document["components"]["securitySchemes"]["api_key"]["name"] == "X-API-Key"


async def test_every_reference_of_the_document_leads_somewhere(document: dict[str, Any]) -> None:
    for text in set(_references(document)):
        place: Any = document
        for step in text.removeprefix("#/").split("/"):
            place = place[step]


def _references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [text for inner in part.values() for text in _references(inner)]
    return [text for inner in part for text in _references(inner)] if isinstance(part, list) else []


async def test_the_hot_routes_are_described_by_what_they_take(document: dict[str, Any]) -> None:
    body = document["paths"]["/api/v1/tasks"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    schema = document["components"]["schemas"][body["$ref"].rsplit("/", 1)[1]]
    assert schema["required"] == ["task_type"]
    assert schema["properties"]["priority"]["maximum"] == 10
    assert schema["additionalProperties"] is False
    assert json.dumps(document)


async def test_the_docs_need_no_token_and_can_be_turned_off(site: Site, tmp_path: Path) -> None:
    page = await site.get("/docs", role=None)
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    async with serving(create_app(build_services(site.master), ApiSettings(has_docs=False))) as url:
        closed = Site(site.master, url, site.tokens, site._session)
        assert (await closed.get("/docs", role=None)).status == 404
        assert (await closed.get("/openapi.json", role=None)).status == 404


async def test_two_sites_know_nothing_of_each_other(tmp_path: Path, site: Site) -> None:
    (tmp_path / "other").mkdir()
    async with open_site(tmp_path / "other") as other:
        assert (await other.get("/api/v1/tasks", token=site.tokens["admin"])).status == 401


async def test_the_documentation_page_needs_nothing_from_elsewhere(site: Site) -> None:
    page = await site.get("/docs", role=None)
    text = page.content.decode()
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert not re.findall(r"<script|<link|<img|@import|url\(|src=", text)
    assert all(href.startswith("#") or href == "/openapi.json" for href in re.findall(r'href="([^"]+)"', text))
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in page.headers["Content-Security-Policy"]
    document = (await site.get("/openapi.json", role=None)).json
    for path, item in document["paths"].items():
        for method, said in item.items():
            assert f'<b class="{method}">{method.upper()}</b> <code>{html.escape(path)}</code>' in text
            assert f'id="{said["operationId"]}"' in text
            for parameter in said.get("parameters", ()):
                assert f"<code>{html.escape(parameter['name'])}</code>" in text
    for name in document["components"]["schemas"]:
        assert f'id="schema-{name}"' in text
    for named in re.findall(r'href="#([^"]+)"', text):
        assert f'id="{named}"' in text, named
    assert (await site.send("POST", "/docs", role=None)).status == 405


@pytest.mark.parametrize("has_docs", [True, False])
async def test_the_root_says_where_the_rest_is(site: Site, has_docs: bool) -> None:
    async with serving(create_app(build_services(site.master), ApiSettings(has_docs=has_docs))) as url:
        root = Site(site.master, url, site.tokens, site._session)
        told = (await root.get("/", role=None)).json
        assert (told["name"], told["health"], told.get("docs")) == (
            "crawlfleet",
            "/healthz",
            "/docs" if has_docs else None,
        )
        assert told["cli"] == f"crawlfleet status --url {url} --token TOKEN"
        page = await root.get("/", role=None, headers={"Accept": "text/html,*/*"})
        assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert ('href="/docs"' in page.content.decode()) is has_docs
        for href in re.findall(r'href="([^"]+)"', page.content.decode()):
            assert (await root.get(href, role=None)).status == 200, href
