"""Block detection recognises block pages: pages sent in place of the real one because a site takes us for a robot.

They are recognised by traces that the common products leave in their answers. With a status of 4xx or 5xx any trace is
enough. An answer of 200 is a page until proven otherwise: good pages carry captchas in their forms and scripts of these
very products, so only traces that occur on challenges alone count, or a captcha together with the words that ask for
it, on a page that has little else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from selectolax.lexbor import LexborHTMLParser

LOOK_AT_BYTES = 24 << 10
"""Limit on the size of a page with status 200 that is examined: challenges are small."""
SUSPECT = frozenset({401, 403, 405, 406, 429, 430, 468, 503, 520, 999})
"""Statuses whose body is examined: block pages use them all."""

_HEADERS = (
    ("cf-mitigated", "Cloudflare"),
    ("x-amzn-waf-action", "AWS WAF"),
    ("x-dd-b", "DataDome"),
    ("x-sucuri-block", "Sucuri"),
)
"""Headers that occur on no answer but a block, with their product."""
_HEADERS_OF_SITES = (("x-datadome", "DataDome"), ("x-kpsdk-ct", "Kasada"))
"""Headers that occur also on good pages of the sites behind a product."""
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
"""Traces that occur on no page but a challenge, with their product."""
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
"""Traces that occur also on good pages, with their product."""
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


def detect_block_product(status: int, headers: Mapping[str, str], body: bytes) -> str | None:
    """Return the product that made a block page; None for any other answer. Names in `headers` match in any case."""
    for name, product in _HEADERS if status < 400 else (*_HEADERS, *_HEADERS_OF_SITES):
        if name in headers:
            return product
    if len(body) > LOOK_AT_BYTES and status < 400:
        return None
    for trace, product in _CHALLENGES:
        if trace in body:
            return product
    if status >= 400:
        for trace, product in _TRACES:
            if trace in body:
                return product
    if not any(trace in body for trace in _CAPTCHAS) or _WORDS.search(body) is None:
        return None
    return "captcha" if status >= 400 or _count_words(body) < LITTLE_WORDS else None


def _count_words(body: bytes) -> int:
    """Return the number of words that people see on a page."""
    tree = LexborHTMLParser(body)
    tree.strip_tags(["script", "style", "noscript"])
    return 0 if tree.body is None else len(tree.body.text(separator=" ").split())
