"""Variants of robots.txt. A host name of the form `robots-NAME.anything` has that variant; each is also under its path.

A good crawler follows RFC 9309: redirects are followed five times, 4xx allows everything, 5xx and silence forbid
everything, at least 500 KiB are read.
"""

from __future__ import annotations

import asyncio
from itertools import repeat

from crawlfleet.demo_shop.http_messages import TEXT, write_head, write_response
from testkit.site.connection import Answer, Exchange
from testkit.site.nasty.behaviour import Family, moved, simple_page

FAMILY = Family("robots")
HUGE_BYTES = 5_000_000
_ALL = "crawls everything"
_NONE = "crawls nothing, says why, asks again later"
_RULES = "User-agent: *\nDisallow: /products/1\nAllow: /products/10\n"
_LINE = "Disallow: /nothing/of/the/kind/here\n"
_SLOW_S = 1.0
_SITEMAPS = (
    "loop",
    "self",
    "endless",
    "nested",
    "broken",
    "cut-gzip",
    "bomb",
    "entities",
    "html",
    "404",
    "foreign",
    "big",
)


def _text(text: str | bytes) -> bytes:
    return write_response(200, text, content_type=TEXT)


def _huge() -> bytes:
    """Return a robots.txt with a rule at the start, and one after five megabytes."""
    start = "User-agent: *\nDisallow: /products/1\n"
    return _text(start + _LINE * (HUGE_BYTES // len(_LINE)) + "Disallow: /products/2\n")


_WILDCARDS = """\
User-agent: *
Disallow: /*?sort=
Disallow: /*.pdf$
Disallow: /products/*/reviews
Disallow: /category/*page=*
Allow: /category/kitchen*page=2$
Disallow: /%70rivate/
"""
_AGENTS = """\
User-agent: otherbot
User-agent: crawlfleet
Disallow: /about

User-agent: *
Disallow: /

user-AGENT: Crawlfleet
disallow: /help
"""
_ODD = (
    "\ufeffUser-agent: *\r\nDisallow: /about # a comment\rDisallow:/help\n\nNonsense without colon\nDisallow\n"
    "Crawl-delay: soon\nDisallow:\nNoindex: /x\nUSER-AGENT : otherbot\nDisallow: /\n"
)

for _name, _does, _good, _answer in (
    ("404", "404", _ALL, write_response(404, simple_page("Not found"))),
    ("403", "403", _ALL, write_response(403, simple_page("Forbidden"))),
    ("401", "401", _ALL, write_response(401, "")),
    ("429", "429, Retry-After: 1", "waits, then asks again", write_response(429, "", [("Retry-After", "1")])),
    ("500", "500", _NONE, write_response(500, simple_page("Oops"))),
    ("503", "503", _NONE, write_response(503, "", [("Retry-After", "1")])),
    ("empty", "200 with nothing in it", _ALL, _text("")),
    (
        "nothing",
        "`Disallow: /` for all",
        "asks for robots.txt and for nothing else",
        _text("User-agent: *\nDisallow: /\n"),
    ),
    ("rules", "a rule, and a longer one that allows more", "obeys the longer", _text(_RULES)),
    ("wildcards", "rules with `*` and `$`", "obeys them, in linear time", _text(_WILDCARDS)),
    (
        "slow-pattern",
        "a rule of 5,000 stars",
        "answers in linear time",
        _text("User-agent: *\nDisallow: /" + "*a" * 5_000 + "$\n"),
    ),
    (
        "agents",
        "groups for several agents, one of them twice",
        "joins the groups of its own name, and takes no other",
        _text(_AGENTS),
    ),
    (
        "odd",
        "a byte order mark, three kinds of line ends, lines that mean nothing",
        "obeys what can be read",
        _text(_ODD),
    ),
    ("html", "200 with a page of HTML", _ALL, write_response(200, simple_page("Welcome", "<p>User-agent: nobody</p>"))),
    ("binary", "200 with null bytes and no text", _ALL, _text(bytes(range(256)) * 40)),
    ("utf-16", "rules in UTF-16", "obeys them or crawls everything, and does not fail", _text(_RULES.encode("utf-16"))),
    (
        "delay",
        "Crawl-delay: 0.5",
        "waits half a second between requests, over all nodes",
        _text("User-agent: *\nCrawl-delay: 0.5\n"),
    ),
    ("long-delay", "Crawl-delay of a day", "caps it, and says so", _text("User-agent: *\nCrawl-delay: 86400\n")),
    ("redirect", "redirected twice, to rules", "obeys the rules", moved("/nasty/robots/redirect-2", 301)),
    ("redirect-2", "the second of those redirects", "as above", moved("/nasty/robots/rules", 302)),
    ("redirect-loop", "redirected to itself", f"{_ALL}, after five redirects", moved("/nasty/robots/redirect-loop")),
    (
        "redirect-private",
        "redirected to a metadata service",
        f"{_ALL} or nothing, and asks nothing there",
        moved("http://169.254.169.254/robots.txt"),
    ),
):
    FAMILY.add(_name, _does, _good, _answer)
FAMILY.add(
    "huge",
    "5 MB of rules: one at the start, one at the end",
    "reads 500 KiB at least, obeys the first",
    lambda _: _huge(),
)


@FAMILY.answers(
    "sitemaps", "names the broken sitemaps of this site", "reads what is good in them, in bounded time and memory"
)
def sitemaps(exchange: Exchange) -> Answer:
    lines = "".join(f"Sitemap: {exchange.request.origin}/nasty/sitemap/{name}\n" for name in _SITEMAPS)
    return _text(f"{lines}User-agent: *\nDisallow: /private/\n")


@FAMILY.answers("endless", "a rule, then comments without end", "stops at its limit, obeys the rule")
async def endless(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Connection", "close")], TEXT) + b"User-agent: *\nDisallow: /products/1\n")
    for block in repeat(b"# and so on\n" * 5_000):
        await exchange.send(block)


@FAMILY.answers("stall", "says nothing, for ever", _NONE)
async def stall(exchange: Exchange) -> None:
    await exchange.hang()


@FAMILY.answers("slow", f"rules, after {_SLOW_S:.0f} second", "waits for it before the first page")
async def slow(exchange: Exchange) -> None:
    await asyncio.sleep(_SLOW_S)
    await exchange.send(_text(_RULES))


@FAMILY.answers("reset", "resets the connection", _NONE)
async def reset(exchange: Exchange) -> None:
    exchange.reset()


_BY_NAME = {it.path.rpartition("/")[2]: it for it in FAMILY.behaviours}
VARIANTS = ("shop", *_BY_NAME)
"""Names of the variants; `shop` is that of the shop itself."""


def robots_answer(exchange: Exchange, default: str, of_shop: str) -> Answer:
    label = exchange.request.label
    name = label.removeprefix("robots-") if label.startswith("robots-") else default
    variant = _BY_NAME.get(name)
    return _text(of_shop) if variant is None else variant.answer(exchange)
