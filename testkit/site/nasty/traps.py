"""Traps: pages without end, in which a crawl that follows every link never ends."""

from __future__ import annotations

from datetime import date, timedelta
from hashlib import blake2b
from html import escape
from urllib.parse import urlencode

from crawlfleet.demo_shop.http_messages import is_number
from testkit.site.connection import Answer, Exchange
from testkit.site.nasty.behaviour import Family, ok

FAMILY = Family("trap")
_CAP = "stops at a cap for each pattern of URL, says so, and still reads the rest of the site"
_FACETS = {
    "colour": ("red", "green", "blue", "oak"),
    "size": ("s", "m", "l", "xl"),
    "brand": ("a", "b", "c"),
    "sort": ("up", "down"),
}
_TODAY = date(2026, 1, 1)


def _trap(title: str, *paths: str) -> bytes:
    """Write an HTML page with links."""
    return ok(
        title, "".join(f'<p><a href="{escape(path)}">{escape(path.rpartition("/")[2])}</a></p>' for path in paths)
    )


def _code(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


@FAMILY.answers(
    "calendar", "a page for each day, with links to the day before and after, to month and year, for ever", _CAP
)
def calendar(exchange: Exchange) -> Answer:
    try:
        day = date.fromisoformat(exchange.request.path.rpartition("/")[2])
    except ValueError:
        day = _TODAY
    days = [_day(day, step) for step in (-1, 1, 30, 365)]
    return _trap(f"Events of {day}", *(f"/nasty/trap/calendar/{it}" for it in days))


def _day(day: date, step: int) -> date:
    try:
        return day + timedelta(days=step)
    except OverflowError:
        return _TODAY


@FAMILY.answers(
    "session",
    "three pages, whose links carry a new session id each time",
    "sees the same pages under new ids, and stops",
)
def session(exchange: Exchange) -> Answer:
    given = exchange.request.parameters
    number, code = given.get("page", "1"), _code(exchange.request.target)
    paths = (f"/nasty/trap/session?{urlencode({'page': page, 'PHPSESSID': code})}" for page in (1, 2, 3))
    return _trap(f"Page {number}", *paths)


@FAMILY.answers(
    "deeper", "each page links to itself, one folder deeper: /a/b/a/b/…", "sees the segments repeat, and stops"
)
def deeper(exchange: Exchange) -> Answer:
    path = exchange.request.path if len(exchange.request.path) < 8_000 else "/nasty/trap/deeper"
    return _trap("Deeper", f"{path}/news", f"{path}/shop")


@FAMILY.answers(
    "relative",
    "a relative link that grows: `page/`, on a page that answers for every path",
    "sees the segments repeat, and stops",
)
def relative(exchange: Exchange) -> Answer:
    return ok("Relative", '<a href="page/">page</a> <a href="../relative/">up</a>')


@FAMILY.answers(
    "facets",
    "a search with filters: every combination, in every order, is a link, and there is always another price",
    _CAP,
)
def facets(exchange: Exchange) -> Answer:
    chosen = [pair.partition("=")[::2] for pair in exchange.request.query.split("&") if pair][:8]
    links = [
        f"/nasty/trap/facets?{urlencode([*chosen, (name, value)])}"
        for name, values in _FACETS.items()
        for value in values
        if (name, value) not in chosen
    ]
    links.append(f"/nasty/trap/facets?{urlencode([*chosen[:7], ('price', _code(exchange.request.target)[:6])])}")
    return _trap(f"{len(chosen)} filters", *links)


@FAMILY.answers("counter", "page N links to page N + 1", _CAP)
def counter(exchange: Exchange) -> Answer:
    last = exchange.request.parameters.get("n", "0")
    number = int(last) + 1 if is_number(last) else 1
    return _trap(f"Number {number}", f"/nasty/trap/counter?n={number}")


@FAMILY.answers("words", "links of words that are made up, each page five new ones", _CAP)
def words(exchange: Exchange) -> Answer:
    return _trap("Words", *(f"/nasty/trap/words/{_code(f'{exchange.request.target}{number}')}" for number in range(5)))


@FAMILY.answers(
    "soft",
    "every path below it is a page that says “not found” with 200, and has links",
    "recognises the same page again, and stops",
)
def soft(exchange: Exchange) -> Answer:
    code = _code(exchange.request.target)
    return ok("Not found", f'<p>Sorry, no such page.</p><a href="/nasty/trap/soft/{code}">Perhaps this?</a>')


@FAMILY.answers("hosts", "links to ever new subdomains of this host", "stays on the host, or has a cap on hosts")
def hosts(exchange: Exchange) -> Answer:
    code = _code(exchange.request.host + exchange.request.path)[:6]
    return ok("Mirrors", f'<a href="http://{code}.{exchange.request.host[-200:]}/nasty/trap/hosts">mirror</a>')
