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

    def robots(self) -> str:
        return ROBOTS

    def page(self, path: str, query: str) -> Page | None:
        match path.split("/")[1:]:
            case [""]:
                return html_page(page_html.write_front(self.catalogue))
            case ["about"]:
                return html_page(page_html.write_about())
            case ["products"]:
                return self._listing("All products", path, query)
            case ["products", number]:
                return self._product(number)
            case ["category", slug] if slug in CATEGORIES:
                return self._listing(CATEGORIES[slug], path, query)
            case _:
                return self._sitemap(path)

    def _listing(self, title: str, path: str, query: str) -> Page | None:
        number = parse_page_number(query)
        products = self.catalogue.by_category.get(path.rpartition("/")[2], self.catalogue.products)
        return None if number is None else html_page(page_html.write_listing(title, path, products, number))

    def _product(self, number: str) -> Page | None:
        product = self.catalogue.product(int(number)) if is_number(number) else None
        return None if product is None else html_page(page_html.write_product(product, self.catalogue.related(product)))

    def _sitemap(self, path: str) -> Page | None:
        if path != "/sitemap.xml":
            return None
        return Page(write_urlset((f"{ORIGIN}{listed}", None) for listed in self.catalogue.paths()), "application/xml")


def parse_page_number(query: str) -> int | None:
    number = parse_qs(query).get("page", ["1"])[0]
    return int(number) if is_number(number) and int(number) else None
