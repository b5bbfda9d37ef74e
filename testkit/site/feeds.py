"""Files of the nasty shop besides pages: pictures, manuals, feeds, an API of the products, and sitemaps."""

from __future__ import annotations

import csv
import io
import json
from base64 import b64decode
from datetime import datetime
from html import escape

from crawlfleet.demo_shop.catalogue import listing_paths
from crawlfleet.demo_shop.http_messages import is_number
from crawlfleet.demo_shop.site_page import ORIGIN, Page
from crawlfleet.demo_shop.sitemap import write_urlset
from crawlfleet.demo_shop.storefront import parse_page_number
from testkit.site import structured_data
from testkit.site.link_pages import OUTLET
from testkit.site.page_list import ListedPage, Storefront
from testkit.site.sitemap_index import write_index
from testkit.site.versioned_catalogue import VersionedCatalogue, changed_at

API_PAGE = 100
SITEMAP_ENTRIES = 2_000
JPEG = b64decode(
    "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJDRENDg8QEBEQCgwSExIQEw8Q"
    "EBD/yQALCAABAAEBAREA/8wABgAQEAX/2gAIAQEAAD8A0s8g/9k="
)
"""A picture of one grey pixel."""
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)
_FEEDS = ("/feeds/products.csv", "/feeds/products.json", "/feeds/new.rss", "/api/products")


def list_pages() -> list[ListedPage]:
    return [ListedPage(path, path, is_html=False) for path in _FEEDS]


def find_page(path: str, query: str, shop: Storefront) -> Page | None:
    match path.split("/")[1:]:
        case ["feeds", name]:
            return _feed(name, shop.catalogue)
        case ["api", "products"]:
            return _api(shop.catalogue, query)
        case ["sitemap.xml"]:
            return _sitemap_index(shop.catalogue)
        case ["sitemaps", name]:
            return _sitemap(name, shop)
        case ["images" | "files" | "api", *_, name]:
            return _product_file(path, name, shop.catalogue)
        case _:
            return None


def _feed(name: str, catalogue: VersionedCatalogue) -> Page | None:
    match name:
        case "products.csv":
            return Page(_csv(catalogue), "text/csv; charset=utf-8")
        case "products.json":
            return _json([structured_data.make_item(product) for product in catalogue.products])
        case "new.rss":
            return Page(_rss(catalogue), "application/rss+xml")
        case _:
            return None


def _product_file(path: str, name: str, catalogue: VersionedCatalogue) -> Page | None:
    number = name.removeprefix("manual-").partition(".")[0]
    product = catalogue.get_product(int(number)) if is_number(number) else None
    if product is None:
        return None
    kinds = {
        f"/images/{number}.jpg": Page(JPEG, "image/jpeg"),
        f"/files/manual-{number}.pdf": Page(PDF, "application/pdf"),
        f"/api/products/{number}": _json(structured_data.make_item(product)),
    }
    return kinds.get(path)


def _api(catalogue: VersionedCatalogue, query: str) -> Page | None:
    """Return a page of a hundred products; `next` names the next page."""
    number = parse_page_number(query)
    if number is None:
        return None
    shown = catalogue.products[(number - 1) * API_PAGE : number * API_PAGE]
    more = number * API_PAGE < len(catalogue.products)
    return _json(
        {
            "products": [structured_data.make_item(product) for product in shown],
            "total": len(catalogue.products),
            "next": f"/api/products?page={number + 1}" if more else None,
        }
    )


def _json(value: object) -> Page:
    return Page(json.dumps(value, ensure_ascii=False).encode(), "application/json")


def _csv(catalogue: VersionedCatalogue) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("sku", "title", "price", "currency", "path"))
    writer.writerows((it.number, it.title, it.amount, it.notation.currency, it.path) for it in catalogue.products)
    return text.getvalue().encode()


def _rss(catalogue: VersionedCatalogue) -> bytes:
    items = "".join(
        f"<item><title>{escape(it.title)}</title><link>{ORIGIN}{it.path}</link></item>"
        for it in catalogue.products[-10:]
    )
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>New</title>{items}</channel></rss>'.encode()


def _sitemap_index(catalogue: VersionedCatalogue) -> Page:
    parts = range(1, max(1, -(-len(catalogue.products) // SITEMAP_ENTRIES)) + 1)
    names = ["pages.xml", "outlet.xml", *(f"products-{part}.xml.gz" for part in parts)]
    return Page(write_index((f"{ORIGIN}/sitemaps/{name}", None) for name in names), "application/xml")


def _sitemap(name: str, shop: Storefront) -> Page | None:
    products = shop.catalogue.products
    part = name.removeprefix("products-").removesuffix(".xml.gz")
    entries: list[tuple[str, datetime | None]]
    if name == "pages.xml":
        entries = [(path, None) for path in ("/", "/about", *listing_paths("/products", len(products)))]
    elif name == "outlet.xml":
        entries = [(f"/outlet/{number}", changed_at(1)) for number in OUTLET]
    elif is_number(part):
        shown = products[(int(part) - 1) * SITEMAP_ENTRIES : int(part) * SITEMAP_ENTRIES]
        entries = [(product.path, changed_at(product.since)) for product in shown]
    else:
        return None
    dated = ((f"{ORIGIN}{path}", day.isoformat() if day else None) for path, day in entries)
    return Page(write_urlset(dated), "application/xml", is_gzipped=name.endswith(".gz"))
