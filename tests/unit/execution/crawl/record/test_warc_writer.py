"""Archived answers: what readers of WARC find is what the site said, within the bounds of a page and of a crawl."""

from __future__ import annotations

import io
import random
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from crawlfleet.control.results import warc_validation
from crawlfleet.control.results.warc_validation import checked_records
from crawlfleet.errors import InvalidInput
from crawlfleet.execution.crawl.record.warc_writer import Archive, HttpExchange
from crawlfleet.wire.warc import write_record

PAGE = "https://example.com/a/b?q=1"


def exchange(url: str = PAGE, body: bytes = "<p>茶</p>".encode(), **fields: Any) -> HttpExchange:
    asked = (("Host", "example.com"), ("User-Agent", "crawlfleet"), ("Authorization", "Basic c2VjcmV0"))
    answered = (("Content-Type", "text/html"), ("Content-Encoding", "gzip"), ("Transfer-Encoding", "chunked"))
    given: dict[str, Any] = {
        "method": "GET",
        "request_headers": asked,
        "status": 200,
        "reason": "OK",
        "response_headers": answered,
    }
    return HttpExchange(url=url, body=body, **given | fields)


async def archived_of(*exchanges: HttpExchange, **bounds: Any) -> tuple[bytes, Archive]:
    kept: list[bytes] = []

    async def emit(records: bytes) -> None:
        kept.append(records)

    archive = Archive(emit, **bounds)
    for one in exchanges:
        await archive.write_exchange(one)
    return b"".join(kept), archive


def with_warcio(data: bytes) -> list[tuple[str, str | None, bytes]]:
    """Kind, address and payload of each record; every digest is checked."""
    found = []
    for one in ArchiveIterator(io.BytesIO(data), check_digests="raise"):
        found.append((one.rec_type, one.rec_headers.get_header("WARC-Target-URI"), one.content_stream().read()))
        assert one.digest_checker.passed is not False, one.digest_checker.problems
    return found


async def test_a_page_is_a_response_and_its_request() -> None:
    data, archive = await archived_of(exchange())
    assert with_warcio(data) == [("response", PAGE, "<p>茶</p>".encode()), ("request", PAGE, b"")]
    response, request = ArchiveIterator(io.BytesIO(data))
    assert response.http_headers.get_statuscode() == "200"
    assert response.http_headers.get_header("Content-Type") == "text/html"
    assert archive.summary() == {"pages": 1, "bytes": len(data), "pages_left_out": 0}
    assert request.rec_headers.get_header("WARC-Concurrent-To") == response.rec_headers.get_header("WARC-Record-ID")


async def test_the_encoding_of_the_way_is_not_that_of_the_archive() -> None:
    data, _ = await archived_of(exchange())
    (response, _) = ArchiveIterator(io.BytesIO(data))
    heads = response.http_headers
    assert heads.get_header("Content-Encoding") is heads.get_header("Transfer-Encoding") is None
    assert heads.get_header("X-Crawler-Content-Encoding") == "gzip"
    assert heads.get_header("Content-Length") == str(len("<p>茶</p>".encode()))


async def test_what_proves_who_we_are_is_not_archived() -> None:
    data, _ = await archived_of(
        exchange(request_headers=(("Cookie", "s=1"), ("authorization", "x"), ("Accept", "*/*")))
    )
    (_, request) = ArchiveIterator(io.BytesIO(data))
    assert [name for name, _ in request.http_headers.headers] == ["Accept"]
    assert request.http_headers.statusline == "/a/b?q=1 HTTP/1.1"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_fastwarc_reads_it_and_finds_the_digests_right() -> None:
    # It warns of its own older parts when it is loaded.
    import fastwarc

    data, _ = await archived_of(exchange(), exchange(f"{PAGE}&again", b"other"))
    found = []
    for one in fastwarc.ArchiveIterator(io.BytesIO(data), parse_http=False):
        assert one.verify_block_digest()
        if one.record_type == fastwarc.WarcRecordType.response:
            one.parse_http()
            assert one.verify_payload_digest()
            found.append(one.reader.read())
    assert found == ["<p>茶</p>".encode(), b"other"]


async def test_the_same_content_again_is_a_revisit() -> None:
    data, _ = await archived_of(
        exchange(), exchange(f"{PAGE}&again"), exchange(f"{PAGE}&empty", b""), exchange(PAGE, b"")
    )
    kinds = [kind for kind, _, _ in with_warcio(data)]
    assert kinds == ["response", "request", "revisit", "request", "response", "request", "response", "request"]
    revisit = list(ArchiveIterator(io.BytesIO(data)))[2].rec_headers
    assert revisit.get_header("WARC-Refers-To-Target-URI") == PAGE
    assert revisit.get_header("WARC-Profile").endswith("identical-payload-digest")


async def test_a_long_page_is_cut_and_says_so() -> None:
    data, _ = await archived_of(exchange(body=b"x" * 100), exchange(body=b"x" * 101), page_bytes=50)
    found = with_warcio(data)
    assert [(kind, len(body)) for kind, _, body in found if kind != "request"] == [("response", 50)] * 2
    assert {one.rec_headers.get_header("WARC-Truncated") for one in ArchiveIterator(io.BytesIO(data))} == {
        "length",
        None,
    }


async def test_a_crawl_that_is_too_large_goes_on_without_its_archive() -> None:
    data, archive = await archived_of(*(exchange(f"{PAGE}{n}", b"%d" % n) for n in range(10)), crawl_bytes=1_500)
    assert 0 < archive.pages < 10
    assert archive.pages + archive.left_out == 10
    assert len(with_warcio(data)) == 2 * archive.pages


async def test_headers_cannot_make_lines_of_their_own() -> None:
    evil = (("X", "a\r\nWARC-Type: forged\r\n\r\nbody"), ("Y", "caf\xe9"))
    data, _ = await archived_of(exchange(response_headers=evil, reason="fine\r\nEvil: 1"))
    (response, _) = ArchiveIterator(io.BytesIO(data))
    assert [name for name, _ in response.http_headers.headers] == ["X", "Y", "Content-Length"]
    assert response.http_headers.get_header("Y") == "caf\xe9"


async def test_what_is_made_is_taken() -> None:
    data, _ = await archived_of(exchange(), exchange(body=b"y" * 3_000_000))
    assert checked_records(data) == data
    assert checked_records(b"") == b""


@pytest.mark.parametrize("spoil", ["cut", "plain", "other", "tail", "empty"])
async def test_what_is_no_record_is_refused(spoil: str) -> None:
    good, _ = await archived_of(exchange())
    bad = {
        "cut": good[:-5],
        "plain": b"WARC/1.1\r\n",
        "other": zlib.compress(b"WARC/1.1"),
        "tail": good + b"xyz",
        "empty": good + write_record("x", [], b"")[:0] + zlib.compress(b"", wbits=31),
    }[spoil]
    with pytest.raises(InvalidInput) as refused:
        checked_records(bad)
    assert str(refused.value.field).startswith("body[")


def test_a_chunk_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warc_validation, "UNPACKED_BYTES", 5_000_000)
    with pytest.raises(InvalidInput, match="unpacks to more"):
        checked_records(write_record("response", [], b"\0" * 6_000_000))
    with pytest.raises(InvalidInput, match="unpacks to more"):
        checked_records(write_record("response", [], b"\0" * 2_000_000) * 3)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 60_000), max_size=6), st.randoms(use_true_random=False))
def test_whatever_the_sizes_whole_records_are_taken(sizes: list[int], chance: random.Random) -> None:
    """Of noise, which does not shrink, and of zeros, which do."""
    blocks = [block for size in sizes for block in (chance.randbytes(size), bytes(100 * size))]
    data = b"".join(write_record("response", [], block) for block in blocks)
    assert checked_records(data) == data
    if data:
        with pytest.raises(InvalidInput):
            checked_records(data[:-1])


def test_tiny_records_cost_no_more_than_their_number() -> None:
    tiny = zlib.compress(b"WARC/1.1", wbits=31)
    assert checked_records(tiny * 20_000) == tiny * 20_000
