"""Content types that are wrong, missing or doubled."""

from __future__ import annotations

from crawlfleet.demo_shop.http_messages import write_response
from testkit.site.feeds import JPEG, PDF
from testkit.site.nasty.behaviour import Family, simple_page

FAMILY = Family("type")
_PAGE = simple_page("A page", '<div class="product"><h2 class="title">Typed</h2></div>')
_JSON = '{"product": {"title": "Typed"}}'
_FILE = "sees by the bytes that this is no page: no items, no links"
_PAGE_GOOD = "sees by the bytes that this is a page, or skips it by its type"

for _name, _does, _good, _answer in (
    ("plain", "HTML as text/plain", _PAGE_GOOD, write_response(200, _PAGE, content_type="text/plain")),
    (
        "octets",
        "HTML as application/octet-stream",
        _PAGE_GOOD,
        write_response(200, _PAGE, content_type="application/octet-stream"),
    ),
    ("none", "HTML without any type", "reads the page", write_response(200, _PAGE, content_type=None)),
    ("empty", "HTML with an empty type", "reads the page", write_response(200, _PAGE, content_type="")),
    (
        "odd",
        "HTML with a type that does not parse",
        "reads the page, or skips it",
        write_response(200, _PAGE, content_type='text/html; charset=;;="; q'),
    ),
    (
        "twice",
        "two types that differ",
        "takes one of them",
        write_response(200, _PAGE, [("Content-Type", "image/png")]),
    ),
    (
        "xhtml",
        "a page as application/xhtml+xml",
        "reads the page",
        write_response(200, _PAGE, content_type="application/xhtml+xml"),
    ),
    ("pdf", "a PDF as text/html", _FILE, write_response(200, PDF)),
    ("jpeg", "a picture as text/html", _FILE, write_response(200, JPEG)),
    ("json", "JSON as text/html", "no links, no items by selectors", write_response(200, _JSON)),
    (
        "download",
        "a page that is to be saved",
        "skips it, or reads it as a page",
        write_response(200, _PAGE, [("Content-Disposition", 'attachment; filename="../../etc/passwd"')]),
    ),
):
    FAMILY.add(_name, _does, _good, _answer)
