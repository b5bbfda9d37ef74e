"""Validates chunks of archived responses: what a node sends as WARC records must be whole records.

An export of a group is the chunks of all its members one after the other: half a record of one would make those of the
others unreadable.
"""

from __future__ import annotations

import zlib

from crawlfleet.errors import InvalidInput
from crawlfleet.ports.chunk_store import CHUNK_BYTES

UNPACKED_BYTES = 256 << 20
"""Maximum unpacked size of a chunk: a page is bounded before it is archived, and few of them make a chunk."""
_PIECE_BYTES = 8 << 10
"""Number of bytes given to the library at a time: it copies what follows a record, and a chunk may be made of tiny
ones."""
_STEP_BYTES = 1 << 20
_GZIP = zlib.MAX_WBITS | 16
_MARK = b"WARC/1."


def checked_records(data: bytes) -> bytes:
    """Return the same records; raises InvalidInput for what is not whole, or unpacks to more than the limit."""
    if len(data) > CHUNK_BYTES:
        raise InvalidInput(f"{len(data)} bytes; at most {CHUNK_BYTES} are taken", field="body")
    position = unpacked = number = 0
    view = memoryview(data)
    while position < len(data):
        size, position = _check_record(view, position, number, UNPACKED_BYTES - unpacked)
        unpacked += size
        number += 1
    return data


def _check_record(data: memoryview, position: int, number: int, max_bytes: int) -> tuple[int, int]:
    """Return the unpacked size of the record at a position, and where the next one begins."""
    unpacker = zlib.decompressobj(_GZIP)
    size, is_over = 0, False
    try:
        while not is_over:
            piece = data[position : position + _PIECE_BYTES]
            part = unpacker.decompress(piece, _STEP_BYTES)
            # At the end of a record the library may report the bytes that follow twice.
            is_over = unpacker.eof
            position += len(piece) - len(unpacker.unused_data if is_over else unpacker.unconsumed_tail)
            if not part and not piece:
                raise InvalidInput("ends within a record", field=f"body[{number}]")
            is_first = size == 0 < len(part)
            if is_first and not part.startswith(_MARK):
                raise InvalidInput("not a record of WARC", field=f"body[{number}]")
            size += len(part)
            if size > max_bytes:
                raise InvalidInput(f"unpacks to more than {UNPACKED_BYTES} bytes", field="body")
    except zlib.error as exc:
        raise InvalidInput(f"not compressed with gzip: {exc}", field=f"body[{number}]") from exc
    if size == 0:
        raise InvalidInput("not a record of WARC", field=f"body[{number}]")
    return size, position
