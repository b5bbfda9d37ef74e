"""The shop of the nasty site: everything that real shops do with links, and nothing that breaks a crawl by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from urllib.parse import parse_qs, quote_plus

from crawlfleet.demo_shop.catalogue import CATEGORIES, PAGE_PRODUCTS, count_pages, listing_paths
from crawlfleet.demo_shop.http_messages import is_number
from crawlfleet.demo_shop.page_html import write_page
from crawlfleet.demo_shop.site_page import ORIGIN, Page, html_page
from crawlfleet.demo_shop.storefront import parse_page_number
from testkit.site import feeds, link_pages, product_pages
from testkit.site.page_list import ListedPage
from testkit.site.versioned_catalogue import SiteProduct, VersionedCatalogue

POPULAR = ("kettle", "lamp", "no. 7", "café", "nothing like it")
"""Search words that the front page links to; the last one has no results."""
SORTS: dict[str, Callable[[SiteProduct], object]] = {
    "name": lambda product: product.title,
    "price": lambda product: (product.cents, product.number),
}
ROBOTS = f"""\
User-agent: *
Disallow: /private/
Allow: /private/press/
Disallow: /cart
Disallow: /checkout$
Disallow: /*?*session=

User-agent: BadBot
Disallow: /

Sitemap: {ORIGIN}/sitemap.xml
"""


class NastyStorefront:
    """The pages of the nasty shop."""

    def __init__(self, catalogue: VersionedCatalogue, *, page_bytes: int = 0, has_traps: bool = False) -> None:
        self.catalogue = catalogue
        self._page_bytes = page_bytes
        self._has_traps = has_traps

    def robots_text(self) -> str:
        return ROBOTS

    def list_pages(self) -> list[ListedPage]:
        """List the pages in no order of a crawl: worked out from the layout, not by reading pages."""
        pages = [ListedPage("/", "/")]
        pages += [ListedPage(path, path) for path in listing_paths("/products", len(self.catalogue.products))]
        for slug, products in self.catalogue.by_category.items():
            pages += [ListedPage(path, path) for path in listing_paths(f"/category/{slug}", len(products))]
            pages += [ListedPage(f"/category/{slug}?sort={sort}", f"/category/{slug}") for sort in SORTS]
        for word in POPULAR:
            path = _search_path(word)
            count = count_pages(len(self._search_products(word)))
            pages += [
                ListedPage(
                    f"{path}{f'&page={number}' if number > 1 else ''}", path if number == 1 else f"{path}&page={number}"
                )
                for number in range(1, count + 1)
            ]
        pages += product_pages.list_pages(self.catalogue)
        return pages + link_pages.list_pages(has_traps=self._has_traps) + feeds.list_pages()

    def find_page(self, path: str, query: str) -> Page | None:
        match path.split("/")[1:]:
            case [""]:
                return html_page(self._front())
            case ["products"]:
                return self._listing("All products", path, self.catalogue.products, query)
            case ["category", slug] if slug in CATEGORIES:
                return self._category(slug, query)
            case ["search"]:
                return self._search(query)
            case ["products" | "p" as kind, number, *rest] if is_number(number):
                return self._product(kind, int(number), rest, query)
            case _:
                return link_pages.find_page(path) or feeds.find_page(path, query, self)

    def _front(self) -> str:
        products = self.catalogue.products
        best = "".join(f'<li><a href="{it.path}">{escape(it.title)}</a></li>' for it in products[:5])
        searches = " ".join(f'<a href="{escape(_search_path(word))}">{escape(word)}</a>' for word in POPULAR)
        return write_page(
            "The Nasty Shop",
            f"<p>{len(products)} products.</p><ul>{best}</ul><p>Popular: {searches}</p>"
            '<form action="/search"><input name="q"></form>' + link_pages.write_links(has_traps=self._has_traps),
            head='<link rel="canonical" href="/"><link rel="alternate" href="/feeds/new.rss">',
        )

    def _category(self, slug: str, query: str) -> Page | None:
        path, products = f"/category/{slug}", self.catalogue.by_category[slug]
        sort = parse_qs(query).get("sort", [""])[0]
        if sort in SORTS:
            shown = sorted(products, key=SORTS[sort])[:PAGE_PRODUCTS]  # type: ignore[arg-type]
            cards = "".join(map(product_pages.write_listing_card, shown))
            head = f'<link rel="canonical" href="{path}">'
            return html_page(write_page(f"{CATEGORIES[slug]} by {sort}", cards, head=head))
        if sort:
            return None
        # A link of a query alone, such as "?page=2", keeps the path and drops the old query.
        sorts = " ".join(f'<a href="?sort={name}">by {name}</a>' for name in SORTS)
        return self._listing(CATEGORIES[slug], path, products, query, sorts)

    def _listing(
        self, title: str, path: str, products: Sequence[SiteProduct], query: str, more: str = "", href: str = "?page="
    ) -> Page | None:
        number, last = parse_page_number(query), count_pages(len(products))
        if number is None or number > last:
            return None
        shown = products[(number - 1) * PAGE_PRODUCTS : number * PAGE_PRODUCTS]
        # Ten pages around this one, the first, and the last: as long lists show them.
        near = sorted({1, last, *range(max(1, number - 5), min(last, number + 5) + 1)})
        links = [f'<a href="{path if page == 1 else f"{href}{page}"}">{page}</a>' for page in near]
        if number < last:
            links.append(f'<a rel="next" href="{href}{number + 1}">Next</a>')
        cards = "".join(map(product_pages.write_listing_card, shown))
        return html_page(write_page(title, f'{cards}<nav class="pages">{" ".join(links)}</nav>{more}'))

    def _search_products(self, word: str) -> Sequence[SiteProduct]:
        wanted = word.lower()
        return [product for product in self.catalogue.products if wanted in product.title.lower()]

    def _search(self, query: str) -> Page | None:
        word = parse_qs(query).get("q", [""])[0]
        if not word:
            return html_page(write_page("Search", '<form action="/search"><input name="q"></form>'))
        path = escape(_search_path(word))
        return self._listing(f"Search: {word}", path, self._search_products(word), query, href=f"{path}&amp;page=")

    def _product(self, kind: str, number: int, rest: list[str], query: str) -> Page | None:
        product = self.catalogue.get_product(number)
        if product is None:
            gone = self.catalogue.is_gone(number) and not rest
            return Page(write_page("Gone", "<p>Sold out for ever.</p>").encode(), status=410) if gone else None
        match kind, rest:
            case "products", []:
                return html_page(product_pages.write_product(product, self.catalogue, self._page_bytes))
            case "p", []:
                return html_page(product_pages.write_alias(product, self.catalogue, self._page_bytes))
            case "products", [""]:
                return Page(b"", status=301, headers=(("Location", product.path),))
            case "products", ["reviews"]:
                text = product_pages.write_reviews(product, parse_page_number(query) or 0)
                return None if text is None else html_page(text)
            case _:
                return None


def _search_path(word: str) -> str:
    return f"/search?q={quote_plus(word)}"
