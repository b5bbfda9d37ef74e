"""HTML that is broken, deep, huge, or full of things that only look like links."""

from __future__ import annotations

from crawlfleet.demo_shop.http_messages import write_head, write_response
from testkit.site.connection import Exchange
from testkit.site.nasty.behaviour import Family, ok, simple_page

FAMILY = Family("markup")
DEPTH = 100_000
LINE_BYTES = 100_000_000
LINKS = 100_000
FAKE = "/nasty/markup/fake"
"""Path to which everything leads that only looks like a link: no crawler should request it."""
REAL = "/nasty/answer/empty"
_LIMITED = "reads it, or stops at a limit, in bounded time and memory"
_BLOCK = b"never a tag " * 5_000

_BROKEN = f"""<title>Broken<body><p><b>one<p></i>two</b><table><tr><td><div class=product><h2 class=title>Broken
<td><a href={REAL}>unquoted<a href='{REAL}?b' title="it's">quoted</a></table><li>three</ul></p></html>
<p>after the end"""
_ENDS = '<title>Ends</title><p>Text<a href="/nasty/answer/empty'
_FAKES = f"""
<!-- <a href="{FAKE}?comment">x</a> --> <script>var a = '<a href="{FAKE}?script">x</a>';</script>
<style>a {{ background: url({FAKE}?style) }} /* <a href="{FAKE}?css"> */</style>
<textarea><a href="{FAKE}?textarea">x</a></textarea> <noscript><p>no</p></noscript>
<p title='<a href="{FAKE}?attribute">x</a>'>y</p> <xmp><a href="{FAKE}?xmp">x</a></xmp>
<title><a href="{FAKE}?title">x</a></title>
&lt;a href="{FAKE}?entity"&gt; <template><a href="{FAKE}?template">x</a></template>
<a data-href="{FAKE}?data" name="{FAKE}?name">x</a> <a href="{REAL}">the only link</a>
"""
_ODD = "".join(
    f'<a href="{href}">x</a>\n'
    for href in (
        "  /nasty/answer/empty\n",
        "/nasty/ans\nwer/em\tpty",
        "\\nasty\\answer\\empty",
        "/nasty/answer/empty?q=%zz",
        "/nasty/answer/empty?ü=ö",
        "/nasty/answer/empty?a=1&b=2&amp;c=3",
        "/nasty/answer/empty#" + "f" * 5_000,
        "http:///x",
        "http://",
        "//",
        "///",
        "?",
        "#",
        "http:/nasty/answer/empty",
        "http://[::1",
        "http://a b/",
        "http://%00/",
        ":",
        "::",
        "http://exa mple.com:99999999/",
        "HtTp://EXAMPLE.com./",
        "http://" + "a" * 300 + ".example/",
        "x" * 100_000,
        "\x00",
        "java\nscript:alert(1)",
        "javascript&colon;alert(1)",
        "vbscript:x",
        "blob:x",
        "about:blank",
        "view-source:http://x/",
    )
)
_BASES = (
    '<base href="http://other.example/"><base href="/nasty/">',
    "<p>The first base counts, and moves every link off the host.</p><a href='x'>x</a>",
)

for _name, _does, _good, _answer in (
    (
        "broken",
        "tags that do not close, or close what is not open",
        "finds both links and the product",
        write_response(200, _BROKEN),
    ),
    ("ends", "ends in the middle of an attribute", "reads the title, follows no half link", write_response(200, _ENDS)),
    ("text", "no tag at all", "a page without links", write_response(200, "Only words.")),
    ("empty-tags", "only `<`, a million times", _LIMITED, lambda _: write_response(200, "<" * 1_000_000)),
    (
        "nulls",
        "null bytes between and inside tags",
        "reads the title without them, follows the link",
        write_response(200, f'<ti\0tle>x</ti\0tle><title>N\0ull</title><p>\0</p><a href="{REAL}">x</a>' + "\0" * 1_000),
    ),
    (
        "deep",
        f"{DEPTH:,} divs in each other",
        "does not recurse: a page like any, or an error of it alone",
        lambda _: ok("Deep", "<div>" * DEPTH + f'<a href="{REAL}">bottom</a>' + "</div>" * DEPTH),
    ),
    (
        "deep-inline",
        "20,000 open formatting tags, which a parser opens again in each paragraph",
        _LIMITED,
        lambda _: ok("Deep", "".join(f"<b a={number}>" for number in range(20_000)) + "<p>x" * 500),
    ),
    (
        "attributes",
        "one tag with 100,000 attributes",
        _LIMITED,
        lambda _: ok("Many", "<p " + " ".join(f"a{number}={number}" for number in range(100_000)) + ">x</p>"),
    ),
    (
        "links",
        f"{LINKS:,} links on one page",
        "stops at its limit of URLs, or holds them in bounded memory",
        lambda _: ok("Links", "".join(f'<a href="/nasty/answer/soft-404/{number}">x</a>' for number in range(LINKS))),
    ),
    ("fake-links", "what only looks like links", "follows one link, the only one", write_response(200, _FAKES)),
    (
        "odd-links",
        "links that no URL parser likes",
        "follows those that a browser would, ignores the rest",
        ok("Odd", _ODD),
    ),
    (
        "bases",
        "two bases, the first to another host",
        "takes the first",
        write_response(200, "<head>" + "".join(_BASES)),
    ),
    (
        "base-script",
        "a base that is a script",
        "takes the page's own address",
        write_response(200, f'<head><base href="javascript:alert(1)//"></head><a href="{REAL}">x</a>'),
    ),
    (
        "refresh",
        "a meta refresh to another page",
        "follows it as a link or a redirect, or not at all",
        write_response(200, f'<meta http-equiv="refresh" content="0; url={REAL}"><title>Moved</title>'),
    ),
    (
        "refresh-self",
        "a meta refresh to itself",
        "does not run in circles",
        write_response(200, '<meta http-equiv="refresh" content="0"><title>Again</title>'),
    ),
    ("title", "a title of a million letters", "cuts it", lambda _: ok("a" * 1_000_000)),
    (
        "entities",
        "entities without end or meaning",
        "reads the page",
        ok("E", "&amp;" * 50_000 + "&nope; &#x110000; &#0; &#99999999999; &amp"),
    ),
    (
        "comment",
        "a comment that is never closed",
        "reads the title",
        write_response(200, simple_page("Open").replace("<h1>", "<!-- <h1>")),
    ),
    (
        "svg",
        "links in SVG and MathML",
        "follows the link after them",
        write_response(
            200,
            "<title>S</title><svg>"
            f'<a xlink:href="{REAL}?svg"><title>no</title></a></svg><math><mi></math><a href="{REAL}">x</a>',
        ),
    ),
):
    FAMILY.add(_name, _does, _good, _answer)


@FAMILY.answers("one-line", f"{LINE_BYTES // 1_000_000} MB in one line without a tag", "stops at its limit of bytes")
async def one_line(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Content-Length", str(LINE_BYTES))]))
    for offset in range(0, LINE_BYTES, len(_BLOCK)):
        await exchange.send(_BLOCK[: LINE_BYTES - offset])
