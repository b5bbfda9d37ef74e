"""Slices of daily quotas that the node's metered executions request from a master.

Every sync carries all requests that are not answered: a lost call or a lost answer needs no bookkeeping, as the store
grants each request number of an execution once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from crawlfleet.model import limits
from crawlfleet.wire.sync import SliceBody, SliceWantBody

OnSlice = Callable[[SliceBody], None]


class QuotaSlices:
    """Open slice requests of the node's executions, and where their answers go."""

    def __init__(self) -> None:
        self._requests: dict[int, SliceWantBody] = {}
        self._callbacks: dict[int, OnSlice] = {}
        self._schedule_sync: Callable[[float], None] = _no_sync

    def attach_sync(self, schedule_sync: Callable[[float], None]) -> None:
        """`schedule_sync` is called with the seconds within which a sync has to go."""
        self._schedule_sync = schedule_sync

    def request_slice(self, body: SliceWantBody, on_slice: OnSlice) -> None:
        """Request a slice for a running execution; `on_slice` is called with each answer."""
        self._requests[body.execution] = body
        self._callbacks[body.execution] = on_slice
        self._schedule_sync(0.0)

    def forget_execution(self, execution: int) -> None:
        """Drop the request of an execution that is over."""
        self._requests.pop(execution, None)
        self._callbacks.pop(execution, None)

    def pending_requests(self) -> list[SliceWantBody]:
        return list(islice(self._requests.values(), limits.SLOTS_MAX))

    def apply_slices(self, slices: Sequence[SliceBody]) -> bool:
        """Pass slices to their executions; True when one of them answers an open request."""
        is_new = False
        for body in slices:
            request, on_slice = self._requests.get(body.execution), self._callbacks.get(body.execution)
            if request is not None and body.number >= request.number:
                del self._requests[body.execution]
                is_new = True
            if on_slice is not None:
                on_slice(body)
        return is_new


def _no_sync(_within_s: float) -> None:
    """Default until a session is attached: no sync is scheduled."""
