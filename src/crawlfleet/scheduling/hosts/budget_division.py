"""Divides a host's budget: whole units of rate and concurrency, to the holders that want the host.

The sum of the grants keeps the budget at every instant because of three things:
    whole units     a holder of r units spaces its requests by a little more than 1/r s, without bursts, so that any
                    sliding second has at most r of them; sums of such holders keep the sum of their units
    cuts first      a unit is given away when its holder has acknowledged that it no longer uses it, or is known to
                    have stopped. Requests sent within the second before still count: of the rate, what was used is
                    free a second later and what was not used at once, as is all concurrency
    no clock        a grant belongs to the holder's session; nothing has to arrive in time for a grant to end

What cannot be divided (less than one request a second, a crawl delay) is one unit of rate: it is one holder's, and the
others wait for their turn. The same code divides a budget over nodes and a node's part over its processes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from crawlfleet.model.host import NONE, Units

KeyT = TypeVar("KeyT", bound=Hashable)

WINDOW_S = 1.0
"""Seconds after a cut during which units used before it still count."""
TURN_S = 10.0
MIN_WANTED_RATE = 2
"""Smallest rate that is useful: a holder that wants one page requests robots.txt as well."""


@dataclass(slots=True)
class Holder:
    """A node or process that wants a host, holds a part of its budget, or may still be using one."""

    wanted: int | None = None
    """Number of requests that could leave now; 0: none, but the holder keeps its units; None: it wants the host no
    more."""
    current: Units = NONE
    may_use: Units = NONE
    """The most of all units it was granted and may not have given up yet."""
    spent: int = 0
    """Part of that rate that was used before a cut: it cannot be used again before the window is over."""
    since: float = 0.0
    """Monotonic time at which it began to hold, or to wait."""


def total_units(units: Sequence[Units]) -> Units:
    return Units(sum(part.rate for part in units), sum(part.concurrency for part in units))


def turn_length_s(spacing_s: float) -> float:
    """Seconds that one holder may hold what others wait for: time for a few requests, however far apart."""
    return max(TURN_S, 4 * spacing_s)


def divide_budget(pool: Units, holders: Mapping[KeyT, Holder], now: float, turn: float = TURN_S) -> dict[KeyT, Units]:
    """The units of each holder from now on; the sum of what all may use fits the pool, or does not grow."""
    seats = _seated_holders(pool, holders, now, turn)
    fair = _fair_parts(pool, seats, holders)
    current_units = {key: holder.current if holder.wanted is not None else NONE for key, holder in holders.items()}
    if _is_fair(pool, current_units, seats, fair, holders):
        targets = _share_rest(pool, current_units, seats)
    else:
        targets = dict.fromkeys(holders, NONE) | _share_rest(pool, fair | _idle_parts(pool, fair, holders), seats)
    return _limit_to_pool(pool, holders, targets)


def _seated_holders(pool: Units, holders: Mapping[KeyT, Holder], now: float, turn: float) -> list[KeyT]:
    """The holders that get units, as there may be fewer units than holders. One whose turn is over goes to the end."""

    def rank(key: KeyT) -> tuple[int, float, str]:
        holder = holders[key]
        if not holder.current:
            return 1, holder.since, str(key)
        return (0 if now - holder.since < turn else 2), holder.since, str(key)

    wanting = sorted((key for key, holder in holders.items() if holder.wanted), key=rank)
    return wanting[: min(pool)]


def _fair_parts(pool: Units, seats: Sequence[KeyT], holders: Mapping[KeyT, Holder]) -> dict[KeyT, Units]:
    """Equal parts for the seated holders, and no more than each can use."""
    wanted = {key: holders[key].wanted or 0 for key in seats}
    rates = _fill_evenly(pool.rate, {key: max(MIN_WANTED_RATE, limit) for key, limit in wanted.items()})
    concurrency = _fill_evenly(pool.concurrency, wanted)
    return {key: Units(rates[key], concurrency[key]) for key in seats}


def _fill_evenly(pool: int, caps: Mapping[KeyT, int]) -> dict[KeyT, int]:
    levels = dict.fromkeys(caps, 0)
    open_to_more = [key for key in caps if caps[key] > 0]
    while pool > 0 and open_to_more:
        step = max(1, pool // len(open_to_more))
        for key in open_to_more:
            given = min(step, caps[key] - levels[key], pool)
            levels[key] += given
            pool -= given
        open_to_more = [key for key in open_to_more if levels[key] < caps[key]]
    return levels


def _is_fair(
    pool: Units,
    current_units: Mapping[KeyT, Units],
    seats: Sequence[KeyT],
    fair: Mapping[KeyT, Units],
    holders: Mapping[KeyT, Holder],
) -> bool:
    """Whether the present parts may stay: none is less than half of a fair part, so that small changes move nothing."""
    if not total_units(list(current_units.values())).fits_within(pool):
        return False
    if any(
        2 * current_units[key].rate < fair[key].rate or 2 * current_units[key].concurrency < fair[key].concurrency
        for key in seats
    ):
        return False
    seated = set(seats)
    return not any(holder.wanted and current_units[key] and key not in seated for key, holder in holders.items())


def _idle_parts(pool: Units, fair: dict[KeyT, Units], holders: Mapping[KeyT, Holder]) -> dict[KeyT, Units]:
    """Parts of holders that want nothing now: they keep units that no other wants, as they may want the host again."""
    idle = [key for key, holder in holders.items() if holder.wanted == 0 and holder.current]
    even = _share_rest(pool, fair | dict.fromkeys(idle, NONE), [*fair, *idle])
    return {key: Units(*map(min, even[key], holders[key].current)) for key in idle}


def _share_rest(pool: Units, units: Mapping[KeyT, Units], seats: Sequence[KeyT]) -> dict[KeyT, Units]:
    """Give the units that are left to the holders that have least: an idle unit helps no one."""
    given = dict(units)
    if not seats:
        return given
    used = total_units(list(given.values()))
    rates = _raise_lowest(pool.rate - used.rate, {key: given[key].rate for key in seats})
    concurrency = _raise_lowest(pool.concurrency - used.concurrency, {key: given[key].concurrency for key in seats})
    return given | {key: Units(rates[key], concurrency[key]) for key in seats}


def _raise_lowest(left: int, before: Mapping[KeyT, int]) -> dict[KeyT, int]:
    """Raise the lowest first, up to the next and together with it from there on: demand may grow at any time, and to
    have as much as the others is enough then."""
    level, keys = dict(before), sorted(before, key=lambda key: before[key])
    for count, key in enumerate(keys, 1):
        if left <= 0:
            break
        lowest, above = keys[:count], before[keys[count]] if count < len(keys) else None
        step = left if above is None else min(left, count * (above - level[key]))
        share, odd = divmod(step, count)
        for index, holder in enumerate(lowest):
            level[holder] += share + (index < odd)
        left -= step
    return level


def _limit_to_pool(pool: Units, holders: Mapping[KeyT, Holder], targets: Mapping[KeyT, Units]) -> dict[KeyT, Units]:
    """Apply cuts at once, and raises as far as units are free, first for holders that have nothing."""
    used = total_units([holder.may_use for holder in holders.values()])
    free = [max(0, pool.rate - used.rate), max(0, pool.concurrency - used.concurrency)]
    given = {}
    for key in sorted(targets, key=lambda key: (bool(holders[key].current), holders[key].since, str(key))):
        parts = []
        usable = holders[key].may_use
        own = (usable.rate - holders[key].spent, usable.concurrency)
        for index, (target, limit) in enumerate(zip(targets[key], own, strict=True)):
            more = min(max(0, target - limit), free[index])
            free[index] -= more
            parts.append(min(target, limit) + more)
        given[key] = Units(*parts)
    return given
