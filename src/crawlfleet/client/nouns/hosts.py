"""Calls for target hosts: one budget each over the whole installation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from math import isfinite

from crawlfleet.client._generated.models import ForgivenView, HostDetail, HostHistory, HostPage, HostView
from crawlfleet.client.nouns.base import Calls, quote_segment
from crawlfleet.errors import InvalidInput

_PAGE = 500


class HostCalls(Calls):
    async def hosts(
        self,
        *,
        q: str | None = None,
        backing_off: bool | None = None,
        is_set: bool | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[HostView]:
        """By name, page after page: those whose name contains `q`, are in back-off, have a budget of their own."""
        left, cursor = limit, None
        flags = {"backing_off": _flag_text(backing_off), "set": _flag_text(is_set)}
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            page = await self._transport.get(HostPage, "/hosts", {"q": q, **flags, "limit": size, "cursor": cursor})
            for host in page.hosts:
                yield host
            left, cursor = None if left is None else left - len(page.hosts), page.next_cursor
            if cursor is None:
                return

    async def host(self, name: str) -> HostDetail:
        """With who holds parts of its budget, who waits, and what was counted of it."""
        return await self._transport.get(HostDetail, f"/hosts/{quote_segment(name)}")

    async def host_history(
        self,
        name: str,
        *,
        span: str = "minute",
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
    ) -> HostHistory:
        """What was counted of it by `minute` or `hour`, the newest so many points; `*` is all hosts together."""
        query = {"span": span, "since": since, "until": until, "limit": limit}
        return await self._transport.get(HostHistory, f"/hosts/{quote_segment(name)}/history", query)

    async def put_host(
        self, name: str, *, rate: float | None = None, concurrency: int | None = None, delay_s: float | None = None
    ) -> HostDetail:
        """Its budget over all nodes; what is left out has its default."""
        for field, value in (("rate", rate), ("delay_s", delay_s)):
            # JSON has no value for it: it would arrive as null, and reset the budget.
            if value is not None and not isfinite(value):
                raise InvalidInput(f"{value} is no number of a budget", field=field)
        body = {"rate": rate, "concurrency": concurrency, "delay_s": delay_s}
        return await self._transport.change(
            HostDetail, "PUT", f"/hosts/{quote_segment(name)}", body, is_repeatable=True
        )

    async def reset_host(self, name: str) -> HostDetail:
        """Back to the defaults."""
        return await self._transport.change(HostDetail, "DELETE", f"/hosts/{quote_segment(name)}", is_repeatable=True)

    async def forgive_host(self, name: str) -> ForgivenView:
        """End its back-off now."""
        return await self._transport.change(
            ForgivenView, "POST", f"/hosts/{quote_segment(name)}:forgive", is_repeatable=True
        )


def _flag_text(value: bool | None) -> str | None:
    return None if value is None else str(value).lower()
