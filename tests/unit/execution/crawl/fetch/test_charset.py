"""Bytes to text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.fetch.charset import decode_page, resolve_charset
from testkit.site.nasty.charsets import CASES, Case

CHINESE = "分布式爬虫集群管理系统，商品价格一百元"


@pytest.mark.parametrize(
    ("body", "declared", "text"),
    [
        ("Café".encode(), None, "Café"),
        ("Café".encode("cp1252"), None, "Café"),
        ("Café".encode("cp1252"), "iso-8859-1", "Café"),
        ("“quoted”".encode("cp1252"), "latin-1", "“quoted”"),
        (CHINESE.encode("gbk"), "GB2312", CHINESE),
        (CHINESE.encode("gbk"), None, CHINESE),
        (b'<meta charset="gbk">' + CHINESE.encode("gbk"), None, f'<meta charset="gbk">{CHINESE}'),
        (b'<?xml version="1.0" encoding="windows-1251"?>\xcf', None, '<?xml version="1.0" encoding="windows-1251"?>П'),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
        ("日本".encode("euc_jp"), "'EUC-JP'", "日本"),
        (b"\xef\xbb\xbfBOM", "gbk", "BOM"),
        ("\ufeffwide".encode("utf-16-le"), None, "wide"),
        (b'<meta charset="utf-16">x', None, '<meta charset="utf-16">x'),
        ("é".encode() * 5 + b"\xff", "utf-8", "ééééé\ufffd"),
        ("Crème brûlée".encode("cp1252"), "utf-8", "Crème brûlée"),
        ("Größe für Füße".encode("cp1252"), None, "Größe für Füße"),
        (b"", None, ""),
        (b"plain", "no-such-charset", "plain"),
    ],
)
def test_text_of(body: bytes, declared: str | None, text: str) -> None:
    assert decode_page(body, declared) == text


@pytest.mark.parametrize(
    "label", ["zlib", "idna", "unicode_escape", "rot13", "base64", "utf-7", "raw_unicode_escape", "\0"]
)
def test_what_is_no_charset_is_not_taken_for_one(label: str) -> None:
    assert resolve_charset(label) is None


@given(st.binary(max_size=300), st.sampled_from([None, "utf-8", "gbk", "zlib", "utf-16", "big5", "x"]))
def test_text_of_never_fails(body: bytes, declared: str | None) -> None:
    decode_page(body, declared).encode()


UNSAID = {
    "gbk": "我们的商店有很多茶壶和杯子，价格便宜，欢迎购买。",
    "big5": "我們的商店有很多茶壺和杯子，價格便宜，歡迎購買。",
    "shift_jis": "ショップへようこそ。お茶の道具がたくさんあります。",
    "euc_jp": "ショップへようこそ。お茶の道具がたくさんあります。",
    "euc_kr": "가게에 오신 것을 환영합니다 주전자가 많이 있습니다",
    "cp1251": "Книга о вкусной и здоровой пище, издание второе",
    "koi8-r": "Книга о вкусной и здоровой пище, издание второе",
    "cp1252": "Größe für Füße, Crème brûlée à la carte",
}


@pytest.mark.parametrize("charset", UNSAID)
@pytest.mark.parametrize("declared", [None, "utf-8", "no-such-charset"])
def test_a_charset_that_nobody_says_or_says_wrongly(charset: str, declared: str | None) -> None:
    page = f"<html><body class='page'><p>{UNSAID[charset]}</p></body></html>"
    assert decode_page(page.encode(charset), declared) == page


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_charsets_of_the_nasty_site(case: Case) -> None:
    declared = case.content_type.lower().partition("charset=")[2] or None
    assert f"<title>{case.text}" in decode_page(case.raw, declared)
