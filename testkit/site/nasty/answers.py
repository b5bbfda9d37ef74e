"""Status lines, connections and heads that are allowed, or nearly, and that few clients expect."""

from __future__ import annotations

from crawlfleet.demo_shop.http_messages import write_head, write_response
from testkit.site.connection import Answer, Exchange
from testkit.site.nasty.behaviour import Family, ok, simple_page

FAMILY = Family("answer")
CLOSES_AFTER = 3
_PAGE = simple_page("Odd but fine", "<p>Read me.</p>").encode()
_READS = "reads the page"
_FAILED = "counts the page as failed, does not try again"
_LENGTH = f"Content-Length: {len(_PAGE)}".encode()

for _name, _does, _good, _answer in (
    (
        "404",
        "404 with a page",
        _FAILED,
        write_response(404, simple_page("Not found", '<a href="/nasty/answer/hidden">x</a>')),
    ),
    ("410", "410 with a page", f"{_FAILED}; a recrawl reports it as gone", write_response(410, simple_page("Gone"))),
    (
        "soft-404",
        "“not found” with 200",
        "a page like any; many of them are noticed as the same",
        ok("Page not found", "<p>404</p>"),
    ),
    ("empty", "200 with an empty body", "an empty page, no error", write_response(200)),
    ("204", "204", "an empty page", write_head(204, content_type=None)),
    (
        "206",
        "206 to a request without a range",
        "reads it, or counts it as failed",
        write_response(206, _PAGE, [("Content-Range", f"bytes 0-{len(_PAGE) - 1}/9999")]),
    ),
    ("201", "201 with a page", _READS, write_response(201, _PAGE)),
    ("999", "a status that does not exist", _FAILED, write_response(999, _PAGE)),
    ("1000", "a status of four digits", _FAILED, write_response(1000, _PAGE)),
    ("no-reason", "a status without a word", _READS, b"HTTP/1.1 200\r\n" + _LENGTH + b"\r\n\r\n" + _PAGE),
    ("continue", "100 Continue first, unasked", _READS, b"HTTP/1.1 100 Continue\r\n\r\n" + write_response(200, _PAGE)),
    (
        "hints",
        "103 Early Hints first",
        _READS,
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" + write_response(200, _PAGE),
    ),
    (
        "line-feeds",
        "lines that end with \\n alone",
        "reads the page, or an error of it alone",
        b"HTTP/1.1 200 OK\nContent-Type: text/html\n" + _LENGTH + b"\n\n" + _PAGE,
    ),
    (
        "folded",
        "a header over two lines, the old way",
        "reads the page, or an error of it alone",
        b"HTTP/1.1 200 OK\r\nX-Long: one\r\n two\r\n" + _LENGTH + b"\r\n\r\n" + _PAGE,
    ),
    (
        "bad-header",
        "a header without a colon",
        "reads the page, or an error of it alone",
        b"HTTP/1.1 200 OK\r\nNonsense\r\n" + _LENGTH + b"\r\n\r\n" + _PAGE,
    ),
    ("latin-header", "header values above ASCII", _READS, write_response(200, _PAGE, [("X-Name", "Café")])),
    (
        "upgrade",
        "426, wants another protocol",
        _FAILED,
        write_response(426, _PAGE, [("Upgrade", "h2c"), ("Connection", "Upgrade")]),
    ),
    (
        "switch",
        "101, switches to a protocol that was not asked for",
        "an error of the protocol",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: odd\r\nConnection: Upgrade\r\n\r\n",
    ),
):
    FAMILY.add(_name, _does, _good, _answer)


@FAMILY.answers("http-1.0", "HTTP/1.0 without a length: the end is the end of the connection", _READS)
async def old(exchange: Exchange) -> None:
    await exchange.send(write_head(200, version="HTTP/1.0") + _PAGE)
    exchange.close()


@FAMILY.answers("http-0.9", "HTTP/0.9: no head at all", "an error of the protocol")
async def oldest(exchange: Exchange) -> None:
    await exchange.send(_PAGE)
    exchange.close()


@FAMILY.answers(
    "closes-after",
    f"closes each connection after {CLOSES_AFTER} requests, without a word",
    "opens a new one; no page is lost or counted as failed",
)
async def closes_after(exchange: Exchange) -> None:
    await exchange.send(ok(f"Request {exchange.requests_served}"))
    if exchange.requests_served >= CLOSES_AFTER:
        exchange.close()


@FAMILY.answers("closes-always", "says keep-alive, and closes after every answer", "opens a new one; no page is lost")
async def closes_always(exchange: Exchange) -> None:
    await exchange.send(
        write_response(200, _PAGE, [("Connection", "keep-alive"), ("Keep-Alive", "timeout=60, max=1000")])
    )
    exchange.close()


@FAMILY.answers(
    "closes-next",
    "answers the first request of a connection, and closes at the second, unanswered",
    "tries again on a new connection",
)
def closes_next(exchange: Exchange) -> Answer:
    if exchange.requests_served == 1:
        return write_response(200, _PAGE)

    async def leave() -> None:
        exchange.close()

    return leave()


@FAMILY.answers("agent", "shows the user agent that asked", "says who it is")
def agent(exchange: Exchange) -> Answer:
    user_agent = exchange.request.headers.get("user-agent", "").replace("<", "&lt;")
    return ok("You are", f'<p class="agent">{user_agent}</p>')


@FAMILY.answers(
    "fresh",
    "another ETag and another hidden number each time, the same words",
    "a recrawl may call it changed, by its bytes",
)
def fresh(exchange: Exchange) -> Answer:
    number = exchange.memory.count(f"fresh {exchange.request.host}{exchange.request.target}")
    return write_response(
        200, simple_page("Fresh", f'<input type="hidden" value="{number}"><p>As ever.</p>'), [("ETag", f'"{number}"')]
    )
