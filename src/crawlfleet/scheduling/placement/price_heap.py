"""Heaps of nodes by the price that one strategy has for them, cheapest first: one heap for each node class.

An entry is one whole number: the price, then a random number (so that ties spread), then the node's seat. Numbers are
compared faster than tuples, and those of ten thousand nodes stay in the processor's cache, where tuples with all that
they point to do not. An entry is valid as long as it is its node's newest; an old one is dropped when it comes to the
top.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from crawlfleet.scheduling.placement.filters import NodeState

_SEAT_BITS = 22
_CHANCE_BITS = 8
_LOW_BITS = _SEAT_BITS + _CHANCE_BITS
_LOW_MASK = (1 << _LOW_BITS) - 1
SEAT_MASK = (1 << _SEAT_BITS) - 1
"""Mask of the bits of an entry that are the seat."""
_STEPS_PER_UNIT = 2.0**28
"""Price steps per unit: prices that differ by less than a hundred-millionth are the same, so that most entries are
below 2**60, and short."""
_MAX_PRICE = 2.0**256
"""Upper bound of prices, and the price of NaN, which must not break the order of a heap."""
_NO_ENTRY = -1
_SPARE_ENTRIES = 64

Entry = int


class PriceHeaps:
    __slots__ = ("_cost", "_draw", "heaps", "newest")

    def __init__(self, cost: Callable[[NodeState, int], float], classes: int, seats: int, rng: random.Random) -> None:
        self.newest: list[Entry] = [_NO_ENTRY] * seats
        """Newest entry of each node, by seat."""
        self.heaps: list[list[Entry]] = [[] for _ in range(classes)]
        """Heap of each node class, by its number: the newest entries of its nodes with a free slot, and old ones."""
        self._cost = cost
        self._draw = rng.getrandbits

    def push(self, node_class: int, states: Iterable[NodeState], class_size: int) -> None:
        """Push nodes at the prices they have now; `class_size` is the number of nodes in the node class."""
        heap, newest, cost, draw = self.heaps[node_class], self.newest, self._cost, self._draw
        for state in states:
            seat = state.seat
            if state.held < state.slots:
                price = cost(state, 0)
                steps = int((price if price < _MAX_PRICE else _MAX_PRICE) * _STEPS_PER_UNIT)
                newest[seat] = entry = steps << _LOW_BITS | draw(_CHANCE_BITS) << _SEAT_BITS | seat
                heappush(heap, entry)
            else:
                newest[seat] = _NO_ENTRY
        if len(heap) > 2 * class_size + _SPARE_ENTRIES:
            # Old entries that never came to the top.
            heap[:] = [entry for entry in heap if newest[entry & SEAT_MASK] == entry]
            heapify(heap)

    def reprice(self, state: NodeState, entry: Entry) -> Entry:
        """Make the entry that replaces this one, now that the node's price may have risen."""
        price = self._cost(state, 0)
        steps = int((price if price < _MAX_PRICE else _MAX_PRICE) * _STEPS_PER_UNIT)
        new = self.newest[entry & SEAT_MASK] = steps << _LOW_BITS | entry & _LOW_MASK
        return new

    def remove(self, state: NodeState) -> None:
        self.newest[state.seat] = _NO_ENTRY

    def cheapest(self, node_class: int) -> Entry | None:
        """The cheapest entry of a node class; drops the old entries before it."""
        heap, newest = self.heaps[node_class], self.newest
        while heap:
            entry = heap[0]
            if newest[entry & SEAT_MASK] == entry:
                return entry
            heappop(heap)
        return None
