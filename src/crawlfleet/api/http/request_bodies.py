"""Request bodies of the plain routes: bounded before they are held, and bounded again when they are unpacked."""

from __future__ import annotations

import msgspec
import zstandard

from crawlfleet.api.http.errors import Malformed, UnsupportedMediaType
from crawlfleet.api.http.fast_routes import PlainRequest, too_large
from crawlfleet.errors import InvalidInput
from crawlfleet.wire.tasks import refusal_from_error

_WINDOW_BYTES = 8 << 20


class UnknownEncoding(UnsupportedMediaType):
    field = "Content-Encoding"


async def read_body(request: PlainRequest, max_bytes: int) -> bytes:
    """Return the uncompressed body of at most `max_bytes` bytes: a body that unpacks to more is never held."""
    request.limit = min(request.limit, max_bytes)
    body = await request.body()
    match request.headers.get("content-encoding", "identity").strip().lower():
        case "identity" | "":
            return body
        case "zstd":
            return _unpack_zstd(body, max_bytes)
        case _:
            raise UnknownEncoding("a body comes as it is or as zstd")


def _unpack_zstd(body: bytes, max_bytes: int) -> bytes:
    """Unpack one whole frame: half of one must not pass for a short one."""
    try:
        claimed = zstandard.get_frame_parameters(body).content_size
        if claimed <= max_bytes or claimed == zstandard.CONTENTSIZE_UNKNOWN:
            unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
            return unpacker.decompress(body, max_output_size=max_bytes, allow_extra_data=False)
    except zstandard.ZstdError as exc:
        if not _is_too_long(body, max_bytes):
            raise Malformed(f"not a whole frame of zstd: {exc}") from exc
    raise too_large(max_bytes)


def _is_too_long(body: bytes, max_bytes: int) -> bool:
    """Return whether the body unpacks to more than the limit. It is unpacked as a stream, so that no more than the
    limit is ever held, whatever its sender wrote into the frame."""
    try:
        with zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).stream_reader(body) as source:
            return len(source.read(max_bytes + 1)) > max_bytes
    except zstandard.ZstdError:
        return False


def decode_message(decoder: msgspec.json.Decoder[msgspec.Struct], body: bytes) -> msgspec.Struct:
    """Decode a message of the node protocol; an error names its place by position, as its fields are sent."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as exc:
        refusal = refusal_from_error(exc, decoder.type)
        raise InvalidInput(refusal.detail, field=refusal.field or "body") from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise InvalidInput(f"not valid JSON: {exc}", field="body") from exc
