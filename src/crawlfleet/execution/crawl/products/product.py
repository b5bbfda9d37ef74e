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
    OfferSummary,
    first_text,
    normalise_availability,
    normalise_currency,
    read_price,
    summarise_offers,
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
class SourceData:
    """The product data of one source."""

    source: str
    ids: dict[str, str] = field(default_factory=dict)
    title: str = ""
    offer: OfferSummary = field(default_factory=OfferSummary)
    attributes: dict[str, Any] = field(default_factory=dict)
    url: str = ""


@dataclass(frozen=True, slots=True)
class ProductPage:
    url: str
    """URL of the page after all redirects."""
    structured: Mapping[str, Any] = field(default_factory=dict)
    canonical: str | None = None
    title: str | None = None
    selected: Sequence[Mapping[str, Any]] = ()
    """Records that the selectors found, one per container."""


def extract_product(page: ProductPage) -> Product | None:
    """Return the product of a page; None for a page that is not about one product."""
    addresses = _page_addresses(page)
    sources: list[SourceData] = []
    for source in ("json_ld", "microdata"):
        entities = [entity for top_entity in page.structured.get(source, ()) for entity in _find_products(top_entity)]
        if entities:
            entity = _choose_product(entities, addresses, page.url)
            if entity is None:
                return None
            sources.append(_read_entity(source, entity, page.url))
    if (graph := _read_open_graph(page.structured.get("open_graph", {}), page.url)) is not None:
        sources.append(graph)
    if (selected := _read_selectors(page.selected, page.url)) is not None:
        sources.append(selected)
    return _merge_sources(page, sources) if sources else None


def shop_name(url: str) -> str:
    """Return the shop of a URL: the host, with its port if that is not the default; `www.` makes no other shop."""
    return budget_host(url).removeprefix("www.")[: model.SHOP_CHARS]


def url_id(page: ProductPage) -> str:
    """Return an id from the path of the page's canonical URL, if that is on the same shop; else of its own URL."""
    named = canonical_url(page.canonical, page.url) if page.canonical else None
    url = named if named is not None and shop_name(named) == shop_name(page.url) else page.url
    path = f"/{url.split('/', 3)[3]}"
    if len(path) <= model.ID_CHARS:
        return path
    # Long paths differ at their ends.
    return f"{path[: model.ID_CHARS - 33]}~{blake2b(path.encode(), digest_size=16).hexdigest()}"


def _merge_sources(page: ProductPage, sources: Sequence[SourceData]) -> Product | None:
    title = next((source.title for source in sources if source.title), "") or tidy_text(page.title or "")
    if not title:
        return None
    ids: dict[str, str] = {}
    attributes: dict[str, Any] = {}
    for source in sources:
        ids = source.ids | ids
        attributes = {name: value for name, value in source.attributes.items() if value} | attributes
    priced = next((source.offer for source in sources if source.offer.price is not None), OfferSummary())
    currency = priced.currency or next((source.offer.currency for source in sources if source.offer.currency), None)
    stock = next((source.offer.availability for source in sources if source.offer.availability), None)
    attributes |= {name: ids[name] for name in ("sku", "gtin") if name in ids}
    if priced.price_max is not None:
        attributes["price_max"] = priced.price_max
    if conflicts := _find_conflicts(sources, priced.price, stock):
        attributes["conflicts"] = conflicts
    attributes["sources"] = [source.source for source in sources]
    product_id = next((ids[kind] for kind in ("sku", "product_id", "gtin", "id") if kind in ids), "") or url_id(page)
    return Product(
        shop_name(page.url),
        product_id[: model.ID_CHARS],
        page.url,
        title[: model.TITLE_CHARS],
        priced.price,
        currency and normalise_currency(currency),
        stock,
        _fit_attributes(attributes),
    )


def _find_conflicts(sources: Iterable[SourceData], price: str | None, stock: str | None) -> dict[str, dict[str, str]]:
    conflicts: dict[str, dict[str, str]] = {}
    for source in sources:
        for name, value, chosen in (
            ("price", source.offer.price, price),
            ("availability", source.offer.availability, stock),
        ):
            if value is not None and value != chosen:
                conflicts.setdefault(name, {})[source.source] = value
    return conflicts


def _fit_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    """Leave out the longest attributes until the rest fits, because the size of a row is limited."""
    sizes = {name: len(repr(value)) + len(name) for name, value in attributes.items()}
    max_size = model.ATTRIBUTES_BYTES // 4
    while sum(sizes.values()) > max_size:
        longest = max(sizes, key=sizes.__getitem__)
        del sizes[longest]
    return {name: attributes[name] for name in sizes}


def _page_addresses(page: ProductPage) -> set[str]:
    named = canonical_url(page.canonical, page.url) if page.canonical else None
    return {_comparable_url(url) for url in (page.url, named) if url}


def _comparable_url(url: str) -> str:
    """Return a form that is equal for the same page over http, https, with www. and with a slash at the end."""
    return f"{shop_name(url)}/{url.split('/', 3)[3] if url.count('/') > 2 else ''}".rstrip("/").lower()


def _find_products(entity: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the thing itself if it is a product, or the products that it names as its subject."""
    if not isinstance(entity, Mapping):
        return
    if _is_product(entity):
        yield entity
        return
    for name in _HOLDERS:
        held = entity.get(name)
        for inner in held if isinstance(held, list) else [held]:
            if isinstance(inner, Mapping) and _is_product(inner):
                # The offer around a product has the price that the product lacks.
                yield inner if name != "itemOffered" or "offers" in inner else {**inner, "offers": entity}


def _is_product(entity: Mapping[str, Any]) -> bool:
    kinds = entity.get("@type")
    return any(
        isinstance(kind, str) and kind.rpartition("/")[2].rpartition(":")[2].lower() in _PRODUCTS
        for kind in (kinds if isinstance(kinds, list) else [kinds])
    )


def _choose_product(entities: Sequence[Mapping[str, Any]], addresses: set[str], base: str) -> Mapping[str, Any] | None:
    if len(entities) == 1:
        return entities[0]
    own = [entity for entity in entities if not addresses.isdisjoint(_own_addresses(entity, base))]
    # The same product may be described twice on its page.
    if own and len({first_text(entity.get("name")) for entity in own}) == 1:
        return own[0]
    return None


def _own_addresses(entity: Mapping[str, Any], base: str) -> Iterator[str]:
    offers = entity.get("offers")
    offer = offers[0] if isinstance(offers, list) and offers else offers
    texts = [entity.get("url"), entity.get("@id"), offer.get("url") if isinstance(offer, Mapping) else None]
    for text in map(first_text, texts):
        if text and (url := canonical_url(text, base)) is not None:
            yield _comparable_url(url)


def _read_entity(source: str, entity: Mapping[str, Any], base: str) -> SourceData:
    ids = {"sku": first_text(entity.get("sku")), "product_id": first_text(entity.get("productID"))}
    ids["gtin"] = next((text for name in _GTINS if (text := first_text(entity.get(name)))), "")
    if not ids["product_id"]:
        ids["product_id"] = first_text(entity.get("productGroupID"))
    attributes: dict[str, Any] = {name: first_text(entity.get(name))[:TEXT_CHARS] for name in _TEXTS}
    attributes |= {
        "brand": first_text(entity.get("brand"))[:TEXT_CHARS],
        "images": _image_urls(entity.get("image"), base),
    }
    attributes |= _read_rating(entity.get("aggregateRating"))
    return SourceData(
        source,
        {name: text for name, text in ids.items() if text},
        first_text(entity.get("name")),
        summarise_offers(entity),
        attributes,
    )


def _image_urls(value: Any, base: str) -> list[str]:
    urls: dict[str, None] = {}
    for image in value if isinstance(value, list) else [value]:
        address = first_text(image.get("contentUrl") or image.get("url") if isinstance(image, Mapping) else image)
        if address and (url := absolute_url(address[: model.URL_CHARS], base)):
            urls.setdefault(url)
    return list(urls)[:IMAGES_MOST]


def _read_rating(value: Any) -> dict[str, Any]:
    rating = value[0] if isinstance(value, list) and value else value
    if not isinstance(rating, Mapping):
        return {}
    count = first_text(rating.get("reviewCount")) or first_text(rating.get("ratingCount"))
    return {"rating": first_text(rating.get("ratingValue"))[:20], "reviews": count[:20]}


def _read_open_graph(graph: Mapping[str, Any], base: str) -> SourceData | None:
    amount = graph.get("product:price:amount") or graph.get("og:price:amount")
    if first_text(graph.get("og:type")).lower() not in _OG_TYPES and amount is None:
        return None
    currency = first_text(graph.get("product:price:currency") or graph.get("og:price:currency"))
    price, sign = read_price(amount)
    stock = normalise_availability(first_text(graph.get("product:availability") or graph.get("og:availability")))
    ids = {"sku": first_text(graph.get("product:retailer_item_id"))}
    ids["gtin"] = next(
        (text for name in ("gtin", "ean", "upc", "isbn") if (text := first_text(graph.get(f"product:{name}")))), ""
    )
    attributes = {
        "description": first_text(graph.get("og:description"))[:TEXT_CHARS],
        "brand": first_text(graph.get("product:brand"))[:TEXT_CHARS],
        "images": _image_urls(graph.get("og:image"), base),
    }
    return SourceData(
        "open_graph",
        {name: text for name, text in ids.items() if text},
        first_text(graph.get("og:title")),
        OfferSummary(price, currency or sign, None, stock),
        attributes,
    )


def _read_selectors(records: Sequence[Mapping[str, Any]], base: str) -> SourceData | None:
    """Return the product data of selectors.

    They count only if they find one product, with a title and something to identify it or buy it by.
    """
    if len(records) != 1:
        return None
    record = records[0]
    title, identity = first_text(record.get("title")), first_text(record.get("id"))
    price_value = record.get("price")
    if isinstance(price_value, Mapping):
        # The value was converted to a price when it was extracted from the page.
        price, sign = read_price(first_text(price_value.get("amount")))
        sign = first_text(price_value.get("currency")) or None
    else:
        price, sign = read_price(price_value)
    if not title or (price is None and not identity):
        return None
    attributes = {name: value for name, value in record.items() if name not in _KNOWN and not name.startswith("_")}
    attributes |= {name: first_text(record.get(name))[:TEXT_CHARS] for name in ("brand", "description")}
    attributes["images"] = _image_urls(record.get("image"), base)
    stock = normalise_availability(first_text(record.get("availability")))
    currency = first_text(record.get("currency")) or sign
    return SourceData(
        "selectors", {"id": identity} if identity else {}, title, OfferSummary(price, currency, None, stock), attributes
    )
