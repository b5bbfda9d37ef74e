"""Scales the slots of a node: how many tasks it should run at a time, from what it measures.

A little more when every slot is used, more work waits for just this node, and everything it measures is well below its
limit; less when anything is above. Averages begin anew with each change, and nothing changes while they settle.

It does not swing: the count at which a node had too much is remembered as a ceiling and not tried again for a while,
and each time that it proves too much once more, for twice as long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from crawlfleet.model.node import Measurement

_PART = 8
"""Divisor of the slots that gives the step of a change: an eighth, and at least one."""


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """Shares from 0 to 1, except load (per core) and latency. Above any of them is too much."""

    cpu: float = 0.95
    memory: float = 0.85
    load: float = 2.0
    start_latency_s: float = 3.0
    spare_share: float = 0.8
    """Share of each limit below which there is room for more."""
    half_life_s: float = 10.0
    settle_s: float = 30.0
    """Seconds between two changes, and before the first."""
    forget_s: float = 600.0
    forget_most_s: float = 86_400.0


class Seen(NamedTuple):
    measurement: Measurement
    slots: int
    """Slots in effect now."""
    is_full: bool
    is_wanted: bool
    """Whether work waits that this node would get if it had another slot."""


@dataclass(frozen=True, slots=True)
class LoadState:
    """What the leader remembers of the load of one node. A new leader begins with `LoadState()`."""

    averages: Mapping[str, float] = field(default_factory=dict)
    measured_at: float | None = None
    settled_at: float | None = None
    ceiling: int | None = None
    ceiling_until: float = 0.0
    forget_s: float = 0.0


class Resize(NamedTuple):
    slots: int
    reason: str


def next_slots(
    state: LoadState, seen: Seen, at: float, bounds: tuple[int, int], limits: LoadLimits = LoadLimits()
) -> tuple[LoadState, Resize | None]:
    """The next state, and a change of slots if one is due. `now_mono` is in monotonic seconds; `bounds` are the fewest
    and the most slots."""
    least, most = bounds
    slots = seen.slots
    if not least <= slots <= most:
        within = max(least, min(most, slots))
        return LoadState(settled_at=at + limits.settle_s), Resize(within, f"its cluster allows {least} to {most}")
    state = _measured(state, seen.measurement, at, limits)
    assert state.settled_at is not None
    if at < state.settled_at:
        return state, None
    step = max(1, slots // _PART)
    if over := _above(state, limits, 1.0):
        fewer = max(least, slots - step)
        if fewer == slots:
            return state, None
        return _with_ceiling(state, slots - 1, at, limits), Resize(fewer, f"too much: {over}")
    top = most if state.ceiling is None or at >= state.ceiling_until else min(most, state.ceiling)
    more = min(top, slots + step)
    if more <= slots or not (seen.is_full and seen.is_wanted) or _above(state, limits, limits.spare_share):
        return state, None
    return _changed(state, at, limits), Resize(more, "all slots are used, work waits, and there is room for more")


def _measured(state: LoadState, measurement: Measurement, at: float, limits: LoadLimits) -> LoadState:
    waited_s = 0.0 if state.measured_at is None else max(0.0, at - state.measured_at)
    weight = 0.5 ** (waited_s / limits.half_life_s)
    averages = dict(state.averages)
    for name in _LIMITED:
        value = getattr(measurement, name)
        # NaN would stay in the average for ever.
        if math.isfinite(value):
            averages[name] = value + (averages.get(name, value) - value) * weight
    settled_at = at + limits.settle_s if state.settled_at is None else state.settled_at
    return replace(state, averages=averages, measured_at=at, settled_at=settled_at)


_LIMITED = ("cpu", "memory", "load", "start_latency_s")


def _above(state: LoadState, limits: LoadLimits, share: float) -> str:
    """The figures above that share of their limit, in words; empty when none is."""
    found = [
        f"{name} {state.averages[name]:.2f} of {getattr(limits, name):g}"
        for name in _LIMITED
        if state.averages.get(name, 0.0) > getattr(limits, name) * share
    ]
    return ", ".join(found)


def _with_ceiling(state: LoadState, ceiling: int, at: float, limits: LoadLimits) -> LoadState:
    forget_s = state.forget_s
    if state.ceiling is None or ceiling > state.ceiling:
        forget_s = limits.forget_s
    elif at >= state.ceiling_until:
        forget_s = min(2 * forget_s, limits.forget_most_s)
    state = replace(state, ceiling=ceiling, ceiling_until=at + forget_s, forget_s=forget_s)
    return _changed(state, at, limits)


def _changed(state: LoadState, at: float, limits: LoadLimits) -> LoadState:
    return replace(state, averages={}, measured_at=None, settled_at=at + limits.settle_s)
