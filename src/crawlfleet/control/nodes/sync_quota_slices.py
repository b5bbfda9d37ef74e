"""Grants slices of daily quotas to executions that meter what they fetch: requested in a sync, granted by any master.

The service keeps no state. A lost answer is requested again under the same number, and is the same again.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.control.support.batching import Batcher
from crawlfleet.control.tasks.finish import is_storable
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.daily_quota import MOST, Amounts, Slice, SliceRequest
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.project_store import ProjectStore
from crawlfleet.wire.sync import OverBody, SliceBody, SliceWantBody, SyncUp

_MAX_BATCH = 4_000
_NUMBER_BITS = 31


class QuotaSliceSync:
    def __init__(self, *, store: ProjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._slice_requests: Batcher[SliceRequest, Slice | None] = Batcher(self._grant_slices, max_weight=_MAX_BATCH)

    async def grant_requested(self, up: SyncUp) -> list[SliceBody]:
        """Grant the requested slices; none to what is not a live execution of the node, which is ordered to stop."""
        wants = [_want_from_body(up.node, body) for body in up.wants if _is_valid(body)]
        granted = await self._slice_requests.put_items(wants)
        return [
            _slice_body(want, quota_slice)
            for want, quota_slice in zip(wants, granted, strict=True)
            if quota_slice is not None
        ]

    async def _grant_slices(self, wants: list[SliceRequest]) -> Sequence[Slice | None]:
        return await self._store.grant_slices(wants, self._clock.now())


def check_wants(up: SyncUp) -> None:
    if len(up.wants) > 2 * limits.SLOTS_MAX:
        raise InvalidInput(f"at most {2 * limits.SLOTS_MAX}", field="wants")


def _is_valid(body: SliceWantBody) -> bool:
    return is_storable(body.task, body.execution) and 0 < body.number < 1 << _NUMBER_BITS


def _want_from_body(node: int, body: SliceWantBody) -> SliceRequest:
    amounts = Amounts(min(max(0, body.pages), MOST.pages), min(max(0, body.bytes), MOST.bytes))
    return SliceRequest(node, body.task, body.execution, body.number, amounts)


def _slice_body(want: SliceRequest, granted: Slice) -> SliceBody:
    overs = [OverBody(over.quota, over.project, over.message, over.again_ms, over.is_held) for over in granted.denials]
    return SliceBody(want.execution, granted.number, *granted.total, overs)
