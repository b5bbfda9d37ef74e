"""What a product's page tells machines: structured data of several kinds, right, broken or stale."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from typing import Any

from crawlfleet.shop.catalogue import CATEGORIES, Product
from crawlfleet.shop.prices import amount


def head(product: Product) -> str:
    """Of the page's head; empty for microdata, which lives in the body."""
    write = _HEADS.get(product.markup)
    return "" if write is None else write(product)


def is_microdata(product: Product) -> bool:
    return product.markup == "microdata"


def facts(product: Product) -> dict[str, Any]:
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


def _offer(product: Product) -> dict[str, Any]:
    stock = "InStock" if product.stock else "OutOfStock"
    return {
        "@type": "Offer",
        "price": product.amount,
        "priceCurrency": product.notation.currency,
        "availability": f"https://schema.org/{stock}",
        "url": product.path,
    }


def _script(data: object) -> str:
    # "<" must not end the script early.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/ld+json">{text}</script>'


def _graph(product: Product) -> str:
    """The product is one of several things on the page."""
    trail = [{"@type": "ListItem", "position": 1, "name": CATEGORIES[product.category]}]
    shop = {"@type": "Organization", "@id": "/#shop", "name": "The Demo Shop"}
    crumbs = {"@type": "BreadcrumbList", "itemListElement": trail}
    return _script({"@context": "https://schema.org", "@graph": [shop, crumbs, facts(product)]})


def _offers(product: Product) -> str:
    """Several offers, the type a list, and the price a number."""
    offer = _offer(product) | {"price": float(product.amount)}
    return _script([facts(product) | {"@type": ["Product", "Thing"], "offers": [offer]}])


def _stale(product: Product) -> str:
    old = _offer(product) | {"price": amount(product.cents + 1_000, product.notation)}
    return _script(facts(product) | {"offers": old})


def _broken(product: Product) -> str:
    """Cut off in the middle, as a template that counts characters does."""
    whole = _script(facts(product))
    return whole[: len(whole) // 2] + "</script>"


def _open_graph(product: Product) -> str:
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


_HEADS: dict[str, Callable[[Product], str]] = {
    "json-ld": lambda product: _script(facts(product)),
    "graph": _graph,
    "offers": _offers,
    "stale": _stale,
    "broken": _broken,
    "open-graph": _open_graph,
}


def item(product: Product) -> dict[str, Any]:
    """What a crawl that reads everything should find on the product's page."""
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
