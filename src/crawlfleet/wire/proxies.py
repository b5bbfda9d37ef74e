"""The message that carries the health of a node's proxies to a master; fields by position, as in `wire.sync`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from crawlfleet.model.limits import LABEL_CHARS
from crawlfleet.model.proxy_health import PROXIES_MAX

BODY_BYTES = 4 << 20
SPAN_MS_MAX = 86_400_000
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
Span = Annotated[int, msgspec.Meta(ge=0, le=SPAN_MS_MAX)]


class ProxyHealthBody(msgspec.Struct, array_like=True, frozen=True):
    """The health of one proxy as it is sent: `model.proxy_health.ProxyHealth`."""

    pool: Annotated[str, msgspec.Meta(min_length=1, max_length=LABEL_CHARS)]
    proxy: Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
    uses: Count = 0
    failures: Count = 0
    down_for_ms: Span = 0
    latency_ms: Span = 0
    last_failure: Annotated[str, msgspec.Meta(max_length=200)] = ""


class ProxiesUp(msgspec.Struct, array_like=True, frozen=True):
    """All proxies of the node's pools; it replaces the previous report."""

    proxies: Annotated[list[ProxyHealthBody], msgspec.Meta(max_length=PROXIES_MAX)]
