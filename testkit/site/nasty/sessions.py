"""Cookies and logins that a site requires."""

from __future__ import annotations

from urllib.parse import parse_qs

from crawlfleet.demo_shop.http_messages import write_response
from testkit.site.connection import Answer, Exchange
from testkit.site.nasty.behaviour import Family, moved, ok, simple_page

FAMILY = Family("session")
USER, PASSWORD = "crawler", "open-sesame"
_FORM = (
    '<form method="post" action="/nasty/session/login"><input name="user">'
    '<input name="password" type="password"></form>'
)


@FAMILY.answers(
    "cookie",
    "sends everybody without its cookie round by `/set`, which sets it",
    "keeps cookies in a session, and reads the page",
)
def cookie(exchange: Exchange) -> Answer:
    if exchange.request.path.endswith("/set"):
        back = "/nasty/session/cookie"
        return write_response(
            302, "", [("Location", back), ("Set-Cookie", "visitor=17; Path=/nasty; HttpOnly; SameSite=Lax")]
        )
    return ok("Welcome back") if exchange.request.cookies.get("visitor") == "17" else moved("/nasty/session/cookie/set")


@FAMILY.answers(
    "login",
    f"takes `user={USER}` and `password={PASSWORD}` by POST, and sets a cookie",
    "logs in where it was told how",
)
def login(exchange: Exchange) -> Answer:
    if exchange.request.method != "POST":
        return ok("Log in", _FORM)
    given = parse_qs(exchange.request.body.decode("latin-1"))
    if given.get("user") != [USER] or given.get("password") != [PASSWORD]:
        return write_response(403, simple_page("Wrong", _FORM))
    return write_response(
        303, "", [("Location", "/nasty/session/members"), ("Set-Cookie", "member=yes; Path=/; HttpOnly")]
    )


@FAMILY.answers(
    "members",
    "a page for those who have logged in; others are sent to the login",
    "without a login: no item, and the reason is said",
)
def members(exchange: Exchange) -> Answer:
    return ok("Members") if exchange.request.cookies.get("member") == "yes" else moved("/nasty/session/login")


@FAMILY.answers("wall", "200 with a login form where the page should be", "keeps no item of the form")
def wall(exchange: Exchange) -> Answer:
    return ok("Members") if exchange.request.cookies.get("member") == "yes" else ok("Please log in", _FORM)


@FAMILY.answers("echo", "shows the cookies that were sent", "sends only what belongs to this host and path")
def echo(exchange: Exchange) -> Answer:
    names = " ".join(sorted(exchange.request.cookies))
    return ok("Cookies", f'<p class="cookies">{names}</p>')


_FOREIGN = [
    ("Set-Cookie", "foreign=1; Domain=other.example"),
    ("Set-Cookie", "suffix=1; Domain=com"),
    ("Set-Cookie", "gone=1; Max-Age=0"),
    ("Set-Cookie", "old=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT"),
    ("Set-Cookie", "elsewhere=1; Path=/nowhere"),
    ("Set-Cookie", "secure=1; Secure"),
    ("Set-Cookie", "=nameless"),
    ("Set-Cookie", "\x01odd=\x02"),
]
FAMILY.add(
    "foreign",
    "cookies of other hosts, of `com`, expired, for another path, without a name",
    "sends none of them to `/nasty/session/echo`",
    write_response(200, simple_page("Foreign"), _FOREIGN),
)
FAMILY.add(
    "many",
    "1,000 cookies of 100 bytes",
    "keeps a bounded number, and its requests stay small",
    write_response(200, simple_page("Many"), [("Set-Cookie", f"c{at}={'x' * 90}; Path=/") for at in range(1_000)]),
)
