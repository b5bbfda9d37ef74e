"""Containers with fields: what belongs to which, and what is counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.parse.extract import field_counts
from crawlfleet.execution.crawl.parse.page_parser import NeedsParserProcess
from tests.unit.execution.crawl.parse.extract.extract_kit import URL, facts, things

SHOP = """
<h2>Shop</h2>
<ul>
<li class="card" data-sku="A1"><a href="1.html"><h2>Tea <b>pot</b></h2></a><span class="price">1.234,56 €</span>
  <i class="tag">new</i><i class="tag">blue</i><time datetime="2024-05-03">May</time>
  <ul><li class="size"><b>S</b><u>1</u></li><li class="size"><b>L</b><u>x</u></li></ul></li>
<li class="card"><a><h2>Cup</h2></a><span class="price">on request</span><p>SKU: 77-b</p><em>yes</em>
  <s>05/03/2024</s></li>
</ul>
"""
CSS: dict[str, Any] = {
    "container": "li.card",
    "fields": {
        "name": "h2",
        "sku": {"attribute": "data-sku"},
        "code": {"selector": "p", "regex": r"SKU: (\w+)"},
        "price": {"selector": ".price", "type": "price"},
        "link": {"selector": "a", "attribute": "href", "type": "url"},
        "tags": {"selector": ".tag", "all": True},
        "day": {"selector": "time", "attribute": "datetime", "type": "date"},
        "sale": {"selector": "em", "type": "boolean", "default": False},
        "sizes": {"container": ".size", "fields": {"name": "b", "count": {"selector": "u", "type": "integer"}}},
    },
}
XPATH: dict[str, Any] = {
    "container": "//li[@class='card']",
    "fields": CSS["fields"]
    | {
        "name": "//h2",
        "sku": "@data-sku",
        "tags": {"selector": ".//i[@class='tag']/text()", "all": True},
        "sizes": {
            "container": "//li[@class='size']",
            "fields": {"name": "./b", "count": {"selector": "u", "type": "integer"}},
        },
    },
}


@pytest.mark.parametrize("asked", [CSS, XPATH], ids=["css", "xpath"])
def test_fields_of_every_kind(asked: dict[str, Any]) -> None:
    tea, cup = things(SHOP, asked)
    assert tea == {
        "name": "Tea pot",
        "sku": "A1",
        "code": None,
        "price": {"amount": "1234.56", "currency": "EUR"},
        "link": "http://shop.test/list/1.html",
        "tags": ["new", "blue"],
        "day": "2024-05-03",
        "sale": False,
        "sizes": [{"name": "S", "count": 1}, {"name": "L", "count": None}],
    }
    assert cup == {
        "name": "Cup",
        "sku": None,
        "code": "77",
        "price": None,
        "link": None,
        "tags": [],
        "day": None,
        "sale": True,
        "sizes": [],
    }


def test_what_every_field_found_is_counted() -> None:
    got = field_counts.report_counts(
        facts(SHOP, {"extract": {"cards": CSS | {"fields": CSS["fields"] | {"gone": "blink"}}}}).counts
    )
    assert got["cards"] == {"matches": 2, "records": 2, "filled": 2, "fill_rate": 1.0}
    assert got["cards.price"] == {"matches": 2, "records": 2, "filled": 1, "type_errors": 1, "fill_rate": 0.5}
    assert got["cards.tags"] == {"matches": 2, "records": 2, "filled": 1, "fill_rate": 0.5}
    assert got["cards.sizes.count"] == {"matches": 2, "records": 2, "filled": 1, "type_errors": 1, "fill_rate": 0.5}
    assert got["cards.gone"] == {"matches": 0, "records": 2, "filled": 0, "fill_rate": 0.0}


def test_an_ambiguous_date_stays_and_is_flagged() -> None:
    field = {"selector": "s", "type": "date"}
    asked = {"container": "li.card", "fields": {"day": field}}
    got = facts(SHOP, {"extract": {"things": asked}})
    assert got.data["things"][1] == {"day": "05/03/2024", "_ambiguous": ["day"]}
    assert field_counts.report_counts(got.counts)["things.day"]["ambiguous"] == 1
    assert type(got.data["things"][1]["day"]) is str
    assert things(SHOP, asked | {"fields": {"day": field | {"day_first": True}}})[1] == {"day": "2024-03-05"}


def test_a_record_without_a_required_field_is_dropped_and_counted() -> None:
    asked = {"container": "li.card", "fields": {"sku": {"attribute": "data-sku", "required": True}}}
    got = facts(SHOP, {"extract": {"things": asked}})
    assert got.data["things"] == [{"sku": "A1"}]
    assert field_counts.report_counts(got.counts)["things"]["dropped"] == 1
    inner = {"container": ".size", "required": True, "fields": {"name": "b"}}
    assert len(things(SHOP, {"container": "li.card", "fields": {"sizes": inner}})) == 1


def test_the_page_is_a_record_of_its_own() -> None:
    asked = {
        "fields": {"heading": "h2", "all": {"selector": "h2", "all": True}, "inner": {"selector": "em", "type": "html"}}
    }
    assert things(SHOP, asked) == [{"heading": "Shop", "all": ["Shop", "Tea pot", "Cup"], "inner": "<em>yes</em>"}]
    assert things("", {"fields": {"heading": "h1"}}) == [{"heading": None}]
    assert things(SHOP, {"fields": {"n": {"selector": "count(//h2)", "type": "integer"}}}) == [{"n": 3}]


def test_a_container_in_a_container_keeps_its_own() -> None:
    html = "<div><div><p>inner</p></div><p>outer</p></div>"
    assert [one["it"] for one in things(html, {"container": "div", "fields": {"it": "p"}})] == ["outer", "inner"]


def test_an_empty_value_is_no_value_and_a_list_may_have_a_default() -> None:
    html = "<ul><li><b> </b></li></ul>"
    asked = {
        "container": "li",
        "fields": {"a": "b", "c": {"selector": "b", "default": "none"}, "d": {"selector": "i", "all": True}},
    }
    assert things(html, asked) == [{"a": None, "c": "none", "d": []}]


DATA = {
    "page": 1,
    "items": [
        {
            "name": "Tea",
            "price": 12.5,
            "id": 123456789012345678901,
            "tags": ["a", None, "b"],
            "sizes": [{"n": 1}, {"n": 2}],
        },
        {"name": "Cup", "price": "9,99 €", "bad": "a\x00b", "deep": {"x": {"y": [1]}}},
        None,
    ],
}
JSON_FIELDS: dict[str, Any] = {
    "name": "name",
    "price": {"json": "price", "type": "price"},
    "id": "id",
    "tags": {"json": "tags", "all": True},
    "sizes": {"json": "sizes", "fields": {"n": "n"}},
    "deep": "deep.x",
    "bad": "bad",
}


@pytest.mark.parametrize("where", ["page", "page without a type", "script", "named script", "guarded"])
def test_json(where: str) -> None:
    text = json.dumps(DATA)
    asked = {"json": "items", "fields": JSON_FIELDS}
    if where == "named script":
        asked["script"] = "#state"
    page = {
        "page": text,
        "page without a type": text,
        "guarded": ")]}'\n" + text,
        "script": f'<p>x</p><script type="application/json">{text}</script>',
        "named script": f"<script>var x</script><script id=state><!--{text};--></script>",
    }[where]
    kind = {"page": "application/json", "guarded": "application/vnd.api+json", "page without a type": ""}
    tea, cup = things(page, asked, content_type=kind.get(where, "text/html"))
    assert tea == {
        "name": "Tea",
        "price": {"amount": "12.5", "currency": None},
        "id": "123456789012345678901",
        "tags": ["a", "b"],
        "sizes": [{"n": 1}, {"n": 2}],
        "deep": None,
        "bad": None,
    }
    assert cup["price"] == {"amount": "9.99", "currency": "EUR"}
    assert (cup["deep"], cup["bad"], cup["tags"]) == ({"y": [1]}, "ab", [])


def test_json_that_is_none_or_too_costly() -> None:
    asked = {"json": "@", "fields": {"a": "a"}}
    for text in ("", "{", "<p>", "[" * 100_000, '{"a": NaN}', '{"a": "\\ud800"}', "1" * 5_000):
        got = facts(text, {"extract": {"things": asked}}, content_type="application/json")
        json.dumps(got.data, allow_nan=False).encode()
        str(got.data).encode()
    costly = {"json": "|".join(["[@,@][]"] * 19), "fields": {"a": "a"}}
    with pytest.raises(NeedsParserProcess):
        things('{"a": 1}', costly, content_type="application/json")
    got = facts('{"a": 1}', {"extract": {"things": costly}}, content_type="application/json", is_isolated=True)
    assert got.data == {"things": []}
    assert field_counts.report_counts(got.counts)["things"]["type_errors"] == 1


COLUMNS = st.dictionaries(
    st.sampled_from(["a", "a.b", "a.c"]), st.lists(st.integers(0, 99), min_size=6, max_size=6), max_size=3
)


@given(st.lists(COLUMNS, max_size=6), st.integers(0, 6))
def test_counts_are_the_same_however_the_pages_are_split(pages: list[field_counts.FieldCounts], cut: int) -> None:
    whole: field_counts.FieldCounts = {}
    for page in pages:
        field_counts.add_counts(whole, page)
    parts: list[field_counts.FieldCounts] = [{}, {}]
    for at, page in enumerate(pages):
        field_counts.add_counts(parts[at < cut], page)
    assert field_counts.merge_reports(
        [field_counts.report_counts(part) for part in parts]
    ) == field_counts.report_counts(whole)


@given(
    st.lists(
        st.tuples(st.lists(st.text("abc", min_size=1, max_size=4), max_size=3), st.text("xyz", max_size=3)), max_size=8
    )
)
def test_records_come_back_as_they_were_written(records: list[tuple[list[str], str]]) -> None:
    html = "<main>" + "".join(
        f"<div class=r><b>{name}</b>"
        + "".join(f"<section><i>{tag}</i></section>" for tag in tags)
        + "</div><b>stray</b>"
        for tags, name in records
    )
    expected = [{"name": name or None, "tags": tags} for tags, name in records]
    for container, tag in (("div.r", "i"), ("//div[@class='r']", "//i"), ("div.r", ".//i")):
        asked = {"container": container, "fields": {"name": "b", "tags": {"selector": tag, "all": True}}}
        assert things(html, asked) == expected


def test_the_base_of_the_page_is_that_of_its_addresses() -> None:
    html = '<base href="/other/"><a href="x">x</a>'
    assert things(html, {"fields": {"at": {"selector": "a", "attribute": "href", "type": "url"}}}) == [
        {"at": "http://shop.test/other/x"}
    ]
    assert URL.endswith("/list/")


_TREES = st.recursive(
    st.sampled_from(["a", "b", "c", ""]).map(lambda name: f'<i class="{name}">{name}</i>'),
    lambda inner: st.tuples(st.sampled_from(["a", "b", "card", "b card"]), st.lists(inner, max_size=3)).map(
        lambda one: f'<div class="{one[0]}">{"".join(one[1])}</div>'
    ),
    max_leaves=12,
)


@given(_TREES)
def test_one_container_is_looked_into_and_finds_what_a_look_at_the_page_finds(html: str) -> None:
    def asked(prefix: str) -> dict[str, Any]:
        fields = {name: {"selector": f"{prefix}.{name}", "all": True} for name in "abc"}
        return {"container": ".card", "fields": fields | {"tag": f"{prefix}i[class=b]"}}

    simple, related = (facts(html, {"extract": {"things": asked(prefix)}}) for prefix in ("", "html "))
    assert (simple.data, simple.counts) == (related.data, related.counts)
