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

_STEP_DIVISOR = 8
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
    ceiling_s: float = 600.0
    max_ceiling_s: float = 86_400.0


class NodeLoad(NamedTuple):
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
    ceiling_s: float = 0.0


class Resize(NamedTuple):
    slots: int
    reason: str


def next_slots(
    state: LoadState, load: NodeLoad, now_mono: float, bounds: tuple[int, int], limits: LoadLimits = LoadLimits()
) -> tuple[LoadState, Resize | None]:
    """The next state, and a change of slots if one is due. `now_mono` is in monotonic seconds; `bounds` are the fewest
    and the most slots."""
    min_slots, max_slots = bounds
    slots = load.slots
    if not min_slots <= slots <= max_slots:
        within = max(min_slots, min(max_slots, slots))
        return LoadState(settled_at=now_mono + limits.settle_s), Resize(
            within, f"its cluster allows {min_slots} to {max_slots}"
        )
    state = _update_averages(state, load.measurement, now_mono, limits)
    assert state.settled_at is not None
    if now_mono < state.settled_at:
        return state, None
    step = max(1, slots // _STEP_DIVISOR)
    if excess := _describe_above(state, limits, 1.0):
        fewer = max(min_slots, slots - step)
        if fewer == slots:
            return state, None
        return _with_ceiling(state, slots - 1, now_mono, limits), Resize(fewer, f"too much: {excess}")
    top = max_slots if state.ceiling is None or now_mono >= state.ceiling_until else min(max_slots, state.ceiling)
    more = min(top, slots + step)
    if more <= slots or not (load.is_full and load.is_wanted) or _describe_above(state, limits, limits.spare_share):
        return state, None
    return _reset_averages(state, now_mono, limits), Resize(
        more, "all slots are used, work waits, and there is room for more"
    )


def _update_averages(state: LoadState, measurement: Measurement, now_mono: float, limits: LoadLimits) -> LoadState:
    waited_s = 0.0 if state.measured_at is None else max(0.0, now_mono - state.measured_at)
    weight = 0.5 ** (waited_s / limits.half_life_s)
    averages = dict(state.averages)
    for name in _LIMITED_FIGURES:
        value = getattr(measurement, name)
        # NaN would stay in the average for ever.
        if math.isfinite(value):
            averages[name] = value + (averages.get(name, value) - value) * weight
    settled_at = now_mono + limits.settle_s if state.settled_at is None else state.settled_at
    return replace(state, averages=averages, measured_at=now_mono, settled_at=settled_at)


_LIMITED_FIGURES = ("cpu", "memory", "load", "start_latency_s")


def _describe_above(state: LoadState, limits: LoadLimits, share: float) -> str:
    """The figures above that share of their limit, in words; empty when none is."""
    excesses = [
        f"{name} {state.averages[name]:.2f} of {getattr(limits, name):g}"
        for name in _LIMITED_FIGURES
        if state.averages.get(name, 0.0) > getattr(limits, name) * share
    ]
    return ", ".join(excesses)


def _with_ceiling(state: LoadState, ceiling: int, now_mono: float, limits: LoadLimits) -> LoadState:
    ceiling_s = state.ceiling_s
    if state.ceiling is None or ceiling > state.ceiling:
        ceiling_s = limits.ceiling_s
    elif now_mono >= state.ceiling_until:
        ceiling_s = min(2 * ceiling_s, limits.max_ceiling_s)
    state = replace(state, ceiling=ceiling, ceiling_until=now_mono + ceiling_s, ceiling_s=ceiling_s)
    return _reset_averages(state, now_mono, limits)


def _reset_averages(state: LoadState, now_mono: float, limits: LoadLimits) -> LoadState:
    return replace(state, averages={}, measured_at=None, settled_at=now_mono + limits.settle_s)
