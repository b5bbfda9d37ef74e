"""Small pages of the nasty shop: one for each directive of links, robots.txt and headers about where a crawl may go."""

from __future__ import annotations

from crawlfleet.demo_shop.page_html import write_page
from crawlfleet.demo_shop.site_page import HOST, ORIGIN, Page
from testkit.site.page_list import ListedPage

GUIDE = ("one", "two", "three")
OUTLET = range(1, 21)
"""Numbers of the pages that nothing links to: only a sitemap names them."""
_LINKS = f"""
<footer>
<a href="/about">About</a> <a href=" /about ">About, with spaces</a> <a href="/about#us">About us</a>
<a href="/./guide/../about">About, the long way</a> <a href="HTTP://{HOST}/about">About, loudly</a>
<a href="{ORIGIN}/help">Help</a> <a href="//{HOST}/guide/">Guide</a> <a href="">This page</a> <a href="#top">Top</a>
<a href="/private/cellar">Cellar</a> <a href="/private/press/kit">Press</a> <a href="/cart">Cart</a>
<a href="/checkout">Checkout</a> <a href="/checkout/help">About paying</a>
<a href="/basket?a=1&amp;session=77">Basket</a>
<a rel="nofollow" href="/login">Log in</a> <a rel="noopener nofollow ugc" href="/partners">Partners</a>
<a href="/quiet">Quiet</a> <a href="/tagged">Tagged</a> <a href="/unlisted">Unlisted</a> <a href="/map">Map</a>
<a href="http://other.example/shop">A friend</a>
<a href="//blog.{HOST}/post">Our blog</a> <a href="http://user:secret@127.0.0.1:1/">Staff</a>
<a href="mailto:a@shop.example">Mail</a> <a href="tel:+123">Call</a> <a href="javascript:void(0)">Click</a>
<a href="data:text/html,hello">Data</a> <a href="ftp://shop.example/x">FTP</a> <a href="http://[bad/">Bad</a>
<a>No link</a> <a href="/sold-out">Sold out</a> <a href="/moved">Moved</a> <a href="/feeds/products.csv">CSV</a>
<a href="/feeds/products.json">JSON</a> <a href="/api/products">API</a> <a href="/feeds/new.rss">RSS</a>
</footer>
"""
_TRAPS = '<p><a href="/traps">More of everything</a></p>'
_PAGES: dict[str, tuple[str, str, str]] = {
    "/about": ("About us", "<p>A shop that sells nothing, so that it can be crawled by anybody.</p>", ""),
    "/help": ("Help", '<p>Nobody can help you. <area href="/help/area"></p>', ""),
    "/help/area": ("An area", "<p>Reached by the link of an image map.</p>", ""),
    # The base element is in the head and changes every relative link of the page.
    "/guide/": ("Guide", "".join(f'<a href="{name}.html">{name}</a>' for name in GUIDE), '<base href="/guide/pages/">'),
    **{f"/guide/pages/{name}.html": (f"Guide {name}", '<a href="../">Up</a>', "") for name in GUIDE},
    "/private/cellar": ("The cellar", '<a href="/private/cellar/shelf">Shelf</a>', ""),
    "/private/cellar/shelf": ("A shelf", "<p>robots.txt asks robots not to come here.</p>", ""),
    "/private/press/kit": ("Press kit", "<p>Allowed: the longer rule wins.</p>", ""),
    "/cart": ("Your cart", "<p>Empty.</p>", ""),
    "/checkout": ("Checkout", "<p>Disallowed, by a rule that ends here.</p>", ""),
    "/checkout/help": ("About paying", "<p>Allowed: the rule ended before.</p>", ""),
    "/basket": ("Basket", "<p>Disallowed with a session in the query.</p>", ""),
    "/login": ("Log in", '<form method="post"><input name="user"></form>', ""),
    "/partners": ("Partners", '<a href="/partners/deal">A deal</a>', ""),
    "/partners/deal": ("A deal", "<p>Found only through a link that should not be followed.</p>", ""),
    "/quiet": ("Quiet", '<a href="/quiet/behind">Behind</a>', '<meta name="robots" content="index, nofollow">'),
    "/quiet/behind": ("Behind", "<p>Found only from a page whose links should not be followed.</p>", ""),
    "/tagged": ("Tagged", '<a href="/tagged/behind">Behind</a>', ""),
    "/tagged/behind": ("Behind", "<p>Found only from a page whose header says nofollow.</p>", ""),
    "/unlisted": ("Unlisted", '<a href="/unlisted/more">More</a>', '<meta name="robots" content="noindex">'),
    "/unlisted/more": ("More", "<p>noindex is no nofollow.</p>", ""),
    "/map": ("Map", '<iframe src="/map/frame"></iframe><a href="/ma\np/ta\tble">Table</a>', ""),
    "/map/table": ("Table", "<p>The link had a line break in it, which does not count.</p>", ""),
    "/map/frame": ("Frame", "<p>In a frame: no link leads here.</p>", ""),
    "/traps": (
        "More of everything",
        "".join(
            f'<p><a href="/nasty/trap/{name}">{name}</a></p>'
            for name in ("calendar", "session", "deeper", "facets", "counter", "relative/", "words", "soft")
        ),
        "",
    ),
    **{f"/outlet/{number}": (f"Outlet {number}", "<p>Nothing links here.</p>", "") for number in OUTLET},
}
_DISALLOWED = ("/private/cellar", "/private/cellar/shelf", "/cart", "/checkout", "/basket")
_NOT_FOLLOWED = ("/login", "/partners", "/partners/deal", "/quiet/behind", "/tagged/behind")
_NOT_LINKED = ("/basket", "/map/frame", "/traps")


def write_links(*, has_traps: bool) -> str:
    return _LINKS + (_TRAPS if has_traps else "")


def list_pages(*, has_traps: bool) -> list[ListedPage]:
    """List the pages. `/help/area` counts as linked: an `area` is a link, a frame is not."""
    pages = [
        ListedPage(path, path, is_allowed=path not in _DISALLOWED, is_followed=path not in _NOT_FOLLOWED)
        for path in _PAGES
        if path not in _NOT_LINKED and not path.startswith("/outlet/")
    ]
    pages.append(ListedPage("/basket?a=1&session=77", "/basket?a=1&session=77", is_allowed=False))
    pages += [ListedPage(f"/outlet/{number}", f"/outlet/{number}", is_linked=False) for number in OUTLET]
    pages += [ListedPage("/sold-out", "/sold-out", status=404), ListedPage("/moved", "/help", status=301)]
    return [*pages, ListedPage("/traps", "/traps")] if has_traps else pages


def find_page(path: str) -> Page | None:
    if path == "/moved":
        return Page(b"", status=301, headers=(("Location", "help"),))
    if path not in _PAGES:
        return None
    title, body, head = _PAGES[path]
    headers = (("X-Robots-Tag", "nofollow"),) if path == "/tagged" else ()
    return Page(write_page(title, body, head=head).encode(), headers=headers)
