"""Walls: pages that stand where the page should be, because somebody takes us for a robot.

Known by what the common products leave in their answers. On an answer of 4xx or 5xx any trace is enough. An answer of
200 is a page until proven otherwise: good pages carry captchas in their forms and scripts of these very products, so
only traces that stand on challenges alone count, or a captcha together with the words that ask for it, on a page that
has little else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from selectolax.lexbor import LexborHTMLParser

LOOK_AT_BYTES = 24 << 10
"""Challenges are small: a larger page with 200 is not looked at."""
SUSPECT = frozenset({401, 403, 405, 406, 429, 430, 468, 503, 520, 999})
"""Answers whose body is worth a look: walls use them all."""

_HEADERS = (
    ("cf-mitigated", "Cloudflare"),
    ("x-amzn-waf-action", "AWS WAF"),
    ("x-dd-b", "DataDome"),
    ("x-sucuri-block", "Sucuri"),
)
"""On no answer but a block."""
_HEADERS_OF_SITES = (("x-datadome", "DataDome"), ("x-kpsdk-ct", "Kasada"))
"""Also on good pages of the sites behind them."""
_CHALLENGES = (
    (b"window._cf_chl_opt", "Cloudflare"),
    (b"cf-browser-verification", "Cloudflare"),
    (b"geo.captcha-delivery.com", "DataDome"),
    (b"ct.captcha-delivery.com", "DataDome"),
    (b'id="px-captcha"', "HUMAN"),
    (b"/_Incapsula_Resource?", "Imperva"),
    (b"Incapsula incident ID", "Imperva"),
    (b"window.gokuProps", "AWS WAF"),
    (b"/_sec/cp_challenge/", "Akamai"),
    (b"sec-if-cpt-container", "Akamai"),
    (b"var arg1='", "Aliyun"),
    (b"/_____tmd_____/punish", "Aliyun"),
    (b"/errors/validateCaptcha", "Amazon"),
    (b"wappass.baidu.com/static/captcha", "Baidu"),
    (b"/ips.js?KP_UIDz", "Kasada"),
    (b"check.ddos-guard.net", "DDoS-Guard"),
    (b"/recaptcha/challengepage/", "reCAPTCHA"),
)
"""On no page but a challenge."""
_TRACES = (
    (b"/cdn-cgi/challenge-platform/", "Cloudflare"),
    (b"Attention Required! | Cloudflare", "Cloudflare"),
    (b"cf-error-details", "Cloudflare"),
    (b"errors.edgesuite.net", "Akamai"),
    (b"Sucuri WebSite Firewall", "Sucuri"),
    (b"_pxAppId", "HUMAN"),
    (b"captcha-delivery.com", "DataDome"),
    (b"ddos-guard", "DDoS-Guard"),
)
"""Also on good pages."""
_CAPTCHAS = (
    b"g-recaptcha",
    b"/recaptcha/api",
    b"h-captcha",
    b"hcaptcha.com",
    b"cf-turnstile",
    b"TencentCaptcha",
    b"geetest",
    b"arkoselabs.com",
    b"captcha",
)
_WORDS = re.compile(
    rb"verify (that )?you('re| are) (a |not a )?(human|robot)|are you a (human|robot)|not a robot"
    rb"|unusual traffic|checking your browser|complete the security check|press (and|&amp;|&) hold"
    rb"|automated (access|requests|queries)|\xe5\xae\x89\xe5\x85\xa8\xe9\xaa\x8c\xe8\xaf\x81",
    re.IGNORECASE,
)
LITTLE_WORDS = 200


def wall_of(status: int, headers: Mapping[str, str], body: bytes) -> str | None:
    """Whose wall this answer is; None for an answer that is none. `headers` are looked up without regard to case."""
    for name, whose in _HEADERS if status < 400 else (*_HEADERS, *_HEADERS_OF_SITES):
        if name in headers:
            return whose
    if len(body) > LOOK_AT_BYTES and status < 400:
        return None
    for trace, whose in _CHALLENGES:
        if trace in body:
            return whose
    if status >= 400:
        for trace, whose in _TRACES:
            if trace in body:
                return whose
    if not any(trace in body for trace in _CAPTCHAS) or _WORDS.search(body) is None:
        return None
    return "captcha" if status >= 400 or _words_on(body) < LITTLE_WORDS else None


def _words_on(body: bytes) -> int:
    """How many words people see."""
    tree = LexborHTMLParser(body)
    tree.strip_tags(["script", "style", "noscript"])
    return 0 if tree.body is None else len(tree.body.text(separator=" ").split())
