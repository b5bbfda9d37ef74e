"""Redirects: in loops, without end, to forbidden targets, and to nowhere."""

from __future__ import annotations

from crawlfleet.demo_shop.http_messages import is_number, write_head, write_response
from testkit.site.connection import Answer, Exchange
from testkit.site.nasty.behaviour import Family, moved, ok

FAMILY = Family("redirect")
CHAIN = 50
_STOPS = "stops after a few hops, and counts the page as failed"
_POLICY = "checks each hop as it checks a start: refused, and nothing is asked there"
_NOWHERE = "counts the page as failed"
_ARRIVES = "arrives at `/nasty/redirect/end`"
_END = "/nasty/redirect/end"

FAMILY.add("end", "where good redirects end", "reads the page", ok("The end"))


@FAMILY.answers("loop", "two pages that redirect to each other", _STOPS)
def loop(exchange: Exchange) -> Answer:
    return moved("/nasty/redirect/loop" if exchange.request.path.endswith("/back") else "/nasty/redirect/loop/back")


@FAMILY.answers(
    "chain", f"`/chain/N` is N redirects long; without N, {CHAIN}", "arrives where N is small, stops where it is not"
)
def chain(exchange: Exchange) -> Answer:
    last = exchange.request.path.rpartition("/")[2]
    left = int(last) if is_number(last) else CHAIN
    return moved(f"/nasty/redirect/chain/{left - 1}" if left > 1 else _END)


@FAMILY.answers("endless", "each redirect leads to a URL that was never seen", _STOPS)
def endless(exchange: Exchange) -> Answer:
    last = exchange.request.path.rpartition("/")[2]
    return moved(f"/nasty/redirect/endless/{int(last) + 1 if is_number(last) else 1}")


@FAMILY.answers("growing", "each redirect makes the URL longer", _STOPS)
def growing(exchange: Exchange) -> Answer:
    return moved(f"{exchange.request.target}/and-on"[-60_000:])


@FAMILY.answers("protocol-relative", "to `//HOST/…`", _ARRIVES)
def protocol_relative(exchange: Exchange) -> Answer:
    return moved(f"//{exchange.request.host}{_END}")


@FAMILY.answers("absolute", "to `http://HOST/…`", _ARRIVES)
def absolute(exchange: Exchange) -> Answer:
    return moved(f"{exchange.request.origin}{_END}")


@FAMILY.answers("user", "to an address with a user and a password in it", "arrives, and sends no password to anybody")
def user(exchange: Exchange) -> Answer:
    return moved(f"http://admin:secret@{exchange.request.host}{_END}")


@FAMILY.answers("cookie", "to itself, until a cookie is sent that it sets", "arrives, or stops after a few hops")
def cookie(exchange: Exchange) -> Answer:
    if exchange.request.cookies.get("seen") == "yes":
        return ok("Seen")
    return write_response(302, "", [("Location", exchange.request.path), ("Set-Cookie", "seen=yes; Path=/")])


for _name, _does, _good, _location in (
    ("self", "to itself", _STOPS, "/nasty/redirect/self"),
    ("relative", "to a relative address", _ARRIVES, "end"),
    ("dots", "to an address with dots", _ARRIVES, "./../redirect/./end"),
    ("query", "to a query alone, of itself", _STOPS, "?again=1"),
    ("fragment", "to an address with a fragment", _ARRIVES, f"{_END}#part"),
    ("spaces", "to an address with spaces around it", _ARRIVES, f"  {_END}  "),
    ("other-host", "to another host", "follows only when the rules allow that host", "http://other.example/"),
    ("secure", "to https, where nothing listens", _NOWHERE, "https://127.0.0.1:1/"),
    ("loopback", "to 127.0.0.1", _POLICY, "http://127.0.0.1:1/"),
    ("loopback-name", "to localhost", _POLICY, "http://localhost:1/"),
    ("loopback-6", "to [::1]", _POLICY, "http://[::1]:1/"),
    ("mapped", "to 127.0.0.1, written as IPv6", _POLICY, "http://[::ffff:127.0.0.1]:1/"),
    ("decimal", "to 127.0.0.1, written as one number", _POLICY, "http://2130706433:1/"),
    ("octal", "to 127.0.0.1, written in octal", _POLICY, "http://0177.0.0.1:1/"),
    ("any", "to 0.0.0.0", _POLICY, "http://0.0.0.0:1/"),
    ("metadata", "to the metadata service of a cloud", _POLICY, "http://169.254.169.254/latest/meta-data/"),
    ("private", "to a private network", _POLICY, "http://10.0.0.1/"),
    ("file", "to a file", _POLICY, "file:///etc/passwd"),
    ("javascript", "to a script", _POLICY, "javascript:alert(1)"),
    ("data", "to data", _POLICY, "data:text/html,<title>x</title>"),
    ("ftp", "to FTP", _POLICY, "ftp://127.0.0.1/x"),
    ("gopher", "to gopher, which speaks to Redis", _POLICY, "gopher://127.0.0.1:6379/_FLUSHALL"),
    ("broken", "to what is no URL", _NOWHERE, "http://[broken/"),
    ("port", "to a port that does not exist", _NOWHERE, "http://127.0.0.1:99999/"),
    ("empty", "to an empty address", _NOWHERE, ""),
    ("huge", "to an address of 500 KB", _NOWHERE, "/" + "a" * 500_000),
):
    FAMILY.add(_name, _does, _good, moved(_location))

FAMILY.add("none", "302 without an address", _NOWHERE, write_response(302, "lost"))
FAMILY.add(
    "300",
    "300 with a choice of two",
    "takes none, or the first",
    write_response(300, f'<a href="{_END}">one</a><a href="/">two</a>'),
)
FAMILY.add("304", "304 to a request without a condition", _NOWHERE, write_head(304, content_type=None))
FAMILY.add("307", "307 to the end", _ARRIVES, moved(_END, 307))
FAMILY.add("308", "308 to the end", _ARRIVES, moved(_END, 308))
FAMILY.add("303", "303 to the end", _ARRIVES, moved(_END, 303))
FAMILY.add(
    "bytes",
    "to an address of raw bytes above ASCII",
    "arrives at the soft 404, or counts it as failed",
    write_head(302, [("Location", "/nasty/answer/soft-404/café"), ("Content-Length", "0")]),
)
FAMILY.add(
    "twice",
    "two addresses",
    "takes one of them, or none",
    write_response(302, "", [("Location", _END), ("Location", "http://169.254.169.254/")]),
)
FAMILY.add(
    "body",
    "302 whose body is 1 MB",
    "does not keep the body, arrives",
    write_response(302, b"x" * 1_000_000, [("Location", _END)]),
)
FAMILY.add(
    "refresh",
    "a Refresh header",
    "follows it, or not at all",
    write_response(200, "<title>Soon</title>", [("Refresh", f"0; url={_END}")]),
)
