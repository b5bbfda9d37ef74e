"""Product extraction converts a page to the product it sells: structured data first, selectors next. It is pure.

Sources, in order of precedence: JSON-LD, microdata, Open Graph, the task's selectors. Each field comes from the first
source that has it; price and currency come together. Where another source names another price or another availability,
the attribute `conflicts` lists it.

The id is the first that exists of: sku, productID, GTIN, the user's selector, the path of the canonical URL.

A page with several products is a list, unless one of them names the page as its own address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from crawlfleet.execution.crawl.frontier.urls import budget_host, canonical_url
from crawlfleet.execution.crawl.parse.extract.dom import tidy_text
from crawlfleet.execution.crawl.parse.extract.values import absolute_url
from crawlfleet.execution.crawl.products.product_offers import (
    Offered,
    availability_of,
    currency_of,
    first_text,
    offered,
    price_in,
)
from crawlfleet.model import product as model
from crawlfleet.model.product import Product

IMAGES_MOST = 10
TEXT_CHARS = 1_000
_PRODUCTS = frozenset(
    {"product", "productgroup", "productmodel", "individualproduct", "someproducts", "vehicle", "car"}
)
_HOLDERS = ("mainEntity", "itemOffered", "mainEntityOfPage")
_GTINS = ("gtin", "gtin13", "gtin14", "gtin12", "gtin8", "isbn")
_TEXTS = ("description", "category", "color", "size", "material", "mpn")
_OG_TYPES = frozenset({"product", "product.item", "og:product", "product.group"})
_KNOWN = frozenset({"id", "title", "price", "currency", "availability", "brand", "image", "description"})


@dataclass(slots=True)
class Said:
    """The product data of one source."""

    source: str
    ids: dict[str, str] = field(default_factory=dict)
    title: str = ""
    offered: Offered = field(default_factory=Offered)
    attributes: dict[str, Any] = field(default_factory=dict)
    url: str = ""


@dataclass(frozen=True, slots=True)
class PageSaid:
    url: str
    """URL of the page after all redirects."""
    structured: Mapping[str, Any] = field(default_factory=dict)
    canonical: str | None = None
    title: str | None = None
    selected: Sequence[Mapping[str, Any]] = ()
    """Records that the selectors found, one per container."""


def product_of(page: PageSaid) -> Product | None:
    """Return the product of a page; None for a page that is not about one product."""
    addresses = _addresses(page)
    said: list[Said] = []
    for source in ("json_ld", "microdata"):
        things = [thing for one in page.structured.get(source, ()) for thing in _products(one)]
        if things:
            thing = _the_one(things, addresses, page.url)
            if thing is None:
                return None
            said.append(_of_thing(source, thing, page.url))
    if (graph := _of_graph(page.structured.get("open_graph", {}), page.url)) is not None:
        said.append(graph)
    if (chosen := _of_selectors(page.selected, page.url)) is not None:
        said.append(chosen)
    return _merged(page, said) if said else None


def shop_of(url: str) -> str:
    """Return the shop of a URL: the host, with its port if that is not the default; `www.` makes no other shop."""
    return budget_host(url).removeprefix("www.")[: model.SHOP_CHARS]


def url_id(page: PageSaid) -> str:
    """Return an id from the path of the page's canonical URL, if that is on the same shop; else of its own URL."""
    named = canonical_url(page.canonical, page.url) if page.canonical else None
    url = named if named is not None and shop_of(named) == shop_of(page.url) else page.url
    path = f"/{url.split('/', 3)[3]}"
    if len(path) <= model.ID_CHARS:
        return path
    # Long paths differ at their ends.
    return f"{path[: model.ID_CHARS - 33]}~{blake2b(path.encode(), digest_size=16).hexdigest()}"


def _merged(page: PageSaid, said: Sequence[Said]) -> Product | None:
    title = next((one.title for one in said if one.title), "") or tidy_text(page.title or "")
    if not title:
        return None
    ids: dict[str, str] = {}
    attributes: dict[str, Any] = {}
    for one in said:
        ids = one.ids | ids
        attributes = {name: value for name, value in one.attributes.items() if value} | attributes
    priced = next((one.offered for one in said if one.offered.price is not None), Offered())
    currency = priced.currency or next((one.offered.currency for one in said if one.offered.currency), None)
    stock = next((one.offered.availability for one in said if one.offered.availability), None)
    attributes |= {name: ids[name] for name in ("sku", "gtin") if name in ids}
    if priced.price_max is not None:
        attributes["price_max"] = priced.price_max
    if conflicts := _conflicts(said, priced.price, stock):
        attributes["conflicts"] = conflicts
    attributes["sources"] = [one.source for one in said]
    product_id = next((ids[kind] for kind in ("sku", "product_id", "gtin", "id") if kind in ids), "") or url_id(page)
    return Product(
        shop_of(page.url),
        product_id[: model.ID_CHARS],
        page.url,
        title[: model.TITLE_CHARS],
        priced.price,
        currency and currency_of(currency),
        stock,
        _fitting(attributes),
    )


def _conflicts(said: Iterable[Said], price: str | None, stock: str | None) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for one in said:
        for name, value, kept in (
            ("price", one.offered.price, price),
            ("availability", one.offered.availability, stock),
        ):
            if value is not None and value != kept:
                found.setdefault(name, {})[one.source] = value
    return found


def _fitting(attributes: dict[str, Any]) -> dict[str, Any]:
    """Leave out the longest attributes until the rest fits, because the size of a row is limited."""
    sizes = {name: len(repr(value)) + len(name) for name, value in attributes.items()}
    room = model.ATTRIBUTES_BYTES // 4
    while sum(sizes.values()) > room:
        longest = max(sizes, key=sizes.__getitem__)
        del sizes[longest]
    return {name: attributes[name] for name in sizes}


def _addresses(page: PageSaid) -> set[str]:
    named = canonical_url(page.canonical, page.url) if page.canonical else None
    return {_plain(url) for url in (page.url, named) if url}


def _plain(url: str) -> str:
    """Return a form that is equal for the same page over http, https, with www. and with a slash at the end."""
    return f"{shop_of(url)}/{url.split('/', 3)[3] if url.count('/') > 2 else ''}".rstrip("/").lower()


def _products(thing: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the thing itself if it is a product, or the products that it names as its subject."""
    if not isinstance(thing, Mapping):
        return
    if _is_product(thing):
        yield thing
        return
    for name in _HOLDERS:
        held = thing.get(name)
        for one in held if isinstance(held, list) else [held]:
            if isinstance(one, Mapping) and _is_product(one):
                # The offer around a product has the price that the product lacks.
                yield one if name != "itemOffered" or "offers" in one else {**one, "offers": thing}


def _is_product(thing: Mapping[str, Any]) -> bool:
    kinds = thing.get("@type")
    return any(
        isinstance(kind, str) and kind.rpartition("/")[2].rpartition(":")[2].lower() in _PRODUCTS
        for kind in (kinds if isinstance(kinds, list) else [kinds])
    )


def _the_one(things: Sequence[Mapping[str, Any]], addresses: set[str], base: str) -> Mapping[str, Any] | None:
    if len(things) == 1:
        return things[0]
    own = [thing for thing in things if not addresses.isdisjoint(_own_addresses(thing, base))]
    # The same product may be described twice on its page.
    if own and len({first_text(thing.get("name")) for thing in own}) == 1:
        return own[0]
    return None


def _own_addresses(thing: Mapping[str, Any], base: str) -> Iterator[str]:
    offers = thing.get("offers")
    offer = offers[0] if isinstance(offers, list) and offers else offers
    told = [thing.get("url"), thing.get("@id"), offer.get("url") if isinstance(offer, Mapping) else None]
    for text in map(first_text, told):
        if text and (url := canonical_url(text, base)) is not None:
            yield _plain(url)


def _of_thing(source: str, thing: Mapping[str, Any], base: str) -> Said:
    ids = {"sku": first_text(thing.get("sku")), "product_id": first_text(thing.get("productID"))}
    ids["gtin"] = next((text for name in _GTINS if (text := first_text(thing.get(name)))), "")
    if not ids["product_id"]:
        ids["product_id"] = first_text(thing.get("productGroupID"))
    attributes: dict[str, Any] = {name: first_text(thing.get(name))[:TEXT_CHARS] for name in _TEXTS}
    attributes |= {"brand": first_text(thing.get("brand"))[:TEXT_CHARS], "images": _images(thing.get("image"), base)}
    attributes |= _rating(thing.get("aggregateRating"))
    return Said(
        source,
        {name: text for name, text in ids.items() if text},
        first_text(thing.get("name")),
        offered(thing),
        attributes,
    )


def _images(said: Any, base: str) -> list[str]:
    found: dict[str, None] = {}
    for one in said if isinstance(said, list) else [said]:
        address = first_text(one.get("contentUrl") or one.get("url") if isinstance(one, Mapping) else one)
        if address and (url := absolute_url(address[: model.URL_CHARS], base)):
            found.setdefault(url)
    return list(found)[:IMAGES_MOST]


def _rating(said: Any) -> dict[str, Any]:
    rating = said[0] if isinstance(said, list) and said else said
    if not isinstance(rating, Mapping):
        return {}
    count = first_text(rating.get("reviewCount")) or first_text(rating.get("ratingCount"))
    return {"rating": first_text(rating.get("ratingValue"))[:20], "reviews": count[:20]}


def _of_graph(graph: Mapping[str, Any], base: str) -> Said | None:
    amount = graph.get("product:price:amount") or graph.get("og:price:amount")
    if first_text(graph.get("og:type")).lower() not in _OG_TYPES and amount is None:
        return None
    currency = first_text(graph.get("product:price:currency") or graph.get("og:price:currency"))
    price, sign = price_in(amount)
    stock = availability_of(first_text(graph.get("product:availability") or graph.get("og:availability")))
    ids = {"sku": first_text(graph.get("product:retailer_item_id"))}
    ids["gtin"] = next(
        (text for name in ("gtin", "ean", "upc", "isbn") if (text := first_text(graph.get(f"product:{name}")))), ""
    )
    attributes = {
        "description": first_text(graph.get("og:description"))[:TEXT_CHARS],
        "brand": first_text(graph.get("product:brand"))[:TEXT_CHARS],
        "images": _images(graph.get("og:image"), base),
    }
    return Said(
        "open_graph",
        {name: text for name, text in ids.items() if text},
        first_text(graph.get("og:title")),
        Offered(price, currency or sign, None, stock),
        attributes,
    )


def _of_selectors(records: Sequence[Mapping[str, Any]], base: str) -> Said | None:
    """Return the product data of selectors.

    They count only if they find one product, with a title and something to identify it or buy it by.
    """
    if len(records) != 1:
        return None
    record = records[0]
    title, identity = first_text(record.get("title")), first_text(record.get("id"))
    said = record.get("price")
    if isinstance(said, Mapping):
        # The value was converted to a price when it was extracted from the page.
        price, sign = price_in(first_text(said.get("amount")))
        sign = first_text(said.get("currency")) or None
    else:
        price, sign = price_in(said)
    if not title or (price is None and not identity):
        return None
    attributes = {name: value for name, value in record.items() if name not in _KNOWN and not name.startswith("_")}
    attributes |= {name: first_text(record.get(name))[:TEXT_CHARS] for name in ("brand", "description")}
    attributes["images"] = _images(record.get("image"), base)
    stock = availability_of(first_text(record.get("availability")))
    currency = first_text(record.get("currency")) or sign
    return Said(
        "selectors", {"id": identity} if identity else {}, title, Offered(price, currency, None, stock), attributes
    )
