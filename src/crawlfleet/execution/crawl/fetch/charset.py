"""Charset detection decodes a page as browsers do: byte order mark, header, the page's declaration, then what fits."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from functools import lru_cache

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([a-zA-Z0-9_:.-]{1,40})|<\?xml[^>]{0,100}?encoding\s*=\s*["']([a-zA-Z0-9_:.-]{1,40})"""
)
_LOOK_AT_BYTES = 4_096
# Labels as the web uses them: a page that names the left charset means the right one.
_MEANT = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "latin-1": "cp1252",
    "latin1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "tis-620": "cp874",
}
# Python also knows codecs that are no charsets (zlib, idna, unicode_escape): a page must not choose those.
_CHARSETS = frozenset(
    [
        "utf-8",
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "cp932",
        "euc_jp",
        "iso2022_jp",
        "cp949",
        "gb18030",
        "big5hkscs",
        "koi8-r",
        "koi8-u",
        "mac-roman",
        "cp866",
        "cp874",
        *(f"cp125{n}" for n in range(9)),
        *(f"iso8859-{n}" for n in range(2, 17)),
    ]
)

_SAMPLE_BYTES = 65_536
_TAG = re.compile(rb"<[^<>]{0,1000}>")
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_ASCII = re.compile(r"[\x00-\x7f]+")
_KANA, _WORDS = re.compile("[\u3040-\u30ff]"), re.compile("[А-Я]?[а-яё]{3,}")
# The order matters: Japanese without kana and Korean without syllables do not exist, and Chinese is what is left.
_LIKELY = (
    ("cp932", _KANA, 0.3),
    ("euc_jp", _KANA, 0.3),
    ("cp949", re.compile("[\uac00-\ud7a3]"), 0.85),
    ("koi8-r", _WORDS, 0.6),
    ("cp1251", _WORDS, 0.6),
    ("gb2312", re.compile("[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]"), 0.9),
    ("big5hkscs", re.compile("[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]"), 0.9),
    ("gb18030", re.compile("[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]"), 0.9),
)


def decode_page(body: bytes, declared: str | None = None) -> str:
    """Return the text of a page. It never fails: bytes that fit no charset become replacement characters."""
    for mark, marked in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(marked, "replace")
    tried_names: list[str] = []
    for name in _declared_charsets(body, declared):
        tried_names.append(name)
        try:
            return body.decode(name)
        except UnicodeDecodeError:
            continue
    try:
        return body.decode()
    except UnicodeDecodeError:
        pass
    # A few bad bytes in a page that names its charset are errors; where most bytes are bad, the named charset is wrong.
    if tried_names:
        text = body.decode(tried_names[0], "replace")
        foreign = len(text) - len(text.encode("ascii", "ignore"))
        if 2 * text.count("\ufffd") <= foreign:
            return text
    return body.decode(_guess_charset(body), "replace")


def _declared_charsets(body: bytes, declared: str | None) -> Iterator[str]:
    """Yield the charsets that header and page name, in this order: most pages are in the charset of their header."""
    if declared and (name := resolve_charset(declared)) is not None:
        yield name
    if (label := _find_declaration(body)) and (name := resolve_charset(label)) is not None:
        yield name


@lru_cache(maxsize=256)
def resolve_charset(label: str) -> str | None:
    """Return the codec of a label; None for a label that names no charset."""
    try:
        name = codecs.lookup(label.strip().strip("\"'")).name
    except (LookupError, ValueError):
        return None
    name = _MEANT.get(name, name)
    return name if name in _CHARSETS else None


def _find_declaration(body: bytes) -> str | None:
    match = _DECLARED.search(body[:_LOOK_AT_BYTES].lower())
    if match is None:
        return None
    label = (match[1] or match[2]).decode("ascii")
    # A page whose declaration could be found as ASCII is in no two-byte charset.
    return "utf-8" if label.startswith("utf-16") else label


def _guess_charset(body: bytes) -> str:
    """Guess the charset of an undeclared page: the one in which its text looks most like text that people write."""
    sample = _TAG.sub(b"", body[:_SAMPLE_BYTES])
    high = sum(byte >= 0x80 for byte in sample)
    if high < 8 or 4 * high < sum(byte in _LETTERS for byte in sample):
        # A few such bytes among many ASCII letters are accents of Western European languages.
        return "cp1252"
    name = next(
        (name for name, typical, min_share in _LIKELY if _typical_share(sample, name, typical) >= min_share), "cp1252"
    )
    return _MEANT.get(name, name)


def _typical_share(sample: bytes, name: str, typical: re.Pattern[str]) -> float:
    """Return the share of non-ASCII text that is usual in this charset; 0 where decoding gives many errors."""
    text = _ASCII.sub(" ", sample.decode(name, "replace"))
    size = len(text) - text.count(" ")
    if not size or 20 * text.count("\ufffd") > size:
        return 0.0
    return sum(map(len, typical.findall(text))) / size
