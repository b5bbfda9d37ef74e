"""Calls for flows: a graph of tasks in one call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from crawlfleet.client._generated.models import FlowChangedView, FlowDetail, FlowPageView, FlowView
from crawlfleet.client.errors import WaitTimeout
from crawlfleet.client.nouns.base import Calls, quote_segment
from crawlfleet.client.types import Fields

_PAGE = 500
_LOOK_S = (0.1, 2.0)


class FlowCalls(Calls):
    async def submit_flow(
        self,
        steps: Mapping[str, Fields],
        *,
        name: str | None = None,
        project_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> FlowDetail:
        """A whole graph, or nothing of it: `{"list": {"task": {...}}, "each": {"task": {...}, "after": ["list"],
        "for_each": "steps.list.result.urls"}}`."""
        body: dict[str, Any] = {"name": name, "project_id": project_id, "steps": steps}
        given = {field: value for field, value in body.items() if value is not None}
        return await self._transport.create(FlowDetail, "/flows", given, key=idempotency_key)

    async def flow(self, flow_id: str) -> FlowDetail:
        return await self._transport.get(FlowDetail, f"/flows/{quote_segment(flow_id)}")

    async def flows(self, *, project_id: str | None = None, limit: int | None = None) -> AsyncIterator[FlowView]:
        """Newest first, page after page."""
        left, cursor = limit, None
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            params = {"project_id": project_id, "limit": size, "cursor": cursor}
            page = await self._transport.get(FlowPageView, "/flows", params)
            for flow in page.flows:
                yield flow
            left, cursor = None if left is None else left - len(page.flows), page.next_cursor
            if cursor is None:
                return

    async def wait_flow(
        self, flow_id: str, timeout_s: float | None = None, on_look: Callable[[FlowDetail], None] | None = None
    ) -> FlowDetail:
        """The flow once nothing of it runs. Raises WaitTimeout."""
        pause = _LOOK_S[0]
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    flow = await self.flow(flow_id)
                    if on_look is not None:
                        on_look(flow)
                    if flow.status != "running":
                        return flow
                    await asyncio.sleep(pause)
                    pause = min(pause * 1.5, _LOOK_S[1])
        except TimeoutError:
            raise WaitTimeout([flow_id], timeout_s or 0.0) from None

    async def cancel_flow(self, flow_id: str) -> FlowChangedView:
        """Every task of it that has not ended."""
        return await self._transport.change(
            FlowChangedView, "POST", f"/flows/{quote_segment(flow_id)}:cancel", is_repeatable=True
        )

    async def resume_flow(self, flow_id: str) -> FlowChangedView:
        """Run again what ended badly, and what could not run because of it; what completed stays."""
        return await self._transport.change(FlowChangedView, "POST", f"/flows/{quote_segment(flow_id)}:resume")

    async def drop_flow(self, flow_id: str) -> None:
        """Forget a flow that has ended, with its tasks and their history."""
        return await self._transport.change(type(None), "DELETE", f"/flows/{quote_segment(flow_id)}")
