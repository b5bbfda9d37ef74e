"""Sites that refuse: too many requests, overload, block pages, captchas."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from crawlfleet.demo_shop.http_messages import write_response
from testkit.site.connection import Answer, Exchange
from testkit.site.nasty.behaviour import Family, ok, simple_page

FAMILY = Family("refuse")
MOST_PER_SECOND = 5
BAN_AFTER = 10
_BACKS_OFF = "tells the budget of the host at once; all nodes wait as long as it says, then go on"
_FAILED = "counts the page as failed, does not try again"
_WALL = simple_page("Access denied", '<div class="wall">Your request was blocked. Reference #18.a1b2c3</div>')
_CAPTCHA = (
    '<p>Please verify that you are a human.</p><form action="/captcha"><div class="g-recaptcha" data-sitekey="x"></div>'
    '<script src="https://www.google.com/recaptcha/api.js"></script></form>'
)
_CHALLENGE = (
    "<p>Checking your browser before accessing the site.</p><noscript>Please enable JavaScript and cookies</noscript>"
    '<script src="/cdn-cgi/challenge-platform/h/g/orchestrate.js"></script>'
)


def _slowly(exchange: Exchange, *headers: tuple[str, str]) -> Answer:
    """Answer through one rate limit for all requests under one host name."""
    if exchange.memory.is_open(exchange.request.host + exchange.request.path, MOST_PER_SECOND):
        return ok("Welcome")
    return write_response(429, simple_page("Too many requests"), headers)


def _in(seconds: int) -> str:
    # Dates have whole seconds: one more, so that it is not less.
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds + 1), usegmt=True)


@FAMILY.answers("rate", f"429 above {MOST_PER_SECOND} requests in any second, Retry-After: 1", _BACKS_OFF)
def rate(exchange: Exchange) -> Answer:
    return _slowly(exchange, ("Retry-After", "1"))


@FAMILY.answers(
    "rate-silent", f"429 above {MOST_PER_SECOND} in any second, no word how long", "backs off by its own rule"
)
def rate_silent(exchange: Exchange) -> Answer:
    return _slowly(exchange)


@FAMILY.answers("rate-date", f"429 above {MOST_PER_SECOND} in any second, Retry-After as a date", _BACKS_OFF)
def rate_date(exchange: Exchange) -> Answer:
    return _slowly(exchange, ("Retry-After", _in(2)))


@FAMILY.answers("flaky", "503 for the first request of each URL below it, then 200", "tries again, has the page once")
def flaky(exchange: Exchange) -> Answer:
    if exchange.memory.count(f"flaky {exchange.request.host}{exchange.request.target}") == 1:
        return write_response(503, "", [("Retry-After", "0")])
    return ok("Now it works")


@FAMILY.answers(
    "ban",
    f"{BAN_AFTER} pages for each user agent and host name, then 403",
    "notices that a wall came up half-way, and stops",
)
def ban(exchange: Exchange) -> Answer:
    number = exchange.memory.count(f"ban {exchange.request.host} {exchange.request.headers.get('user-agent', '')}")
    if number > BAN_AFTER:
        return write_response(403, _WALL)
    return ok(f"Page {number}", f'<a href="/nasty/refuse/ban/{number + 1}">next</a>')


def _wait(status: int, wait: str) -> bytes:
    return write_response(status, simple_page("Later"), [("Retry-After", wait)])


for _name, _does, _good, _answer in (
    ("429", "429 always, Retry-After: 2", _BACKS_OFF, _wait(429, "2")),
    ("503", "503 always, Retry-After: 2", _BACKS_OFF, _wait(503, "2")),
    (
        "503-silent",
        "503 always, no word how long",
        "backs off by its own rule",
        write_response(503, simple_page("Sorry")),
    ),
    (
        "500",
        "500 always",
        "tries again a few times, then counts it as failed",
        write_response(500, simple_page("Oops")),
    ),
    ("for-ever", "429, Retry-After of ten years", "caps the wait and says so", _wait(429, str(10 * 365 * 86_400))),
    ("broken-wait", "429, Retry-After: soon", "takes it as if there were none", _wait(429, "soon")),
    ("negative-wait", "429, Retry-After: -5", "takes it as if there were none", _wait(429, "-5")),
    ("403", "403 with the page of a wall", "counts a block of this node by this host", write_response(403, _WALL)),
    ("401", "401, asks for a password", _FAILED, write_response(401, "", [("WWW-Authenticate", 'Basic realm="shop"')])),
    ("451", "451 with a page", _FAILED, write_response(451, simple_page("By order of a court"))),
    ("captcha", "200 with a captcha for a page", "sees a block, keeps no item of it", ok("Human?", _CAPTCHA)),
    (
        "challenge",
        "503 with a challenge in JavaScript",
        "sees a block",
        write_response(503, simple_page("Wait", _CHALLENGE)),
    ),
):
    FAMILY.add(_name, _does, _good, _answer)
