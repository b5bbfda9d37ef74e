"""The body decoder decompresses a body as it arrives, in bounded steps and through several content encodings."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import brotli  # type: ignore[import-untyped]
import zstandard

from crawlfleet.execution.page_failures import PageFailed

STEP_BYTES = 256 << 10
MAX_MEMBERS = 1_000
MAX_LAYERS = 3
BETWEEN_BYTES = 64 << 20
"""Limit on bytes that pass between two layers: a compression bomb within a bomb may never give any output."""
ENCODINGS = "gzip, deflate, br, zstd"
"""Content encodings that can be decompressed within a bound; the crawler asks for no others."""
_GZIP = zlib.MAX_WBITS | 16
_ZSTD_BITE = 256
"""Number of compressed bytes decoded at a time: a block of few bytes may expand to 128 KiB, so 8 MiB is the most."""
_ZSTD_WINDOW = 8 << 20
"""Limit on the window size, as RFC 8878 recommends it to all on the web."""


class Layer(Protocol):
    """A decoder of one content encoding that works in steps."""

    def feed(self, data: bytes) -> Iterator[bytes]: ...

    def is_whole(self) -> bool:
        """Return whether the body may end here."""
        ...


class _Zlib:
    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._inner = zlib.decompressobj(_GZIP) if is_gzip else None
        self._members = 1

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inner is None:
            self._inner = zlib.decompressobj(_deflate_window(data))
        while data:
            if self._inner.eof:
                # Some servers send several gzip members; anything else that follows the end is padding.
                if not (self._is_gzip and data.startswith(b"\x1f\x8b")):
                    return
                self._members = _count_part(self._members)
                self._inner = zlib.decompressobj(_GZIP)
            yield self._inner.decompress(data, STEP_BYTES)
            data = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail

    def is_whole(self) -> bool:
        return self._inner is not None and self._inner.eof


class _Brotli:
    def __init__(self) -> None:
        self._inner = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inner.is_finished():
            return
        yield self._inner.process(data, output_buffer_limit=STEP_BYTES)
        while not self._inner.is_finished() and not self._inner.can_accept_more_data():
            yield self._inner.process(b"", output_buffer_limit=STEP_BYTES)

    def is_whole(self) -> bool:
        return bool(self._inner.is_finished())


class _Zstd:
    def __init__(self) -> None:
        self._inner = _zstd_frame()
        self._frames = 1

    def feed(self, data: bytes) -> Iterator[bytes]:
        offset = 0
        while offset < len(data):
            if self._inner.eof:
                self._frames = _count_part(self._frames)
                self._inner = _zstd_frame()
            bite = data[offset : offset + _ZSTD_BITE]
            yield self._inner.decompress(bite)
            offset += len(bite) - len(self._inner.unused_data)

    def is_whole(self) -> bool:
        return self._inner.eof


_LAYERS: dict[str, Callable[[], Layer]] = {
    "gzip": lambda: _Zlib(is_gzip=True),
    "x-gzip": lambda: _Zlib(is_gzip=True),
    "deflate": lambda: _Zlib(is_gzip=False),
    "br": _Brotli,
    "zstd": _Zstd,
}


class BodyDecoder:
    """Decodes the content encodings of one body, the last one first; no step gives more than 8 MiB."""

    def __init__(self, encoding: str, url: str = "") -> None:
        self._message_prefix = f"{url}: " if url else ""
        encodings = [part.strip().lower() for part in encoding.split(",")]
        names = [name for name in encodings if name not in {"", "identity"}]
        for name in names:
            if name not in _LAYERS:
                raise PageFailed(
                    "parse",
                    f"{self._message_prefix}content encoding {name!r} was not asked for",
                    permanent=True,
                    kind="decode",
                )
        if len(names) > MAX_LAYERS:
            raise PageFailed("parse", f"{self._message_prefix}packed {len(names)} times", permanent=True, kind="decode")
        self._layers: list[Layer] = [_LAYERS[name]() for name in reversed(names)]
        self._is_fed = False
        self._between_bytes = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        if not self._layers or not data:
            yield data
            return
        self._is_fed = True
        try:
            yield from self._feed_layers(self._layers, data)
        except (zlib.error, brotli.error, zstandard.ZstdError) as exc:
            raise PageFailed(
                "parse", f"{self._message_prefix}the body cannot be unpacked: {exc}", kind="decode"
            ) from exc

    def finish(self) -> None:
        """Raise PageFailed when the compressed body ended too early."""
        if self._is_fed and not all(layer.is_whole() for layer in self._layers):
            raise PageFailed("network", f"{self._message_prefix}the packed body ended too early", kind="cut")

    def _feed_layers(self, layers: Sequence[Layer], data: bytes) -> Iterator[bytes]:
        if len(layers) == 1:
            yield from layers[0].feed(data)
            return
        for part in layers[0].feed(data):
            self._between_bytes += len(part)
            if self._between_bytes > BETWEEN_BYTES:
                raise PageFailed(
                    "parse", f"{self._message_prefix}unpacks to too much", permanent=True, kind="too_large"
                )
            if part:
                yield from self._feed_layers(layers[1:], part)


def _count_part(parts: int) -> int:
    if parts >= MAX_MEMBERS:
        raise PageFailed("parse", f"the body has more than {MAX_MEMBERS} packed parts", permanent=True, kind="decode")
    return parts + 1


def _zstd_frame() -> zstandard.ZstdDecompressionObj:
    return zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj(write_size=64 << 10)


def _deflate_window(data: bytes) -> int:
    """Return the window bits of a `deflate` body.

    `deflate` means zlib's format, and about half of its senders mean the raw one.
    """
    is_zlib = data[0] & 0x0F == 8 and (len(data) < 2 or (data[0] << 8 | data[1]) % 31 == 0)
    return zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS
