"""Charsets: the declaration in the header, the declaration in the page, and the encoding of the bytes disagree."""

from __future__ import annotations

from dataclasses import dataclass

from crawlfleet.demo_shop.http_messages import write_response
from testkit.site.nasty.behaviour import Family

FAMILY = Family("charset")
LATE_BYTES = 5_000


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a charset."""

    name: str
    does: str
    text: str
    """Title that a good crawler reads; U+FFFD stands for characters that cannot be known."""
    raw: bytes
    content_type: str = "text/html"


def _page(text: str, meta: str = "", before: str = "") -> str:
    body = f'<body><p class="said">{text}</p></body>'
    return f"<!doctype html><html><head>{before}{meta}<title>{text}</title></head>{body}</html>"


def _meta(charset: str) -> str:
    return f'<meta charset="{charset}">'


_CAFE, _TEA, _SHOP, _BOOK = "Crème brûlée à la carte", "茶壶商店", "ショップへようこそ", "Книга о вкусной пище"
_EQUIV = '<meta http-equiv="Content-Type" content="text/html; charset=shift_jis">'
_MIXED = _page("Crème").encode().replace(b"<body>", b"<body><p>" + "Brûlée".encode("cp1252") + b"</p>")

CASES = (
    Case(
        "header",
        "the header is right, the page says another",
        _TEA,
        _page(_TEA, _meta("utf-8")).encode("gbk"),
        "text/html; charset=gbk",
    ),
    Case("meta", "only the page says it", _TEA, _page(_TEA, _meta("gb2312")).encode("gbk")),
    Case("http-equiv", "only the page says it, the old way", _SHOP, _page(_SHOP, _EQUIV).encode("shift_jis")),
    Case(
        "quoted",
        "the header's charset in quotes and capitals",
        _CAFE,
        _page(_CAFE).encode("cp1252"),
        'text/html; Charset="WINDOWS-1252"',
    ),
    Case(
        "bom",
        "a byte order mark outranks the header",
        _CAFE,
        _page(_CAFE).encode("utf-8-sig"),
        "text/html; charset=iso-8859-1",
    ),
    Case("utf-16", "UTF-16 with a mark and no word", _SHOP, _page(_SHOP).encode("utf-16")),
    Case(
        "utf-16-header",
        "UTF-16 without a mark, by the header",
        _SHOP,
        _page(_SHOP).encode("utf-16-le"),
        "text/html; charset=utf-16le",
    ),
    Case(
        "utf-16-meta", "the page says UTF-16 in UTF-8, which cannot be", _CAFE, _page(_CAFE, _meta("utf-16")).encode()
    ),
    Case(
        "wrong-header",
        "the header says UTF-8, the bytes are Windows-1252",
        _CAFE,
        _page(_CAFE).encode("cp1252"),
        "text/html; charset=utf-8",
    ),
    Case(
        "wrong-both",
        "header and page say UTF-8, the bytes are Windows-1252",
        _CAFE,
        _page(_CAFE, _meta("utf-8")).encode("cp1252"),
        "text/html; charset=utf-8",
    ),
    Case(
        "latin1",
        "says ISO-8859-1, uses the quotes of Windows-1252, as browsers allow",
        "“Crème”",
        _page("“Crème”").encode("cp1252"),
        "text/html; charset=iso-8859-1",
    ),
    Case(
        "unknown",
        "a charset that does not exist; the bytes are UTF-8",
        _CAFE,
        _page(_CAFE).encode(),
        "text/html; charset=utf-9",
    ),
    Case(
        "hex",
        "a codec of Python that is no charset; the bytes are UTF-8",
        _CAFE,
        _page(_CAFE, _meta("hex")).encode(),
        "text/html; charset=base64",
    ),
    Case(
        "late",
        f"the page says it after {LATE_BYTES} bytes",
        _TEA,
        _page(_TEA, _meta("gbk"), f"<!--{' ' * LATE_BYTES}-->").encode("gbk"),
    ),
    Case("none", "no charset is declared: UTF-8", _CAFE, _page(_CAFE).encode()),
    Case("none-cyrillic", "no charset is declared: Windows-1251", _BOOK, _page(_BOOK * 8).encode("cp1251")),
    Case("mixed", "UTF-8 with a few bytes of Windows-1252", "Crème", _MIXED, "text/html; charset=utf-8"),
    Case(
        "utf-7",
        "says UTF-7, which browsers refuse since it hides scripts",
        "+ADw-b+AD4-",
        _page("+ADw-b+AD4-").encode("ascii"),
        "text/html; charset=utf-7",
    ),
    Case(
        "big5",
        "traditional Chinese by the header",
        "茶壺商店",
        _page("茶壺商店").encode("big5"),
        "text/html; charset=big5",
    ),
    Case(
        "gb18030",
        "says gb2312, uses characters that only gb18030 has",
        "𠮷野家",
        _page("𠮷野家").encode("gb18030"),
        "text/html; charset=gb2312",
    ),
    Case(
        "euc-kr", "Korean by the page", "가게에 오신 것을", _page("가게에 오신 것을", _meta("euc-kr")).encode("euc_kr")
    ),
)
_GUESS = "may read rubbish, and never fails: only statistics could tell"

for _case in CASES:
    _good = _GUESS if _case.name == "none-cyrillic" else f"reads “{_case.text}”"
    FAMILY.add(_case.name, _case.does, _good, write_response(200, _case.raw, content_type=_case.content_type))
