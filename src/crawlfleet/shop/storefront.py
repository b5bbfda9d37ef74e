"""The shop of the nasty site: everything that real shops do with links, and nothing that breaks a crawl by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from urllib.parse import parse_qs, quote_plus

from crawlfleet.shop import corners, feeds, product_page
from crawlfleet.shop.catalogue import CATEGORIES, PAGE_PRODUCTS, Catalogue, Product, listing_paths, pages
from crawlfleet.shop.http import is_number
from crawlfleet.shop.pages import page
from crawlfleet.shop.plain import page_number
from crawlfleet.shop.site_page import ORIGIN, Known, Page

POPULAR = ("kettle", "lamp", "no. 7", "café", "nothing like it")
"""Searches that the front page links to; the last one finds nothing."""
SORTS: dict[str, Callable[[Product], object]] = {
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


class NastyShop:
    def __init__(self, catalogue: Catalogue, *, page_bytes: int = 0, has_traps: bool = False) -> None:
        self.catalogue = catalogue
        self._page_bytes = page_bytes
        self._has_traps = has_traps

    def robots(self) -> str:
        return ROBOTS

    def known(self) -> list[Known]:
        """In no order of a crawl: worked out from the layout, not by reading pages."""
        found = [Known("/", "/")]
        found += [Known(path, path) for path in listing_paths("/products", len(self.catalogue.products))]
        for slug, products in self.catalogue.by_category.items():
            found += [Known(path, path) for path in listing_paths(f"/category/{slug}", len(products))]
            found += [Known(f"/category/{slug}?sort={sort}", f"/category/{slug}") for sort in SORTS]
        for word in POPULAR:
            path = _search_path(word)
            count = pages(len(self._found(word)))
            found += [
                Known(f"{path}{f'&page={at}' if at > 1 else ''}", path if at == 1 else f"{path}&page={at}")
                for at in range(1, count + 1)
            ]
        found += product_page.known(self.catalogue)
        return found + corners.known(has_traps=self._has_traps) + feeds.known(self.catalogue)

    def page(self, path: str, query: str) -> Page | None:
        match path.split("/")[1:]:
            case [""]:
                return _html(self._front())
            case ["products"]:
                return self._listing("All products", path, self.catalogue.products, query)
            case ["category", slug] if slug in CATEGORIES:
                return self._category(slug, query)
            case ["search"]:
                return self._search(query)
            case ["products" | "p" as kind, number, *rest] if is_number(number):
                return self._product(kind, int(number), rest, query)
            case _:
                return corners.page_of(path) or feeds.page_of(path, query, self)

    def _front(self) -> str:
        products = self.catalogue.products
        best = "".join(f'<li><a href="{it.path}">{escape(it.title)}</a></li>' for it in products[:5])
        searches = " ".join(f'<a href="{escape(_search_path(word))}">{escape(word)}</a>' for word in POPULAR)
        return page(
            "The Nasty Shop",
            f"<p>{len(products)} products.</p><ul>{best}</ul><p>Popular: {searches}</p>"
            '<form action="/search"><input name="q"></form>' + corners.links(has_traps=self._has_traps),
            head='<link rel="canonical" href="/"><link rel="alternate" href="/feeds/new.rss">',
        )

    def _category(self, slug: str, query: str) -> Page | None:
        path, products = f"/category/{slug}", self.catalogue.by_category[slug]
        sort = parse_qs(query).get("sort", [""])[0]
        if sort in SORTS:
            shown = sorted(products, key=SORTS[sort])[:PAGE_PRODUCTS]  # type: ignore[arg-type]
            cards = "".join(map(product_page.listing_card, shown))
            head = f'<link rel="canonical" href="{path}">'
            return _html(page(f"{CATEGORIES[slug]} by {sort}", cards, head=head))
        if sort:
            return None
        # A link of a query alone, as "?page=2" is: it keeps the path and drops the old query.
        sorts = " ".join(f'<a href="?sort={name}">by {name}</a>' for name in SORTS)
        return self._listing(CATEGORIES[slug], path, products, query, sorts)

    def _listing(
        self, title: str, path: str, products: Sequence[Product], query: str, more: str = "", href: str = "?page="
    ) -> Page | None:
        number, last = page_number(query), pages(len(products))
        if number is None or number > last:
            return None
        shown = products[(number - 1) * PAGE_PRODUCTS : number * PAGE_PRODUCTS]
        # Ten pages around this one, the first, and the last: what long lists show.
        near = sorted({1, last, *range(max(1, number - 5), min(last, number + 5) + 1)})
        links = [f'<a href="{path if at == 1 else f"{href}{at}"}">{at}</a>' for at in near]
        if number < last:
            links.append(f'<a rel="next" href="{href}{number + 1}">Next</a>')
        cards = "".join(map(product_page.listing_card, shown))
        return _html(page(title, f'{cards}<nav class="pages">{" ".join(links)}</nav>{more}'))

    def _found(self, word: str) -> Sequence[Product]:
        wanted = word.lower()
        return [product for product in self.catalogue.products if wanted in product.title.lower()]

    def _search(self, query: str) -> Page | None:
        word = parse_qs(query).get("q", [""])[0]
        if not word:
            return _html(page("Search", '<form action="/search"><input name="q"></form>'))
        path = escape(_search_path(word))
        return self._listing(f"Search: {word}", path, self._found(word), query, href=f"{path}&amp;page=")

    def _product(self, kind: str, number: int, rest: list[str], query: str) -> Page | None:
        product = self.catalogue.product(number)
        if product is None:
            gone = self.catalogue.is_gone(number) and not rest
            return Page(page("Gone", "<p>Sold out for ever.</p>").encode(), status=410) if gone else None
        match kind, rest:
            case "products", []:
                return _html(product_page.detail(product, self.catalogue, self._page_bytes))
            case "p", []:
                return _html(product_page.alias(product, self.catalogue, self._page_bytes))
            case "products", [""]:
                return Page(b"", status=301, headers=(("Location", product.path),))
            case "products", ["reviews"]:
                text = product_page.reviews(product, page_number(query) or 0)
                return None if text is None else _html(text)
            case _:
                return None


def _search_path(word: str) -> str:
    return f"/search?q={quote_plus(word)}"


def _html(text: str) -> Page:
    return Page(text.encode())
