"""A body as it arrives: unpacked step by step, and never more of it than asked for."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from crawlfleet.execution.crawl.failures import PageFailed

STEP_BYTES = 256 << 10
MAX_MEMBERS = 1_000
ENCODINGS = "gzip, deflate"
"""Those that can be unpacked within a bound; nothing else is asked for."""
_GZIP = zlib.MAX_WBITS | 16


class Unpacker:
    """Undoes one content encoding; every step gives at most STEP_BYTES, whatever came in."""

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        if name not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise PageFailed("parse", f"content encoding {name!r} was not asked for", permanent=True)
        self._is_gzip = name.endswith("gzip")
        self._is_packed = name not in {"", "identity"}
        self._inner = zlib.decompressobj(_GZIP) if self._is_gzip else None
        self._is_fed = False
        self._members = 1

    def feed(self, data: bytes) -> Iterator[bytes]:
        if not self._is_packed or not data:
            yield data
            return
        self._is_fed = True
        try:
            yield from self._unpack(data)
        except zlib.error as exc:
            raise PageFailed("parse", f"the body cannot be unpacked: {exc}") from exc

    def finish(self) -> None:
        """Raises PageFailed when the packed body ended too early."""
        if self._is_fed and self._inner is not None and not self._inner.eof:
            raise PageFailed("network", "the packed body ended too early")

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        if self._inner is None:
            self._inner = zlib.decompressobj(_deflate_window(data))
        while data:
            if self._inner.eof:
                # Some servers send several gzip members; what else follows the end is padding.
                if not (self._is_gzip and data.startswith(b"\x1f\x8b")):
                    return
                self._members += 1
                if self._members > MAX_MEMBERS:
                    raise PageFailed("parse", f"the body has more than {MAX_MEMBERS} packed parts", permanent=True)
                self._inner = zlib.decompressobj(_GZIP)
            yield self._inner.decompress(data, STEP_BYTES)
            data = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail


def _deflate_window(data: bytes) -> int:
    """`deflate` means zlib's format, and about half of its senders mean the raw one."""
    is_zlib = data[0] & 0x0F == 8 and (len(data) < 2 or (data[0] << 8 | data[1]) % 31 == 0)
    return zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS
