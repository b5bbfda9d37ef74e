"""Any sequence of wants, answers, ends, deaths and changes of the day: the quota is kept, and nothing is lost."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crawlfleet.model.daily_quota import DAY_MS, FIRST, QUOTAS, Amounts, Holding, SliceRequest, utc_day
from crawlfleet.model.project import OnFull, Project, Quotas
from crawlfleet.scheduling.quotas.daily_quota import (
    count_retriable,
    exhausted_quota,
    grant_amounts,
    holding_after_grant,
    quota_denials,
    short_quota,
    unused_amounts,
)

START = 20_000 * DAY_MS
AMOUNTS = st.builds(Amounts, st.integers(0, 300), st.integers(0, 5 << 20))
LIMITS = st.one_of(st.none(), st.integers(0, 400))
SIZES = st.one_of(st.none(), st.integers(0, 20 << 20))


NOTHING = Amounts()


@dataclass
class Running:
    holding: Holding
    used: Amounts = NOTHING


class Days(RuleBasedStateMachine):
    """As the store does it, one want or end at a time: the rows are dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.project = Project("p", quotas=Quotas(pages_per_day=100, bytes_per_day=5 << 20))
        self.uses: dict[int, Amounts] = {}
        self.running: dict[int, Running] = {}
        self.kept: dict[int, Amounts] = {}
        """What ended executions used or took with them, by the day it was granted."""
        self._next = 1

    @property
    def day(self) -> int:
        return utc_day(self.now)

    @rule(pages=LIMITS, size=SIZES)
    def change_quota(self, pages: int | None, size: int | None) -> None:
        self.project = Project("p", quotas=Quotas(pages_per_day=pages, bytes_per_day=size))

    @rule()
    def start(self) -> None:
        self.running[self._next] = Running(Holding(self._next, "p", self.day, 0))
        self._next += 1

    @precondition(lambda self: self.running)
    @rule(data=st.data(), asked=AMOUNTS, is_again=st.booleans())
    def want(self, data: st.DataObject, asked: Amounts, is_again: bool) -> None:
        one = self.running[data.draw(st.sampled_from(sorted(self.running)))]
        number = one.holding.number + (0 if is_again else 1)
        want = SliceRequest(1, 1, one.holding.execution, number, asked)
        if number <= one.holding.number:
            return  # told what it was told before
        used = self.uses.get(self.day, Amounts())
        got = grant_amounts(asked, self.project.quotas, used)
        said = {over.quota for over in quota_denials(want, got, one.holding, self.project, used, self.now)}
        for quota, wanted, part, before in zip(QUOTAS, asked, got, used, strict=True):
            limit = getattr(self.project.quotas, quota)
            assert 0 <= part <= wanted
            assert limit is None or before + part <= max(limit, before), "never above the quota"
            assert (part == 0 and wanted > 0) == (quota in said), "nothing is withheld without a word"
            assert wanted == 0 or part or (limit is not None and before >= limit), "nor while there is some"
        if any(got):
            self.uses[self.day] = used.plus(got)
            one.holding = holding_after_grant(one.holding, want, got, self.day)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def use(self, data: st.DataObject) -> None:
        one = self.running[data.draw(st.sampled_from(sorted(self.running)))]
        total = one.holding.total
        one.used = Amounts(*(data.draw(st.integers(had, most)) for had, most in zip(one.used, total, strict=True)))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        one = self.running.pop(data.draw(st.sampled_from(sorted(self.running))))
        back = unused_amounts(one.holding, one.used)
        assert all(0 <= amount <= today for amount, today in zip(back, one.holding.today, strict=True))
        if any(one.holding.total):
            day = one.holding.day
            self.uses[day] = Amounts(*(use - amount for use, amount in zip(self.uses[day], back, strict=True)))
        self._keep(one, back)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self._keep(self.running.pop(data.draw(st.sampled_from(sorted(self.running)))), Amounts())

    def _keep(self, one: Running, back: Amounts) -> None:
        day, today = one.holding.day, one.holding.today
        left = Amounts(*(had - amount for had, amount in zip(today, back, strict=True)))
        self.kept[day] = self.kept.get(day, Amounts()).plus(left)

    @rule(hours=st.integers(1, 30))
    def let_time_pass(self, hours: int) -> None:
        self.now += hours * 3_600_000

    @invariant()
    def what_is_counted_is_what_was_used_and_what_is_held(self) -> None:
        held = Amounts()
        for one in self.running.values():
            if one.holding.day == self.day:
                held = held.plus(one.holding.today)
        assert self.uses.get(self.day, Amounts()) == self.kept.get(self.day, Amounts()).plus(held)

    @invariant()
    def nobody_uses_more_than_he_was_granted(self) -> None:
        for one in self.running.values():
            assert all(used <= total for used, total in zip(one.used, one.holding.total, strict=True))


Days.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
TestDays = Days.TestCase


@given(limit=st.integers(0, 10_000), used=st.integers(0, 12_000), asks=st.lists(st.integers(1, 500), max_size=60))
def test_however_small_the_shares_all_of_a_day_can_be_had(limit: int, used: int, asks: list[int]) -> None:
    quotas = Quotas(pages_per_day=limit)
    for asked in asks:
        got = grant_amounts(Amounts(asked), quotas, Amounts(used)).pages
        assert (got > 0) == (used < limit)
        assert got <= max(1, (limit - used) // 8)
        used += got
        assert not got or used <= limit


@given(limit=st.integers(0, 1_000), used=st.integers(0, 1_200))
def test_a_task_comes_back_exactly_when_its_day_is_not_short(limit: int, used: int) -> None:
    project, amounts = Project("p", quotas=Quotas(pages_per_day=limit)), Amounts(used)
    short, full = short_quota(project, amounts, 1), exhausted_quota(project, amounts, 1)
    assert (count_retriable(project, amounts, 1) == 0) == (short is not None)
    assert full is None or short == full
    assert short is not None or limit - used >= min(FIRST.pages, max(1, limit // 4))


def test_a_day_without_quotas_holds_nobody_back() -> None:
    assert count_retriable(Project("p"), Amounts(10**9, 10**12), 1) > 10**9
    assert exhausted_quota(Project("p"), Amounts(10**9), 1) is None


def test_one_spent_quota_of_two_is_named_before_one_that_is_only_short() -> None:
    project = Project("p", quotas=Quotas(pages_per_day=100, bytes_per_day=10), on_full=OnFull.REFUSE)
    short = short_quota(project, Amounts(95, 10), 20_000)
    assert short is not None
    assert (short.quota, short.left) == ("bytes_per_day", 0)
    assert short.as_data()["renews_at"] == "2024-10-05T00:00:00.000Z"
