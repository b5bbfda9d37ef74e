"""How a host's budget is divided: whole units of rate and concurrency, to whoever wants the host.

The sum of the grants keeps the budget at every instant because of three things:
    whole units     a holder of r units spaces its requests by a little more than 1/r s, without bursts, so that any
                    sliding second has at most r of them; sums of such holders keep the sum of their units
    cuts first      a unit is given away when its holder has said that it no longer uses it, or is known to have
                    stopped. What left within the second before still counts: of the rate, what was used is free a
                    second later and what was not used at once, as is all concurrency
    no clock        a grant belongs to the holder's session; nothing has to arrive in time for a grant to end

What cannot be divided (less than one request a second, a crawl delay) is one unit of rate: it is one holder's, and the
others wait for their turn. The same code divides a budget over nodes and a node's part over its processes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from crawlfleet.model.host_budget import NONE, Units

KeyT = TypeVar("KeyT", bound=Hashable)

WINDOW_S = 1.0
"""What was used before a cut counts for so long after it."""
TURN_S = 10.0
RATE_LEAST = 2
"""A holder that wants one page asks for robots.txt as well."""


@dataclass(slots=True)
class Holder:
    """Somebody who wants a host, holds a part of its budget, or may still be using one."""

    wanted: int | None = None
    """How many requests could leave now; 0: none, but it would keep what it has; None: it wants the host no more."""
    current: Units = NONE
    may_use: Units = NONE
    """The most of all it was given and may not have given up yet."""
    spent: int = 0
    """Of that rate, what it had used before it was cut: nobody can use it again before the window is over."""
    since: float = 0.0
    """When it began to hold, or to wait."""


def total(units: Sequence[Units]) -> Units:
    return Units(sum(one.rate for one in units), sum(one.concurrency for one in units))


def turn_s(spacing_s: float) -> float:
    """How long one may hold what others wait for: time for a few requests, however far apart."""
    return max(TURN_S, 4 * spacing_s)


def divide(pool: Units, holders: Mapping[KeyT, Holder], now: float, turn: float = TURN_S) -> dict[KeyT, Units]:
    """What each holder has from now on; the sum of what all may use keeps the pool, or does not grow."""
    seats = _seats(pool, holders, now, turn)
    fair = _filled(pool, seats, holders)
    kept = {key: holder.current if holder.wanted is not None else NONE for key, holder in holders.items()}
    if _is_fair(pool, kept, seats, fair, holders):
        targets = _with_rest(pool, kept, seats)
    else:
        targets = dict.fromkeys(holders, NONE) | _with_rest(pool, fair | _left_alone(pool, fair, holders), seats)
    return _within(pool, holders, targets)


def _seats(pool: Units, holders: Mapping[KeyT, Holder], now: float, turn: float) -> list[KeyT]:
    """Who gets something: there may be fewer units than holders. Whose turn is over goes behind those who wait."""

    def rank(key: KeyT) -> tuple[int, float, str]:
        holder = holders[key]
        if not holder.current:
            return 1, holder.since, str(key)
        return (0 if now - holder.since < turn else 2), holder.since, str(key)

    wanting = sorted((key for key, holder in holders.items() if holder.wanted), key=rank)
    return wanting[: min(pool)]


def _filled(pool: Units, seats: Sequence[KeyT], holders: Mapping[KeyT, Holder]) -> dict[KeyT, Units]:
    """Equal parts, and no more than somebody can use."""
    wanted = {key: holders[key].wanted or 0 for key in seats}
    rates = _level(pool.rate, {key: max(RATE_LEAST, most) for key, most in wanted.items()})
    concurrency = _level(pool.concurrency, wanted)
    return {key: Units(rates[key], concurrency[key]) for key in seats}


def _level(pool: int, caps: Mapping[KeyT, int]) -> dict[KeyT, int]:
    have = dict.fromkeys(caps, 0)
    open_to_more = [key for key in caps if caps[key] > 0]
    while pool > 0 and open_to_more:
        each = max(1, pool // len(open_to_more))
        for key in open_to_more:
            given = min(each, caps[key] - have[key], pool)
            have[key] += given
            pool -= given
        open_to_more = [key for key in open_to_more if have[key] < caps[key]]
    return have


def _is_fair(
    pool: Units,
    kept: Mapping[KeyT, Units],
    seats: Sequence[KeyT],
    fair: Mapping[KeyT, Units],
    holders: Mapping[KeyT, Holder],
) -> bool:
    """Good enough to stay: nobody has less than half of a fair part, so that small changes move nothing."""
    if not total(list(kept.values())).fits(pool):
        return False
    if any(2 * kept[key].rate < fair[key].rate or 2 * kept[key].concurrency < fair[key].concurrency for key in seats):
        return False
    seated = set(seats)
    return not any(holder.wanted and kept[key] and key not in seated for key, holder in holders.items())


def _left_alone(pool: Units, fair: dict[KeyT, Units], holders: Mapping[KeyT, Holder]) -> dict[KeyT, Units]:
    """Who wants nothing at the moment keeps what nobody wants: it may want the host again in the next."""
    idle = [key for key, holder in holders.items() if holder.wanted == 0 and holder.current]
    even = _with_rest(pool, fair | dict.fromkeys(idle, NONE), [*fair, *idle])
    return {key: Units(*map(min, even[key], holders[key].current)) for key in idle}


def _with_rest(pool: Units, have: Mapping[KeyT, Units], seats: Sequence[KeyT]) -> dict[KeyT, Units]:
    """What nobody has goes to those who have least: an idle unit helps no one."""
    given = dict(have)
    if not seats:
        return given
    used = total(list(given.values()))
    rates = _raised(pool.rate - used.rate, {key: given[key].rate for key in seats})
    concurrency = _raised(pool.concurrency - used.concurrency, {key: given[key].concurrency for key in seats})
    return given | {key: Units(rates[key], concurrency[key]) for key in seats}


def _raised(left: int, have: Mapping[KeyT, int]) -> dict[KeyT, int]:
    """The lowest first, up to the next and together with it from there on: what is wanted now may be more in a moment,
    and to have as much as the others is to have enough then."""
    level, keys = dict(have), sorted(have, key=lambda key: have[key])
    for place, key in enumerate(keys, 1):
        if left <= 0:
            break
        lowest, above = keys[:place], have[keys[place]] if place < len(keys) else None
        room = left if above is None else min(left, place * (above - level[key]))
        each, odd = divmod(room, place)
        for at, one in enumerate(lowest):
            level[one] += each + (at < odd)
        left -= room
    return level


def _within(pool: Units, holders: Mapping[KeyT, Holder], targets: Mapping[KeyT, Units]) -> dict[KeyT, Units]:
    """Cuts at once; raises as far as nobody may use those units any more, first to those who have nothing."""
    used = total([holder.may_use for holder in holders.values()])
    free = [max(0, pool.rate - used.rate), max(0, pool.concurrency - used.concurrency)]
    given = {}
    for key in sorted(targets, key=lambda key: (bool(holders[key].current), holders[key].since, str(key))):
        parts = []
        of = holders[key].may_use
        own = (of.rate - holders[key].spent, of.concurrency)
        for place, (want, may) in enumerate(zip(targets[key], own, strict=True)):
            more = min(max(0, want - may), free[place])
            free[place] -= more
            parts.append(min(want, may) + more)
        given[key] = Units(*parts)
    return given
