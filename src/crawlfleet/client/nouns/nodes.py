"""Calls for nodes: show, drain, make ready, remove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from crawlfleet.client._generated.models import HeartbeatHistory, NodeList, NodeView
from crawlfleet.client.nouns.base import Calls, quote_segment


class NodeCalls(Calls):
    async def nodes(self, *, cluster: str | None = None, status: str | None = None) -> Sequence[NodeView]:
        return (await self._transport.get(NodeList, "/nodes", {"cluster": cluster, "status": status})).nodes

    async def node(self, node_id: str) -> NodeView:
        """By its id or device id."""
        return await self._transport.get(NodeView, f"/nodes/{quote_segment(node_id)}")

    async def node_history(
        self, node_id: str, *, since: str | None = None, until: str | None = None, limit: int | None = None
    ) -> HeartbeatHistory:
        """What it measured: one sample a minute, the newest so many, oldest first."""
        query = {"since": since, "until": until, "limit": limit}
        return await self._transport.get(HeartbeatHistory, f"/nodes/{quote_segment(node_id)}/history", query)

    async def drain(self, node_id: str, *, within_s: float = 300.0) -> NodeView:
        """No new work; what still runs after `within_s` is handed back."""
        body = {"within_s": within_s}
        return await self._transport.change(
            NodeView, "POST", f"/nodes/{quote_segment(node_id)}:drain", body, is_repeatable=True
        )

    async def ready(self, node_id: str) -> NodeView:
        """It takes work again, and its health is judged anew."""
        return await self._transport.change(
            NodeView, "POST", f"/nodes/{quote_segment(node_id)}:ready", is_repeatable=True
        )

    async def set_slots(self, node_id: str, slots: int | Literal["auto"] | None) -> NodeView:
        """How much it runs at once; `auto`: as its load allows; None: as its cluster says, or else the node itself."""
        body = {"slots": slots}
        return await self._transport.change(
            NodeView, "POST", f"/nodes/{quote_segment(node_id)}:slots", body, is_repeatable=True
        )

    async def remove_node(self, node_id: str) -> None:
        """Its secret is revoked; its history stays."""
        return await self._transport.change(type(None), "DELETE", f"/nodes/{quote_segment(node_id)}")
