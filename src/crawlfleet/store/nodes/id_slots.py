"""Id slots: each start of a master holds one, so that no two running masters make the same id."""

from __future__ import annotations

from crawlfleet.model.ids import BOOTS, IdSlot
from crawlfleet.model.instants import Instant
from crawlfleet.store import schema
from crawlfleet.store.admin.cluster_config import lock_installation
from crawlfleet.store.engine.transaction import Engine, Tx

ID_SLOTS = "SELECT slot, boot, until, turn FROM id_slot ORDER BY turn"
KEEP_ID_SLOT = (
    "UPDATE id_slot SET until = CASE WHEN until > $3 THEN until ELSE $3 END, "
    "turn = (SELECT MAX(turn) + 1 FROM id_slot) WHERE slot = $1 AND boot = $2"
)
_COLUMNS = ("slot", "boot", "until", "turn")


class IdSlotTables:
    _engine: Engine

    async def take_id_slot(self, boot: int, until: Instant) -> IdSlot:
        async def assign_slot(tx: Tx) -> IdSlot:
            await lock_installation(tx)
            rows = await tx.fetch(ID_SLOTS)
            id_slots = {slot: IdSlot(slot, last) for slot, _, last, _ in rows}
            for slot, holder, _, _ in rows:
                if holder == boot:
                    return id_slots[slot]
            turn = rows[-1][3] + 1 if rows else 1
            if len(id_slots) < BOOTS:
                # Numbers of starts are consecutive: the first attempt finds a slot that was never used.
                slot = next(number % BOOTS for number in range(boot, boot + BOOTS) if number % BOOTS not in id_slots)
                await tx.insert_new(schema.id_slot, _COLUMNS, [(slot, boot, until, turn)])
                return IdSlot(slot, 0)
            silent = id_slots[rows[0][0]]
            await tx.update(schema.id_slot, _COLUMNS, [(silent.slot, boot, max(until, silent.until), turn)])
            return silent

        return await self._engine.write(assign_slot)

    async def keep_id_slot(self, slot: int, boot: int, until: Instant) -> bool:
        return await self._engine.write(lambda tx: tx.execute(KEEP_ID_SLOT, slot, boot, until)) == 1
