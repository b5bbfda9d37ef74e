"""The demo shop: a well-behaved site, and a few awkward pages that nothing links to."""

from __future__ import annotations

from urllib.parse import parse_qs

from crawlfleet.shop import pages
from crawlfleet.shop.catalogue import CATEGORIES, Catalogue
from crawlfleet.shop.http import is_number
from crawlfleet.shop.site_page import ORIGIN, Known, Page
from crawlfleet.shop.sitemaps import urlset

ROBOTS = f"User-agent: *\nDisallow: /private/\nDisallow: /cart\n\nSitemap: {ORIGIN}/sitemap.xml\n"


class PlainShop:
    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    def robots(self) -> str:
        return ROBOTS

    def known(self) -> list[Known]:
        return [Known(path, path) for path in self.catalogue.paths()]

    def page(self, path: str, query: str) -> Page | None:
        match path.split("/")[1:]:
            case [""]:
                return _html(pages.front(self.catalogue))
            case ["about"]:
                return _html(pages.about())
            case ["awkward"]:
                return _html(pages.awkward())
            case ["products"]:
                return self._listing("All products", path, query)
            case ["products", number]:
                return self._product(number)
            case ["category", slug] if slug in CATEGORIES:
                return self._listing(CATEGORIES[slug], path, query)
            case _:
                return _awkward(path) or self._sitemap(path)

    def _listing(self, title: str, path: str, query: str) -> Page | None:
        number = page_number(query)
        products = self.catalogue.by_category.get(path.rpartition("/")[2], self.catalogue.products)
        return None if number is None else _html(pages.listing(title, path, products, number))

    def _product(self, number: str) -> Page | None:
        product = self.catalogue.product(int(number)) if is_number(number) else None
        return None if product is None else _html(pages.detail(product, self.catalogue.related(product)))

    def _sitemap(self, path: str) -> Page | None:
        if path != "/sitemap.xml":
            return None
        return Page(urlset((f"{ORIGIN}{known.path}", None) for known in self.known()), "application/xml")


def _awkward(path: str) -> Page | None:
    match path:
        case "/moved":
            return Page(b"", status=301, headers=(("Location", "/products"),))
        case "/broken-charset":
            # Says UTF-8 twice and is neither.
            text = pages.page("Café", '<div class="product"><h2 class="title">Crème brûlée</h2></div>')
            return Page(text.encode("cp1252"))
        case "/chinese":
            # Its charset stands in the page only.
            text = pages.page("商店", '<div class="product"><h2 class="title">茶壶</h2></div>', charset="gbk")
            return Page(text.encode("gbk"), "text/html")
        case "/private/cellar":
            return _html(pages.page("The cellar", "<p>robots.txt asks robots not to come here.</p>"))
        case _:
            return None


def page_number(query: str) -> int | None:
    number = parse_qs(query).get("page", ["1"])[0]
    return int(number) if is_number(number) and int(number) else None


def _html(text: str) -> Page:
    return Page(text.encode())
