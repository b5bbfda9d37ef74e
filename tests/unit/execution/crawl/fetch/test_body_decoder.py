"""Packed bodies to plain ones, within bounds."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.fetch.body_decoder import (
    BETWEEN_BYTES,
    MAX_LAYERS,
    MAX_MEMBERS,
    STEP_BYTES,
    BodyDecoder,
)
from crawlfleet.execution.page_failures import PageFailed

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


def unpacked(encoding: str, data: bytes, step: int = 1_000) -> bytes:
    unpacker = BodyDecoder(encoding)
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
    assert unpacked("br", brotli.compress(data), step) == data
    assert unpacked("zstd", zstandard.compress(data), step) == data
    assert unpacked("ZSTD", zstandard.compress(data) + zstandard.compress(data), step) == data * 2


@given(st.binary(max_size=500), st.lists(st.sampled_from(sorted(PACK)), min_size=1, max_size=MAX_LAYERS))
def test_layers_are_undone_the_last_one_first(data: bytes, names: list[str]) -> None:
    packed = data
    for name in names:
        packed = PACK[name](packed)
    assert unpacked(", ".join(names), packed, 7) == data


@pytest.mark.parametrize("name", PACK)
def test_a_bomb_comes_in_small_steps(name: str) -> None:
    bomb = PACK[name](bytes(50_000_000))
    most = 8 << 20 if name == "zstd" else 2 * STEP_BYTES
    tracemalloc.start()
    try:
        size = 0
        for part in BodyDecoder(name).feed(bomb):
            assert len(part) <= most
            size += len(part)
            if size > 20_000_000:
                break
        assert tracemalloc.get_traced_memory()[1] < 4 * most + len(bomb)
    finally:
        tracemalloc.stop()


def test_a_bomb_that_never_comes_out_is_stopped_between_the_layers() -> None:
    # Ten times as much as may pass, and the inner layer makes nothing of it.
    inner = gzip.compress(b"x") + bytes(BETWEEN_BYTES)
    with pytest.raises(PageFailed, match="too much"):
        for _ in BodyDecoder("gzip, gzip").feed(gzip.compress(inner, 1)):
            pass


@pytest.mark.parametrize(
    ("name", "part"), [("gzip", gzip.compress(b"")), ("zstd", zstandard.compress(b""))], ids=["gzip", "zstd"]
)
def test_parts_without_end_are_refused(name: str, part: bytes) -> None:
    with pytest.raises(PageFailed, match="packed parts"):
        unpacked(name, part * (MAX_MEMBERS + 1))


@pytest.mark.parametrize("name", PACK)
def test_a_body_that_ends_too_early_may_be_whole_the_next_time(name: str) -> None:
    with pytest.raises(PageFailed) as told:
        unpacked(name, PACK[name](bytes(range(256)) * 20)[:-5])
    assert (told.value.error, told.value.kind, told.value.permanent) == ("network", "cut", False)


def test_what_cannot_be_unpacked() -> None:
    for encoding, data, error in [
        ("gzip", b"no gzip at all", "parse"),
        ("deflate", b"\xff\xff\xff\xff", "parse"),
        ("gzip", gzip.compress(b"x" * 1_000)[:-10], "network"),
    ]:
        with pytest.raises(PageFailed) as told:
            unpacked(encoding, data)
        assert told.value.error == error
    for encoding in ("compress", "gzip, x-magic", "utf-8"):
        with pytest.raises(PageFailed, match="not asked for"):
            BodyDecoder(encoding)
    with pytest.raises(PageFailed, match="packed 4 times"):
        BodyDecoder("gzip, gzip, br, gzip")
    assert unpacked("gzip", gzip.compress(b"x") + b"\0\0padding") == b"x"
