"""The HTML of the demo shop's pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from crawlfleet.demo_shop.catalogue import CATEGORIES, PAGE_PRODUCTS, Catalogue, Product, count_pages, listing_paths


def write_front(catalogue: Catalogue[Product]) -> str:
    bestsellers = "".join(
        f'<li><a href="{product.path}">{escape(product.title)}</a></li>' for product in catalogue.products[:5]
    )
    return write_page("The Demo Shop", f"<p>{len(catalogue.products)} products.</p><ul>{bestsellers}</ul>")


def write_about() -> str:
    return write_page("About us", "<p>A shop that sells nothing, so that it can be crawled by anybody.</p>")


def write_listing(title: str, path: str, products: Sequence[Product], number: int) -> str:
    shown = products[(number - 1) * PAGE_PRODUCTS : number * PAGE_PRODUCTS]
    links = [f'<a href="{href}">{page}</a>' for page, href in enumerate(listing_paths(path, len(products)), 1)]
    if number < count_pages(len(products)):
        links.append(f'<a rel="next" href="{path}?page={number + 1}">Next</a>')
    return write_page(title, "".join(map(write_card, shown)) + f'<nav class="pages">{" ".join(links)}</nav>')


def write_product(product: Product, related: Sequence[Product]) -> str:
    facts = {
        "@context": "https://schema.org",
        "@type": "Product",
        "sku": str(product.number),
        "name": product.title,
        "description": product.description,
        "offers": {"@type": "Offer", "price": product.amount, "priceCurrency": "USD"},
    }
    # A "<" in the data must not end the script element early.
    data = json.dumps(facts).replace("<", "\\u003c")
    body = (
        f'<script type="application/ld+json">{data}</script>'
        f'<div class="product" data-id="{product.number}"><h2 class="title">{escape(product.title)}</h2>'
        f'<span class="price">{product.price}</span><p class="description">{escape(product.description)}</p>'
        f'<p class="stock">{product.stock} in stock</p><a class="permalink" href="{product.path}">Link</a></div>'
        f'<p><a href="/category/{product.category}">{escape(CATEGORIES[product.category])}</a></p>'
    )
    return write_page(
        product.title, body + "".join(f'<p><a href="{other.path}">{escape(other.title)}</a></p>' for other in related)
    )


def write_card(product: Product) -> str:
    return (
        f'<div class="product" data-id="{product.number}"><h2 class="title">'
        f'<a href="{product.path}">{escape(product.title)}</a></h2> <span class="price">{product.price}</span></div>\n'
    )


def write_page(title: str, body: str, *, charset: str = "utf-8", head: str = "") -> str:
    categories = " ".join(f'<a href="/category/{slug}">{escape(name)}</a>' for slug, name in CATEGORIES.items())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="{charset}"><title>{escape(title)}</title>{head}</head>'
        f'<body><nav><a href="/">Home</a> <a href="/products">Products</a> {categories} '
        f'<a href="/about#us">About</a></nav>'
        f"<main><h1>{escape(title)}</h1>{body}</main></body></html>"
    )
