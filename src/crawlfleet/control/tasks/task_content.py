"""Reads the content of stored and submitted tasks from their bytes, as far as needed and no further."""

from __future__ import annotations

from typing import Any

import msgspec

from crawlfleet.scheduling.placement.evidence_subjects import first_host


class _Addresses(msgspec.Struct):
    url: Any = None
    urls: Any = None
    start_urls: Any = None


class _Features(msgspec.Struct):
    content_features: dict[str, Any] = {}


_addresses = msgspec.json.Decoder(_Addresses)
_features = msgspec.json.Decoder(_Features)


def first_parameter_host(parameters: bytes) -> str | None:
    """Return the host of the first URL in a task's parameters, whatever its type calls them."""
    try:
        addresses = _addresses.decode(parameters)
    except msgspec.MsgspecError:
        return None
    return first_host(addresses.start_urls, addresses.urls, addresses.url)


def content_features(spec: bytes) -> dict[str, Any]:
    return _features.decode(spec).content_features
