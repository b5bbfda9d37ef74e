"""The storefront of the demo shop: the mapping from paths to pages."""

from __future__ import annotations

from urllib.parse import parse_qs

from crawlfleet.demo_shop import page_html
from crawlfleet.demo_shop.catalogue import CATEGORIES, Catalogue, Product
from crawlfleet.demo_shop.http_messages import is_number
from crawlfleet.demo_shop.site_page import ORIGIN, Page, html_page
from crawlfleet.demo_shop.sitemap import write_urlset

ROBOTS = f"User-agent: *\nDisallow: /private/\nDisallow: /cart\n\nSitemap: {ORIGIN}/sitemap.xml\n"


class DemoStorefront:
    """The pages of the demo shop. Pure: the same path gives the same page."""

    def __init__(self, catalogue: Catalogue[Product]) -> None:
        self.catalogue = catalogue

    def robots_text(self) -> str:
        return ROBOTS

    def find_page(self, path: str, query: str) -> Page | None:
        match path.split("/")[1:]:
            case [""]:
                return html_page(page_html.write_front(self.catalogue))
            case ["about"]:
                return html_page(page_html.write_about())
            case ["products"]:
                return self._listing_page("All products", path, query)
            case ["products", number]:
                return self._product_page(number)
            case ["category", slug] if slug in CATEGORIES:
                return self._listing_page(CATEGORIES[slug], path, query)
            case _:
                return self._sitemap_page(path)

    def _listing_page(self, title: str, path: str, query: str) -> Page | None:
        number = parse_page_number(query)
        products = self.catalogue.by_category.get(path.rpartition("/")[2], self.catalogue.products)
        return None if number is None else html_page(page_html.write_listing(title, path, products, number))

    def _product_page(self, number: str) -> Page | None:
        product = self.catalogue.get_product(int(number)) if is_number(number) else None
        if product is None:
            return None
        return html_page(page_html.write_product(product, self.catalogue.related_products(product)))

    def _sitemap_page(self, path: str) -> Page | None:
        if path != "/sitemap.xml":
            return None
        entries = ((f"{ORIGIN}{listed}", None) for listed in self.catalogue.page_paths())
        return Page(write_urlset(entries), "application/xml")


def parse_page_number(query: str) -> int | None:
    number = parse_qs(query).get("page", ["1"])[0]
    return int(number) if is_number(number) and int(number) else None
