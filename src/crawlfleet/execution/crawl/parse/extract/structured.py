"""Structured data of a page, read from its DOM: JSON-LD, microdata, Open Graph.

All have one form, that of JSON-LD: `{"@type": "Product", "name": ..., "offers": {...}}`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from crawlfleet.execution.crawl.parse.extract.dom import Dom, NearestElements, tidy_text
from crawlfleet.execution.crawl.parse.extract.json_pages import decode_json, make_storable, strip_comment
from crawlfleet.execution.crawl.parse.extract.values import absolute_url

MAX_ITEMS = 1_000
MAX_PROPERTIES = 2_000
"""Limit on properties: each may contain all the others, and the text of each is read, so the cost is the product."""
SCRIPT_CHARS = 1_000_000
BROKEN = "json_ld_broken"
"""Key for the number of scripts that claim to be JSON-LD and are no JSON; absent where there is none."""
_PREFIXES = ("og:", "product:", "article:", "book:", "profile:", "video:", "music:", "fb:", "twitter:", "place:")
_URL_ATTRIBUTES = {
    "a": "href",
    "area": "href",
    "link": "href",
    "img": "src",
    "audio": "src",
    "video": "src",
    "source": "src",
    "embed": "src",
    "iframe": "src",
    "track": "src",
    "object": "data",
}
_VALUE_ATTRIBUTES = {"meta": "content", "data": "value", "meter": "value", "time": "datetime"}

StructuredItem = dict[str, Any]


def structured_data(dom: Dom, base: str) -> dict[str, Any]:
    items, broken = extract_json_ld(dom)
    data: dict[str, Any] = {
        "json_ld": items,
        "microdata": extract_microdata(dom, base),
        "open_graph": extract_open_graph(dom),
    }
    return data | ({BROKEN: broken} if broken else {})


def extract_json_ld(dom: Dom) -> tuple[list[StructuredItem], int]:
    """Return every top-level thing, those of a graph included, and the number of skipped scripts that are no JSON."""
    items: list[StructuredItem] = []
    broken = 0
    for script in dom.select_css('script[type^="application/ld+json"]'):
        text = strip_comment(dom.raw_text(script)[:SCRIPT_CHARS])
        value = decode_json(text)
        broken += value is None and text.strip() not in ("", "null")
        for entry in value if isinstance(value, list) else [value]:
            graph = entry.get("@graph") if isinstance(entry, Mapping) else None
            items += [item for item in (graph if isinstance(graph, list) else [entry]) if isinstance(item, dict)]
    return [make_storable(item) for item in items[:MAX_ITEMS]], broken


def extract_microdata(dom: Dom, base: str) -> list[StructuredItem]:
    """Return the items that are no property of another; each property belongs to the nearest item around it."""
    elements = {dom.element_key(element): element for element in dom.select_css("[itemscope]")[:MAX_ITEMS]}
    if not elements:
        return []
    items: dict[Hashable, StructuredItem] = {key: _new_item(dom, element) for key, element in elements.items()}
    nearest = NearestElements(dom, elements)
    inside: set[Hashable] = set()
    for element in dom.select_css("[itemprop]")[:MAX_PROPERTIES]:
        key, owner = dom.element_key(element), nearest.nearest_key(dom.parent_element(element))
        if owner is None:
            continue
        if key in items:
            inside.add(key)
            value: Any = items[key]
        elif dom.get_attribute(element, "itemscope") is None:
            value = _property_value(dom, element, base)
        else:
            continue
        for name in (dom.get_attribute(element, "itemprop") or "").split():
            _add_value(items[owner], name, value)
    return [make_storable(item) for key, item in items.items() if key not in inside]


def extract_open_graph(dom: Dom) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for meta in dom.select_css("meta[content]")[:MAX_PROPERTIES]:
        name = dom.get_attribute(meta, "property") or dom.get_attribute(meta, "name") or ""
        if name.startswith(_PREFIXES):
            _add_value(properties, name, tidy_text(dom.get_attribute(meta, "content") or ""))
    return properties


def _new_item(dom: Dom, element: Any) -> StructuredItem:
    kind, identity = dom.get_attribute(element, "itemtype"), dom.get_attribute(element, "itemid")
    item: StructuredItem = {}
    if kind and kind.split():
        context, _, name = kind.split()[0].rpartition("/")
        item |= {"@context": context, "@type": name} if context else {"@type": name}
    return item | ({"@id": identity} if identity else {})


def _property_value(dom: Dom, element: Any, base: str) -> str:
    tag = dom.tag_name(element)
    if tag in _URL_ATTRIBUTES and (address := dom.get_attribute(element, _URL_ATTRIBUTES[tag])) is not None:
        return absolute_url(address, base) or address
    if tag in _VALUE_ATTRIBUTES and (value := dom.get_attribute(element, _VALUE_ATTRIBUTES[tag])) is not None:
        return tidy_text(value)
    # Without any of these attributes, `content` counts: shops put the machine's value there on any element.
    value = dom.get_attribute(element, "content")
    return tidy_text(value if value is not None else dom.raw_text(element))


def _add_value(item: StructuredItem, name: str, value: Any) -> None:
    if name not in item:
        item[name] = value
    elif isinstance(item[name], list):
        item[name].append(value)
    else:
        item[name] = [item[name], value]
