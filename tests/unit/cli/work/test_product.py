"""`product` at the command line, against a server that behaves as told: tables for people, what is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.unit.cli.work.test_export import said
from tests.unit.client.test_client import Script

AT, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
ID = "product-0000000000000001"


def product(**more: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "project_id": "spring",
        "shop": "shop.example",
        "product_id": "A-7",
        "url": "http://shop.example/7",
        "title": "Teapot",
        "price": "12.50",
        "currency": "EUR",
        "availability": "in_stock",
        "attributes": {"brand": "Acme", "images": ["http://shop.example/7.jpg"]},
        "first_seen_at": AT,
        "changed_at": AT,
        "seen_at": LATER,
        "gone_at": None,
        **more,
    }


def page(*products: dict[str, Any]) -> Script:
    return Script(lambda: web.json_response({"products": products, "next_cursor": None}))


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


async def test_a_list_is_a_table() -> None:
    known = page(product(), product(product_id="B", title="Old", price=None, availability=None, gone_at=LATER))
    told = rows((await said(known, "product", "list")).stdout)
    assert told == [
        ["ID", "SHOP", "THEIR", "ID", "TITLE", "PRICE", "AVAILABILITY", "CHANGED", "GONE"],
        [ID, "shop.example", "A-7", "Teapot", "12.50", "EUR", "in_stock", "2026-01-01T00:00:00Z"],
        [ID, "shop.example", "B", "Old", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"],
    ]
    nothing = await said(page(), "product", "list")
    assert (nothing.stdout, nothing.stderr) == ("", "no products.\n")


async def test_a_product_is_shown_with_what_it_is_made_of_and_what_has_changed() -> None:
    changes = [
        {"at": LATER, "kind": "changed", "fields": {"price": ["9.90", "12.50"]}, "execution_id": "exec-1"},
        {"at": AT, "kind": "new", "fields": {}, "execution_id": "exec-0"},
    ]
    detail = {"product": product(), "changes": changes}
    told = (await said(Script(lambda: web.json_response(detail)), "product", "show", ID)).stdout
    for line in (["price", "12.50"], ["brand", "Acme"], ["images", '["http://shop.example/7.jpg"]']):
        assert line in rows(told)
    assert "attributes" not in told
    assert rows(told)[-2:] == [
        ["2026-01-02T00:00:00Z", "changed", "price:", "9.90", "->", "12.50"],
        ["2026-01-01T00:00:00Z", "new"],
    ]


@pytest.mark.parametrize("command", ["list", "export"])
async def test_list_and_export_choose_alike(command: str, tmp_path: Path) -> None:
    script = page() if command == "list" else Script(web.Response(body=b""))
    chosen = ["--project", "spring", "--shop", "shop.example", "--id", "A-7", "--changed-since", AT, "--not-gone"]
    await said(script, "product", command, *chosen, *(["-o", str(tmp_path / "x")] if command == "export" else []))
    (asked,) = script.requests
    for part in ("project_id=spring", "shop=shop.example", "product_id=A-7", "changed_since=2026-01", "gone=false"):
        assert part in asked
    both = await said(script, "product", command, "--gone", "--not-gone", code=2)
    assert "no product is both" in both.stderr


@pytest.mark.parametrize(
    ("name", "options", "format"),
    [("p.csv", [], "csv"), ("p", [], "jsonl"), ("p.csv", ["--format", "jsonl"], "jsonl")],
)
async def test_an_export_is_told_by_its_name(tmp_path: Path, name: str, options: list[str], format: str) -> None:
    script, file = Script(web.Response(body=b"data")), tmp_path / name
    told = await said(script, "product", "export", "-o", str(file), "--json", *options)
    assert f"format={format}" in script.requests[0]
    assert json.loads(told.stdout) == {"file": str(file), "bytes": 4}
    assert file.read_bytes() == b"data"


@pytest.mark.parametrize("name", ["p.parquet", "p.warc.gz", "p.csv.gz"])
async def test_a_name_that_says_what_products_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    script = Script(web.Response(body=b"data"))
    assert "--output: " in (await said(script, "product", "export", "-o", str(tmp_path / name), code=2)).stderr
    assert script.requests == []
