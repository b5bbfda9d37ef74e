"""Slots of nodes, set by hand and by load."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.ports.node_store import SlotChange
from crawlfleet.store import schema
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.tasks.transaction_log import write_events

LOCK_SLOTS = (
    "SELECT id, slots_wanted, follows_load FROM node WHERE id AMONG($1) AND removed_at IS NULL ORDER BY id "
    "LOCK_ROWS(node)"
)


class SlotTables:
    _engine: Engine

    async def set_slots(self, node: NodeId, slots: int | None, now: Instant, *, follows_load: bool = False) -> bool:
        async def write_slots(tx: Tx) -> bool:
            rows = await tx.fetch(LOCK_SLOTS, [node])
            if not rows:
                return False
            _, had, followed = rows[0]
            if (had, bool(followed)) == (slots, follows_load):
                return True
            columns = ("id", "slots_wanted", "follows_load")
            await tx.update(schema.node, columns, [(node, slots, int(follows_load))])
            shared = {"node": node, "old": _slots_text(had, bool(followed)), "new": _slots_text(slots, follows_load)}
            event = EventBatch(Kind.NODE_SLOTS_CHANGED, shared=shared | {"reason": "set by hand"})
            await write_events(tx, [event], now)
            return True

        return await self._engine.write(write_slots)

    async def scale_slots(self, changes: Sequence[SlotChange], term: int, now: Instant) -> set[NodeId]:
        async def write_measured(tx: Tx) -> set[NodeId]:
            rows = await tx.fetch(LOCK_SLOTS, [change.node for change in changes])
            free = {node for node, wanted, _ in rows if wanted is None}
            accepted = [change for change in changes if change.node in free]
            if accepted:
                await tx.update(
                    schema.node, ("id", "slots_measured"), [(change.node, change.slots) for change in accepted]
                )
                nodes, had, slots, reasons = zip(*accepted, strict=True)
                each = {"node": nodes, "old": had, "new": slots, "reason": reasons}
                await write_events(tx, [EventBatch(Kind.NODE_SLOTS_CHANGED, each)], now)
            return free

        return await self._engine.write(write_measured, term) if changes else set()


def _slots_text(slots: int | None, follows_load: bool) -> int | str:
    if slots is not None:
        return slots
    return "auto" if follows_load else "default"
