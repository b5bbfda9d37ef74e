"""Properties of the rate of a channel."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model.notice import NOTICE_ITEMS, Notice, NoticeItem, NoticeState, Severity
from crawlfleet.scheduling.alerts.channel_budget import ChannelBudget, merge_notices, plan_sending

START = 1_800_000_000_000
items = st.builds(
    NoticeItem,
    rule=st.sampled_from(["node_down", "queue_size"]),
    state=st.sampled_from([NoticeState.FIRING, NoticeState.RECOVERED]),
    severity=st.sampled_from(Severity),
    scope=st.sampled_from(["*", "node:a", "node:b"]),
)


@st.composite
def notice_lists(draw: st.DrawFn) -> list[Notice]:
    notices = []
    for index in range(draw(st.integers(0, 12))):
        inner = tuple(draw(st.lists(items, max_size=30)))
        notices.append(
            Notice(
                id=f"n{index}",
                state=draw(st.sampled_from([NoticeState.FIRING, NoticeState.RECOVERED, NoticeState.TEST])),
                rule=draw(st.sampled_from(["node_down", "queue_size"])),
                severity=draw(st.sampled_from(Severity)),
                scope=draw(st.sampled_from(["*", "node:a"])),
                created_at=START,
                items=inner,
                count=max(1, len(inner)) + draw(st.integers(0, 100)),
            )
        )
    return notices


@given(st.integers(1, 10), st.integers(1_000, 60_000), st.lists(st.integers(0, 20_000), max_size=60))
def test_no_window_holds_more_than_the_bound(limit: int, window_ms: int, gaps: list[int]) -> None:
    budget = ChannelBudget(limit, window_ms)
    now, sent = START, []
    for gap in gaps:
        now += gap
        if budget.free_places(now):
            assert budget.next_free_at(now) == now
            budget = budget.record_sent(now)
            sent.append(now)
        else:
            free_at = budget.next_free_at(now)
            assert now < free_at <= now + window_ms
            assert budget.free_places(free_at) > 0
            assert budget.free_places(free_at - 1) == 0
    for first in sent:
        assert sum(first <= instant < first + window_ms for instant in sent) <= limit
    assert len(budget.sent_at) <= limit


@given(st.integers(1, 5), st.integers(0, 5), notice_lists())
def test_a_plan_fits_the_window_and_forgets_no_notice(limit: int, used: int, due: list[Notice]) -> None:
    budget = ChannelBudget(limit, 60_000, tuple(START - 1 for _ in range(min(used, limit))))
    plan = plan_sending(due, budget, START)
    free = budget.free_places(START)
    assert len(plan.single) + bool(plan.merged) <= free
    assert len(plan.merged) != 1
    assert all(notice.state is not NoticeState.TEST for notice in plan.merged)
    chosen = {notice.id for notice in (*plan.single, *plan.merged)}
    assert len(chosen) == len(plan.single) + len(plan.merged)
    waiting = [notice for notice in due if notice.id not in chosen]
    if waiting:
        # Only where the window is full does anything wait, and with it a place that a test took.
        assert len(plan.single) + bool(plan.merged) == free


@given(notice_lists().filter(lambda notices: len(notices) > 1))
def test_a_digest_counts_every_alert_and_shows_the_most_urgent(notices: list[Notice]) -> None:
    digest = merge_notices("d1", notices, START + 5)
    assert digest.state is NoticeState.DIGEST
    assert digest.count == sum(notice.count for notice in notices)
    assert len(digest.items) <= NOTICE_ITEMS
    assert digest.count >= len(digest.items)
    order = [list(Severity)[::-1].index(item.severity) for item in digest.items]
    assert order == sorted(order)
    assert digest.severity == max((notice.severity for notice in notices), key=list(Severity).index)
