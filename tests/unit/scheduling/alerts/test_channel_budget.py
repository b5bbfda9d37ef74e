"""The rate of a channel: what is sent by itself and what becomes a digest."""

from __future__ import annotations

from crawlfleet.model.notice import Notice, NoticeState, Severity
from crawlfleet.scheduling.alerts.channel_budget import ChannelBudget, merge_notices, plan_sending

NOW = 1_800_000_000_000


def notice(name: str, severity: Severity = Severity.WARNING, state: NoticeState = NoticeState.FIRING) -> Notice:
    return Notice(
        id=name,
        state=state,
        rule="node_down",
        severity=severity,
        scope=f"node:{name}",
        created_at=NOW,
        value=31.0,
        why="gone",
    )


def test_what_exceeds_the_bound_becomes_one_digest_and_the_most_urgent_stays_alone() -> None:
    due = [notice("a"), notice("b"), notice("c", Severity.CRITICAL), notice("d")]
    plan = plan_sending(due, ChannelBudget(2, 60_000), NOW)
    assert [sent.id for sent in plan.single] == ["c"]
    assert [sent.id for sent in plan.merged] == ["a", "b", "d"]


def test_a_test_of_a_person_is_sent_before_a_digest() -> None:
    due = [notice("a"), notice("b"), notice("t", state=NoticeState.TEST)]
    plan = plan_sending(due, ChannelBudget(1, 60_000), NOW)
    assert [sent.id for sent in plan.single] == ["t"]
    assert plan.merged == ()


def test_a_full_window_sends_nothing_until_its_oldest_notice_is_past() -> None:
    budget = ChannelBudget(2, 60_000).record_sent(NOW).record_sent(NOW + 10)
    assert plan_sending([notice("a")], budget, NOW + 20).single == ()
    assert budget.next_free_at(NOW + 20) == NOW + 60_000
    assert plan_sending([notice("a")], budget, NOW + 60_000).single == (notice("a"),)


def test_a_clock_that_was_set_back_by_an_hour_does_not_block_the_channel() -> None:
    budget = ChannelBudget(1, 60_000).record_sent(NOW)
    assert budget.free_places(NOW - 3_600_000) == 1


def test_a_digest_of_one_rule_keeps_its_name_and_the_facts_of_each_alert() -> None:
    digest = merge_notices("d", [notice("a"), notice("b", Severity.CRITICAL)], NOW)
    assert (digest.rule, digest.scope, digest.severity, digest.count) == ("node_down", "*", Severity.CRITICAL, 2)
    assert [(item.scope, item.value, item.why) for item in digest.items] == [
        ("node:b", 31.0, "gone"),
        ("node:a", 31.0, "gone"),
    ]
