"""Bytes to text, and packed bodies to plain ones, within bounds."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.body import STEP_BYTES, Unpacker
from crawlfleet.execution.crawl.charset import charset, text_of
from crawlfleet.execution.crawl.failures import PageFailed

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
    assert text_of(body, declared) == text


@pytest.mark.parametrize(
    "label", ["zlib", "idna", "unicode_escape", "rot13", "base64", "utf-7", "raw_unicode_escape", "\0"]
)
def test_what_is_no_charset_is_not_taken_for_one(label: str) -> None:
    assert charset(label) is None


@given(st.binary(max_size=300), st.sampled_from([None, "utf-8", "gbk", "zlib", "utf-16", "big5", "x"]))
def test_text_of_never_fails(body: bytes, declared: str | None) -> None:
    text_of(body, declared).encode()


def unpacked(encoding: str, data: bytes, step: int = 1_000) -> bytes:
    unpacker = Unpacker(encoding)
    got = b"".join(part for at in range(0, len(data), step) for part in unpacker.feed(data[at : at + step]))
    unpacker.finish()
    return got


@given(st.binary(max_size=2_000), st.integers(min_value=1, max_value=50))
def test_every_encoding_is_undone(data: bytes, step: int) -> None:
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    assert unpacked("", data, step) == unpacked("identity", data, step) == data
    assert unpacked("gzip", gzip.compress(data), step) == data
    assert unpacked("x-gzip", gzip.compress(data) + gzip.compress(data), 5_000) == data * 2
    assert unpacked("deflate", zlib.compress(data), step) == data
    assert unpacked("deflate", raw.compress(data) + raw.flush(), 5_000) == data


def test_a_bomb_comes_in_small_steps() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    steps = Unpacker("gzip").feed(bomb)
    assert max(len(next(steps)) for _ in range(20)) == STEP_BYTES


def test_what_cannot_be_unpacked() -> None:
    for encoding, data, error in [
        ("gzip", b"no gzip at all", "parse"),
        ("deflate", b"\xff\xff\xff\xff", "parse"),
        ("gzip", gzip.compress(b"x" * 1_000)[:-10], "network"),
    ]:
        with pytest.raises(PageFailed) as told:
            unpacked(encoding, data)
        assert told.value.error == error
    for encoding in ("br", "gzip, gzip", "zstd"):
        with pytest.raises(PageFailed, match="not asked for"):
            Unpacker(encoding)
    assert unpacked("gzip", gzip.compress(b"x") + b"\0\0padding") == b"x"
