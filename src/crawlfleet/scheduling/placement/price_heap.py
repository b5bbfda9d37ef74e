"""The nodes by the price that one strategy has for them, cheapest first: a heap for each group of alike nodes.

An entry is one whole number: the price, then chance (so that ties spread), then the node's seat. Numbers are compared
faster than tuples, and those of ten thousand nodes stay in the processor's cache, where tuples with all that they point
to do not. An entry is good as long as it is its node's newest; what is old is dropped when it comes to the top.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from crawlfleet.scheduling.placement.filters import NodeState

_SEAT_BITS = 22
_CHANCE_BITS = 8
_LOW_BITS = _SEAT_BITS + _CHANCE_BITS
_LOW = (1 << _LOW_BITS) - 1
SEAT = (1 << _SEAT_BITS) - 1
"""What of an entry is the seat."""
_FINE = 2.0**28
"""Prices that differ by less than a hundred-millionth are the same: so most entries are below 2**60, and short."""
_DEAREST = 2.0**256
"""Also the price of what is no number: it must not break the order of a heap."""
_NO_ENTRY = -1
_FEW = 64

Entry = int


class ByPrice:
    __slots__ = ("_cost", "_draw", "heaps", "newest")

    def __init__(self, cost: Callable[[NodeState, int], float], groups: int, seats: int, rng: random.Random) -> None:
        self.newest: list[Entry] = [_NO_ENTRY] * seats
        """By seat."""
        self.heaps: list[list[Entry]] = [[] for _ in range(groups)]
        """By the number of the group: the newest entries of its nodes that have a free slot, and some that are old."""
        self._cost = cost
        self._draw = rng.getrandbits

    def enter(self, group: int, states: Iterable[NodeState], nodes: int) -> None:
        """At the prices they have now. `nodes` are in the group."""
        heap, newest, cost, draw = self.heaps[group], self.newest, self._cost, self._draw
        for state in states:
            seat = state.seat
            if state.held < state.slots:
                price = cost(state, 0)
                steps = int((price if price < _DEAREST else _DEAREST) * _FINE)
                newest[seat] = entry = steps << _LOW_BITS | draw(_CHANCE_BITS) << _SEAT_BITS | seat
                heappush(heap, entry)
            else:
                newest[seat] = _NO_ENTRY
        if len(heap) > 2 * nodes + _FEW:
            # Old entries that never came to the top.
            heap[:] = [entry for entry in heap if newest[entry & SEAT] == entry]
            heapify(heap)

    def rise(self, state: NodeState, entry: Entry) -> Entry:
        """The entry that a node has instead of this one, now that its price may have risen."""
        price = self._cost(state, 0)
        steps = int((price if price < _DEAREST else _DEAREST) * _FINE)
        new = self.newest[entry & SEAT] = steps << _LOW_BITS | entry & _LOW
        return new

    def leave(self, state: NodeState) -> None:
        self.newest[state.seat] = _NO_ENTRY

    def first(self, group: int) -> Entry | None:
        """The cheapest, without the old entries before it."""
        heap, newest = self.heaps[group], self.newest
        while heap:
            entry = heap[0]
            if newest[entry & SEAT] == entry:
                return entry
            heappop(heap)
        return None
