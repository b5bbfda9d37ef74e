"""File signatures: recognises files by their first bytes where the content type claims that they are pages."""

from __future__ import annotations

_SIGNATURES = (
    (b"%PDF-", "a PDF"),
    (b"\xff\xd8\xff", "a JPEG"),
    (b"\x89PNG\r\n\x1a\n", "a PNG"),
    (b"GIF8", "a GIF"),
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "a ZIP"),
    (b"Rar!\x1a", "a RAR"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
    (b"OggS", "Ogg"),
    (b"ID3", "an MP3"),
    (b"fLaC", "FLAC"),
    (b"\x7fELF", "a program"),
    (b"\x00\x00\x01\x00", "an icon"),
    (b"\x1aE\xdf\xa3", "a video"),
)
_FIRST = tuple(signature for signature, _ in _SIGNATURES)


def file_kind(body: bytes) -> str | None:
    """Return the kind of file that a body is; None for a body that may be a page."""
    if body.startswith(_FIRST):
        return next(kind for signature, kind in _SIGNATURES if body.startswith(signature))
    if body[4:8] == b"ftyp" and body[:2] == b"\0\0":
        return "a video"
    return "a picture" if body[:4] == b"RIFF" and body[8:12] == b"WEBP" else None
