"""The sum of what all holders may use keeps a host's budget at every instant, whatever happens to them."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from crawlfleet.model.host import NONE, Units
from crawlfleet.scheduling.hosts.budget_division import Holder, divide_budget, total_units
from tests.property.scheduling.hosts.grants_model import GUARD_S, STEP_S, World
from tests.property.scheduling.hosts.tiers_model import Tiers

NUMBERS = st.integers(0, 5)
POOLS = st.builds(Units, st.integers(1, 12), st.integers(1, 8))
UNITS = st.builds(Units, st.integers(0, 9), st.integers(0, 9))


class Grants(RuleBasedStateMachine):
    world: World

    @initialize(pool=POOLS)
    def begin(self, pool: Units) -> None:
        self.world = World(pool)

    @rule(number=NUMBERS, wanted=st.integers(0, 30) | st.none())
    def want(self, number: int, wanted: int | None) -> None:
        self.world.want(self.world.find(number) or self.world.join(number), wanted)

    @rule(number=NUMBERS)
    def lose_or_mend_link(self, number: int) -> None:
        if node := self.world.find(number):
            node.has_link = not node.has_link

    @rule(number=NUMBERS)
    def lose_or_hear_answers(self, number: int) -> None:
        if node := self.world.find(number):
            node.is_deaf = not node.is_deaf

    @rule(number=NUMBERS, ease=st.integers(1, 6), counts=st.booleans())
    def have_more_or_less_to_do(self, number: int, ease: int, counts: bool) -> None:
        if node := self.world.find(number):
            node.ease, node.counts = ease, counts

    @rule(number=NUMBERS)
    def leave(self, number: int) -> None:
        if node := self.world.find(number):
            self.world.leave(node)

    @rule(number=NUMBERS)
    def restart_beside_its_old_processes(self, number: int) -> None:
        if node := self.world.find(number):
            self.world.restart(node)

    @rule(pool=POOLS | st.just(NONE))
    def change_budget(self, pool: Units) -> None:
        self.world.shares.pool, self.world.shares.spacing_ms = pool, 0

    @rule(spacing_ms=st.sampled_from([1_500, 4_000]))
    def pin(self, spacing_ms: int) -> None:
        self.world.shares.pool, self.world.shares.spacing_ms = Units(1, 1), spacing_ms

    @rule(steps=st.integers(1, 60))
    def pass_time(self, steps: int) -> None:
        self.world.step(steps)

    @invariant()
    def nobody_uses_more_than_the_leader_counts(self) -> None:
        if hasattr(self, "world"):
            for node in self.world.nodes:
                if node.uses and self.world.now - node.heard_at < GUARD_S:
                    assert node.uses.fits_within(self.world.shares.holders[node.key].may_use)

    def teardown(self) -> None:
        """When all is quiet, everybody who wants something is served in turn."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.shares.pool, world.shares.spacing_ms = Units(2, 2), 0
        mine = [node for node in world.nodes if not node.is_orphan]
        for node in mine:
            node.has_link, node.is_deaf = True, False
            world.want(node, 5)
        served = set()
        for _ in range(round(60 / STEP_S)):
            world.step()
            served |= {node.key for node in mine if node.uses}
        assert served == {node.key for node in mine}
        assert world.shares.may_use.fits_within(world.shares.pool)


Grants.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestGrants = Grants.TestCase

HOLDERS = st.lists(
    st.builds(Holder, wanted=st.integers(0, 40) | st.none(), current=UNITS, since=st.floats(0, 20)), max_size=8
)


@given(POOLS, HOLDERS, st.floats(20, 40))
def test_raises_never_pass_the_budget_and_cuts_are_free(pool: Units, listed: list[Holder], now: float) -> None:
    holders = {f"n{place}": holder for place, holder in enumerate(listed)}
    for holder in listed:
        holder.may_use = holder.current
    before = total_units([holder.may_use for holder in listed])
    given_units = divide_budget(pool, holders, now)
    after = total_units([holders[key].may_use.larger_units(units) for key, units in given_units.items()])
    assert after.fits_within(pool.larger_units(before))
    assert all(given_units[key] == NONE for key, holder in holders.items() if holder.wanted is None)


@given(POOLS, st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_from_nothing_every_unit_is_given_and_parts_are_even(pool: Units, wants: list[int]) -> None:
    holders = {f"n{place}": Holder(wanted=wanted) for place, wanted in enumerate(wants)}
    granted = divide_budget(pool, holders, 0.0)
    assert total_units(list(granted.values())) == pool
    seated = [units for units in granted.values() if units]
    assert len(seated) == min(len(wants), *pool)


@given(POOLS, st.lists(st.integers(1, 40), min_size=1, max_size=8), st.data())
def test_what_was_divided_stays_while_wants_hardly_change(pool: Units, wants: list[int], data: st.DataObject) -> None:
    holders = {f"n{place}": Holder(wanted=wanted) for place, wanted in enumerate(wants)}
    for key, units in divide_budget(pool, holders, 0.0).items():
        holders[key].current = holders[key].may_use = units
    assert divide_budget(pool, holders, 1.0) == {key: holder.current for key, holder in holders.items()}


def _held_by_one(pool: Units) -> World:
    """One node holds all of it and asks as often as it may."""
    world = World(pool)
    world.want(world.join(0), 30)
    world.step(40)
    assert world.nodes[0].uses == pool
    return world


def test_a_node_that_hears_no_answers_keeps_its_part_until_it_is_known_to_have_stopped() -> None:
    world = _held_by_one(Units(8, 4))
    world.nodes[0].is_deaf = True
    other = world.join(1)
    world.want(other, 30)
    world.step(round(GUARD_S / STEP_S))
    assert other.uses == NONE
    world.nodes[0].has_link = False
    world.step(round(12 / STEP_S))
    assert other.uses == Units(8, 4)


def test_a_replaced_sessions_processes_are_reckoned_with_for_a_lease() -> None:
    world = _held_by_one(Units(8, 4))
    again = world.restart(world.nodes[0])
    world.want(again, 30)
    world.step(round(GUARD_S / STEP_S))
    assert again.uses == NONE
    world.step(round(5 / STEP_S))
    assert again.uses == Units(8, 4)


def test_a_unit_that_moves_is_in_no_window_twice() -> None:
    """Several holders, each with units before and after: where the rounding of each could add up."""
    for pool in (Units(5, 5), Units(8, 8), Units(13, 8)):
        world = _held_by_one(pool)
        for number in range(1, 5):
            world.want(world.join(number), 30)
            world.step(67)
        for number in range(4):
            node = world.find(number)
            assert node is not None
            world.want(node, None)
            world.step(61)


@given(st.builds(Units, st.integers(2, 20), st.integers(2, 16)), st.integers(0, 1 << 30))
@settings(max_examples=20)
def test_a_budget_divided_over_nodes_and_there_over_processes_is_kept(pool: Units, seed: int) -> None:
    Tiers(pool, 3, seed).step(1_500)


def test_what_a_node_has_not_used_is_another_ones_at_once() -> None:
    world = World(Units(1_000, 64))
    first, second = world.join(0), world.join(1)
    first.counts, first.ease = True, 100
    world.want(first, 30)
    world.step(40)
    assert first.uses == Units(1_000, 64)
    world.want(second, 30)
    # A pass that cuts, a word that the cut was heard, and a pass that gives.
    world.step(12)
    assert second.uses.rate >= 400
    assert second.uses.concurrency == 32


@given(POOLS, st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_what_nobody_wants_levels_the_parts(pool: Units, wants: list[int]) -> None:
    """Wants are a moment's: whoever wants little now has as much as the others as far as there is more than enough."""
    holders = {f"n{place}": Holder(wanted=wanted) for place, wanted in enumerate(wants)}
    granted = [units.concurrency for units in divide_budget(pool, holders, 0.0).values() if units]
    most_wanted = max(min(wanted, pool.concurrency) for wanted in wants)
    assert max(granted) - min(granted) <= max(1, most_wanted - min(granted))


def test_whoever_wants_nothing_for_a_moment_keeps_what_nobody_wants() -> None:
    holders = {
        "idle": Holder(wanted=0, current=Units(50, 32), may_use=Units(50, 32)),
        "busy": Holder(wanted=16, current=Units(50, 32), may_use=Units(50, 32)),
        "new": Holder(wanted=16),
    }
    first = divide_budget(Units(100, 64), holders, 1.0)
    assert first == {"idle": Units(34, 22), "busy": Units(33, 21), "new": NONE}
    # But not what somebody wants.
    holders["busy"].wanted = holders["new"].wanted = 64
    assert divide_budget(Units(100, 64), holders, 1.0)["idle"] == NONE
