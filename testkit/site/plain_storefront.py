"""The storefront of the demo shop as the test site serves it: with a few awkward pages that nothing links to."""

from __future__ import annotations

from crawlfleet.demo_shop.page_html import write_page
from crawlfleet.demo_shop.site_page import Page, html_page
from crawlfleet.demo_shop.storefront import DemoStorefront
from testkit.site.page_list import ListedPage
from testkit.site.versioned_catalogue import VersionedCatalogue

AWKWARD = ("/nasty/stall/slow", "/missing", "/moved", "/broken-charset", "/chinese", "/private/cellar")


class PlainStorefront:
    """The pages of the demo shop, and the awkward ones."""

    def __init__(self, catalogue: VersionedCatalogue) -> None:
        self.catalogue = catalogue
        self._demo = DemoStorefront(catalogue)

    def robots_text(self) -> str:
        return self._demo.robots_text()

    def list_pages(self) -> list[ListedPage]:
        return [ListedPage(path, path) for path in self.catalogue.page_paths()]

    def find_page(self, path: str, query: str) -> Page | None:
        return _awkward_page(path) or self._demo.find_page(path, query)


def _awkward_page(path: str) -> Page | None:
    match path:
        case "/awkward":
            links = "".join(f'<p><a href="{linked}">{linked}</a></p>' for linked in AWKWARD)
            return html_page(write_page("Awkward pages", links))
        case "/moved":
            return Page(b"", status=301, headers=(("Location", "/products"),))
        case "/broken-charset":
            # Header and page both declare UTF-8, and the bytes are not.
            text = write_page("Café", '<div class="product"><h2 class="title">Crème brûlée</h2></div>')
            return Page(text.encode("cp1252"))
        case "/chinese":
            # The charset is declared in the page only.
            text = write_page("商店", '<div class="product"><h2 class="title">茶壶</h2></div>', charset="gbk")
            return Page(text.encode("gbk"), "text/html")
        case "/private/cellar":
            return html_page(write_page("The cellar", "<p>robots.txt asks robots not to come here.</p>"))
        case _:
            return None
