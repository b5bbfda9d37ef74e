"""Calls for the proxies of nodes' pools, and their health."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.client._generated.models import ProxyList, ProxyView
from crawlfleet.client.nouns.base import Calls


class ProxyCalls(Calls):
    async def proxies(self, *, pool: str | None = None, is_up: bool | None = None) -> Sequence[ProxyView]:
        """Those that crawls have used, as each node last reported; `is_up` chooses those in use or those left out."""
        params = {"pool": pool, "is_up": None if is_up is None else str(is_up).lower()}
        return (await self._transport.get(ProxyList, "/proxies", params)).proxies
