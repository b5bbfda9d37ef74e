"""Structured data of a page, read from its DOM: JSON-LD, microdata, Open Graph.

All have one form, that of JSON-LD: `{"@type": "Product", "name": ..., "offers": {...}}`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from crawlfleet.execution.crawl.parse.extract.dom import Nearest, Tree, tidy
from crawlfleet.execution.crawl.parse.extract.json_pages import bare, decoded, storable
from crawlfleet.execution.crawl.parse.extract.values import absolute

THINGS_MOST = 1_000
PROPERTIES_MOST = 2_000
"""Limit on properties: each may contain all the others, and the text of each is read, so the cost is the product."""
SCRIPT_CHARS = 1_000_000
BROKEN = "json_ld_broken"
"""Key for the number of scripts that claim to be JSON-LD and are no JSON; absent where there is none."""
_SCOPED = ("og:", "product:", "article:", "book:", "profile:", "video:", "music:", "fb:", "twitter:", "place:")
_URL_OF = {
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
_VALUE_OF = {"meta": "content", "data": "value", "meter": "value", "time": "datetime"}

Thing = dict[str, Any]


def structured(tree: Tree, base: str) -> dict[str, Any]:
    things, broken = json_ld(tree)
    found: dict[str, Any] = {"json_ld": things, "microdata": microdata(tree, base), "open_graph": open_graph(tree)}
    return found | ({BROKEN: broken} if broken else {})


def json_ld(tree: Tree) -> tuple[list[Thing], int]:
    """Return every top-level thing, those of a graph included, and the number of skipped scripts that are no JSON."""
    things: list[Thing] = []
    broken = 0
    for script in tree.css('script[type^="application/ld+json"]'):
        text = bare(tree.raw_text(script)[:SCRIPT_CHARS])
        said = decoded(text)
        broken += said is None and text.strip() not in ("", "null")
        for one in said if isinstance(said, list) else [said]:
            graph = one.get("@graph") if isinstance(one, Mapping) else None
            things += [inner for inner in (graph if isinstance(graph, list) else [one]) if isinstance(inner, dict)]
    return [storable(inner) for inner in things[:THINGS_MOST]], broken


def microdata(tree: Tree, base: str) -> list[Thing]:
    """Return the items that are no property of another; each property belongs to the nearest item around it."""
    elements = {tree.key(element): element for element in tree.css("[itemscope]")[:THINGS_MOST]}
    if not elements:
        return []
    things: dict[Hashable, Thing] = {key: _typed(tree, element) for key, element in elements.items()}
    nearest = Nearest(tree, elements)
    inside: set[Hashable] = set()
    for element in tree.css("[itemprop]")[:PROPERTIES_MOST]:
        key, owner = tree.key(element), nearest.key(tree.parent(element))
        if owner is None:
            continue
        if key in things:
            inside.add(key)
            value: Any = things[key]
        elif tree.attribute(element, "itemscope") is None:
            value = _value(tree, element, base)
        else:
            continue
        for name in (tree.attribute(element, "itemprop") or "").split():
            _put(things[owner], name, value)
    return [storable(thing) for key, thing in things.items() if key not in inside]


def open_graph(tree: Tree) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for meta in tree.css("meta[content]")[:PROPERTIES_MOST]:
        name = tree.attribute(meta, "property") or tree.attribute(meta, "name") or ""
        if name.startswith(_SCOPED):
            _put(found, name, tidy(tree.attribute(meta, "content") or ""))
    return found


def _typed(tree: Tree, element: Any) -> Thing:
    kind, identity = tree.attribute(element, "itemtype"), tree.attribute(element, "itemid")
    thing: Thing = {}
    if kind and kind.split():
        context, _, name = kind.split()[0].rpartition("/")
        thing |= {"@context": context, "@type": name} if context else {"@type": name}
    return thing | ({"@id": identity} if identity else {})


def _value(tree: Tree, element: Any, base: str) -> str:
    tag = tree.tag(element)
    if tag in _URL_OF and (address := tree.attribute(element, _URL_OF[tag])) is not None:
        return absolute(address, base) or address
    if tag in _VALUE_OF and (said := tree.attribute(element, _VALUE_OF[tag])) is not None:
        return tidy(said)
    # Without any of these attributes, `content` counts: shops put the machine's value there on any element.
    said = tree.attribute(element, "content")
    return tidy(said if said is not None else tree.raw_text(element))


def _put(thing: Thing, name: str, value: Any) -> None:
    if name not in thing:
        thing[name] = value
    elif isinstance(thing[name], list):
        thing[name].append(value)
    else:
        thing[name] = [thing[name], value]
