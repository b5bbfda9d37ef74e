"""Slots that follow the load: within bounds, never too fast, and at rest under a load that does not change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.model.node import Measurement
from crawlfleet.scheduling.nodes.slot_scaling import LoadLimits, LoadState, NodeLoad, next_slots

QUICK = settings(max_examples=60, derandomize=True, database=None)
LIMITS = LoadLimits()
STEP_S = 5.0
HOUR_S = 3_600.0

Load = Callable[[int, float], Measurement]
"""What a node measures with so many tasks running, at that time."""


def run(
    load: Load, start: int, bounds: tuple[int, int], seconds: float, *, is_wanted: bool = True
) -> list[tuple[float, int]]:
    """Every count there was, with when it began. All slots are always used."""
    state, slots, counts = LoadState(), start, [(0.0, start)]
    for tick in range(int(seconds / STEP_S)):
        at = tick * STEP_S
        state, resize = next_slots(state, NodeLoad(load(slots, at), slots, True, is_wanted), at, bounds)
        if resize is not None:
            assert resize.reason
            slots = resize.slots
            counts.append((at, slots))
    return counts


def turns(counts: Sequence[tuple[float, int]]) -> list[float]:
    """When it went the other way."""
    signs = [(at, b > a) for (_, a), (at, b) in pairwise(counts)]
    return [at for (_, was), (at, now) in pairwise(signs) if was != now]


bounds_and_start = st.tuples(st.integers(1, 8), st.integers(8, 64)).flatmap(
    lambda bounds: st.tuples(st.just(bounds), st.integers(*bounds))
)
shares = st.floats(0.0, 1.0)


@QUICK
@given(bounds_and_start, shares, shares, st.floats(0.0, 4.0))
def test_under_a_figure_that_stands_still_it_settles(
    case: tuple[tuple[int, int], int], cpu: float, memory: float, load: float
) -> None:
    """Whatever is measured, if it does not depend on the slots: one way, to an end, and there it stays."""
    bounds, start = case
    counts = run(lambda _slots, _at: Measurement(cpu=cpu, memory=memory, load=load), start, bounds, HOUR_S)
    assert turns(counts) == []
    assert all(bounds[0] <= slots <= bounds[1] for _, slots in counts)
    over = cpu > LIMITS.cpu or memory > LIMITS.memory or load > LIMITS.load
    spare = LIMITS.spare_share
    has_room = cpu < LIMITS.cpu * spare and memory < LIMITS.memory * spare and load < LIMITS.load * spare
    if over:
        assert counts[-1][1] == bounds[0]
    elif has_room:
        assert counts[-1][1] == bounds[1]
    assert counts[-1][0] < HOUR_S - 600


@QUICK
@given(bounds_and_start, st.lists(st.floats(0.0, 0.3), min_size=64, max_size=64), shares)
def test_under_work_of_one_kind_it_settles_and_tries_again_ever_more_seldom(
    case: tuple[tuple[int, int], int], steps: list[float], base: float
) -> None:
    """Each more task adds what it adds, little or much: after the search there is one try per `forget_s`, then per
    twice as long, and so on, and each ends where it began."""
    bounds, start = case
    cpu = [min(1.0, base + added) for added in accumulate([0.0, *steps])]
    counts = run(lambda slots, _at: Measurement(cpu=cpu[slots]), start, bounds, 4 * HOUR_S)
    assert all(bounds[0] <= slots <= bounds[1] for _, slots in counts)
    tries = turns(counts)
    # Up, down and up again below the ceiling is the search; each later try is two turns. In four hours there is room
    # for four waits that double from ten minutes.
    assert len(tries) <= 3 + 2 * 4
    final = counts[-1][1]
    if counts[-1][0] < 3 * HOUR_S:
        assert cpu[final] <= LIMITS.cpu or final == bounds[0]


@QUICK
@given(bounds_and_start, st.lists(st.tuples(shares, shares, st.floats(0, 5), shares), min_size=5, max_size=200))
def test_whatever_is_measured_changes_are_small_and_apart(
    case: tuple[tuple[int, int], int], figures: list[tuple[float, float, float, float]]
) -> None:
    bounds, start = case

    def load(_slots: int, at: float) -> Measurement:
        cpu, memory, per_core, errors = figures[int(at / STEP_S) % len(figures)]
        return Measurement(cpu=cpu, memory=memory, load=per_core, error_rate=errors)

    counts = run(load, start, bounds, HOUR_S)
    for (was_at, was), (at, now) in pairwise(counts):
        assert at - was_at >= LIMITS.settle_s
        assert abs(now - was) <= max(1, was // 8)
        assert bounds[0] <= now <= bounds[1]


@QUICK
@given(bounds_and_start)
def test_nothing_is_raised_for_work_that_does_not_wait(case: tuple[tuple[int, int], int]) -> None:
    bounds, start = case
    assert run(lambda _slots, _at: Measurement(), start, bounds, 600.0, is_wanted=False) == [(0.0, start)]
