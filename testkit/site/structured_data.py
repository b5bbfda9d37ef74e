"""Structured data of a product's page (JSON-LD, microdata, Open Graph): right, broken or stale."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from typing import Any

from crawlfleet.demo_shop.catalogue import CATEGORIES
from testkit.site.price_notations import amount
from testkit.site.versioned_catalogue import SiteProduct


def write_head(product: SiteProduct) -> str:
    """Write the part in the page's head; empty for microdata, which is in the body."""
    write = _HEADS.get(product.markup)
    return "" if write is None else write(product)


def is_microdata(product: SiteProduct) -> bool:
    return product.markup == "microdata"


def make_facts(product: SiteProduct) -> dict[str, Any]:
    return {
        "@context": "https://schema.org",
        "@type": "Product",
        "@id": f"{product.path}#product",
        "sku": str(product.number),
        "name": product.title,
        "description": product.description,
        "image": f"/images/{product.number}.jpg",
        "category": CATEGORIES[product.category],
        "offers": _offer(product),
    }


def _offer(product: SiteProduct) -> dict[str, Any]:
    stock = "InStock" if product.stock else "OutOfStock"
    return {
        "@type": "Offer",
        "price": product.amount,
        "priceCurrency": product.notation.currency,
        "availability": f"https://schema.org/{stock}",
        "url": product.path,
    }


def _script(data: object) -> str:
    # A "<" in the data must not end the script element early.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/ld+json">{text}</script>'


def _graph(product: SiteProduct) -> str:
    """Write a graph in which the product is one of several things on the page."""
    trail = [{"@type": "ListItem", "position": 1, "name": CATEGORIES[product.category]}]
    shop = {"@type": "Organization", "@id": "/#shop", "name": "The Demo Shop"}
    crumbs = {"@type": "BreadcrumbList", "itemListElement": trail}
    return _script({"@context": "https://schema.org", "@graph": [shop, crumbs, make_facts(product)]})


def _offers(product: SiteProduct) -> str:
    """Write several offers, with a list as the type and a number as the price."""
    offer = _offer(product) | {"price": float(product.amount)}
    return _script([make_facts(product) | {"@type": ["Product", "Thing"], "offers": [offer]}])


def _stale(product: SiteProduct) -> str:
    old = _offer(product) | {"price": amount(product.cents + 1_000, product.notation)}
    return _script(make_facts(product) | {"offers": old})


def _broken(product: SiteProduct) -> str:
    """Write JSON that is cut off in the middle, as a template that counts characters does."""
    whole = _script(make_facts(product))
    return whole[: len(whole) // 2] + "</script>"


def _open_graph(product: SiteProduct) -> str:
    properties = {
        "og:type": "product",
        "og:title": product.title,
        "og:description": product.description,
        "og:image": f"/images/{product.number}.jpg",
        "og:url": product.path,
        "product:price:amount": product.amount,
        "product:price:currency": product.notation.currency,
        "product:retailer_item_id": str(product.number),
    }
    return "".join(f'<meta property="{name}" content="{escape(value)}">' for name, value in properties.items())


_HEADS: dict[str, Callable[[SiteProduct], str]] = {
    "json-ld": lambda product: _script(make_facts(product)),
    "graph": _graph,
    "offers": _offers,
    "stale": _stale,
    "broken": _broken,
    "open-graph": _open_graph,
}


def make_item(product: SiteProduct) -> dict[str, Any]:
    """Return the item that a crawl which reads everything should extract from the product's page."""
    return {
        "sku": str(product.number),
        "path": product.path,
        "title": product.title,
        "description": product.description,
        "category": CATEGORIES[product.category],
        "price": product.amount,
        "currency": product.notation.currency,
        "price_text": product.price,
        "in_stock": product.stock > 0,
        "markup": product.markup,
    }
