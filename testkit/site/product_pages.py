"""The product pages of the nasty site, and the pages about one product: reviews, aliases, files."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from random import Random

from crawlfleet.demo_shop.catalogue import CATEGORIES, Product
from crawlfleet.demo_shop.page_html import write_card, write_page
from testkit.site import structured_data
from testkit.site.page_list import ListedPage
from testkit.site.versioned_catalogue import SiteProduct, VersionedCatalogue

REVIEWS_A_PAGE = 5
_AUTHORS = ("Ada", "Björn", "Chen", "Dolores", "Émile", "Fatima")
_REVIEWS = ("Does what it should.", "Arrived <em>late</em>, works.", "My third one.", "Returned it.", "五星好评")
_FILLER = "It was packed with care, carried over the hills, and never once complained about the weather. "


def has_alias(product: Product) -> bool:
    """Return whether it has a second URL, `/p/N`, that names the first as canonical."""
    return product.number % 20 == 1


def has_slash_link(product: Product) -> bool:
    """Return whether some link to it ends with a slash, which is redirected."""
    return product.number % 50 == 2


def is_tracked(product: Product) -> bool:
    """Return whether the links on its page to related products have a tracking parameter."""
    return product.number % 10 == 3


def has_manual(product: Product) -> bool:
    return product.number % 40 == 4


def has_picture_link(product: Product) -> bool:
    return product.number % 40 == 5


def count_review_pages(product: Product) -> int:
    return product.number % 4 if product.number % 25 == 0 else 0


def linked_path(product: Product) -> str:
    """Return the path by which lists link to it: the first link in a card is that of the product."""
    return f"/p/{product.number}" if has_alias(product) else product.path


def tracked_path(path: str) -> str:
    return f"{path}?utm_source=related&utm_medium=web"


def list_pages(catalogue: VersionedCatalogue) -> Iterator[ListedPage]:
    """List the product pages and all pages that they link to."""
    marked: dict[str, str] = {}
    for product in catalogue.products:
        yield ListedPage(product.path, product.path)
        if has_alias(product):
            yield ListedPage(f"/p/{product.number}", product.path)
        if has_slash_link(product):
            yield ListedPage(f"{product.path}/", product.path, status=301)
        for number in range(1, count_review_pages(product) + 1):
            path = _reviews_path(product, number)
            yield ListedPage(path, path)
        if has_manual(product):
            path = f"/files/manual-{product.number}.pdf"
            yield ListedPage(path, path, is_html=False)
        if has_picture_link(product):
            path = f"/images/{product.number}.jpg"
            yield ListedPage(path, path, is_html=False)
        if is_tracked(product):
            marked |= {tracked_path(other.path): other.path for other in catalogue.related_products(product)}
    for path, canonical in marked.items():
        yield ListedPage(path, canonical)


def write_product(product: SiteProduct, catalogue: VersionedCatalogue, page_bytes: int) -> str:
    body = _write_body(product)
    for other in catalogue.related_products(product):
        href = tracked_path(other.path) if is_tracked(product) else f"../products/{other.number}"
        body += f'<p class="related"><a href="{href}">{escape(other.title)}</a></p>'
    if has_slash_link(product):
        body += f'<p><a href="{product.number}/">Share</a></p>'
    if count_review_pages(product):
        body += f'<p><a href="{_reviews_path(product, 1)}">All reviews</a></p>'
    if has_manual(product):
        body += f'<p><a href="/files/manual-{product.number}.pdf">Manual (PDF)</a></p>'
    if has_picture_link(product):
        body += f'<p><a href="/images/{product.number}.jpg">Larger picture</a></p>'
    body += _write_review_list(product, 1)
    whole = write_page(product.title, body, head=_canonical(product.path) + structured_data.write_head(product))
    missing = page_bytes - len(whole)
    if missing <= 0:
        return whole
    # In paragraphs, as real text is: one long line would be cheaper to parse than a real page.
    paragraphs = "".join(f"<p>{_FILLER * 3}</p>\n" for _ in range(missing // (len(_FILLER) * 3 + 8) + 1))
    return whole.replace("</main>", f'<section class="story">{paragraphs}</section></main>', 1)


def _write_body(product: SiteProduct) -> str:
    """Write the body with microdata where the product has it, and with classes always."""
    if structured_data.is_microdata(product):
        scope, stock = 'itemscope itemtype="https://schema.org/Product"', "InStock" if product.stock else "OutOfStock"
        name, description, sku = (
            'itemprop="name"',
            'itemprop="description"',
            f'<meta itemprop="sku" content="{product.number}">',
        )
        offer = (
            '<span itemprop="offers" itemscope itemtype="https://schema.org/Offer">'
            f'<meta itemprop="priceCurrency" content="{product.notation.currency}">'
            f'<link itemprop="availability" href="https://schema.org/{stock}">'
            f'<span class="price" itemprop="price" content="{product.amount}">{escape(product.price)}</span></span>'
        )
    else:
        scope = name = description = sku = ""
        offer = f'<span class="price">{escape(product.price)}</span>'
    return (
        f'<div class="product" data-id="{product.number}" {scope}>'
        f'{sku}<h2 class="title" {name}>{escape(product.title)}</h2>{offer}'
        f'<p class="description" {description}>{escape(product.description)}</p>'
        f'<p class="stock">{product.stock} in stock</p><a class="permalink" href="{product.path}">Link</a></div>'
        f'<img src="/images/{product.number}.jpg" alt="{escape(product.title)}">'
        f'<p><a href="/category/{product.category}">{escape(CATEGORIES[product.category])}</a></p>'
    )


def write_alias(product: SiteProduct, catalogue: VersionedCatalogue, page_bytes: int) -> str:
    """Write the page under its other address, with the same content but not the same bytes."""
    return write_product(product, catalogue, page_bytes).replace("<main>", '<main class="short">', 1)


def write_reviews(product: Product, number: int) -> str | None:
    last = count_review_pages(product)
    if not 1 <= number <= last:
        return None
    after = f'<a rel="next" href="?page={number + 1}">Next</a>' if number < last else ""
    return write_page(f"Reviews of {product.title}", _write_review_list(product, number) + after)


def write_listing_card(product: Product) -> str:
    return write_card(product).replace(f'href="{product.path}"', f'href="{linked_path(product)}"')


def _reviews_path(product: Product, number: int) -> str:
    return f"{product.path}/reviews" + (f"?page={number}" if number > 1 else "")


def _write_review_list(product: Product, number: int) -> str:
    rng = Random(f"{product.number}:{number}")
    shown = "".join(
        f'<li class="review"><b>{rng.choice(_AUTHORS)}</b> <span class="stars">{rng.randrange(1, 6)}</span>'
        f"<p>{rng.choice(_REVIEWS)}</p></li>"
        for _ in range(rng.randrange(1, REVIEWS_A_PAGE + 1))
    )
    return f'<ol class="reviews">{shown}</ol>'


def _canonical(path: str) -> str:
    return f'<link rel="canonical" href="{path}">'
