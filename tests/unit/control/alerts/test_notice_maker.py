"""Notices of messages: one for each channel of the rule, with the facts of its alerts."""

from __future__ import annotations

from dataclasses import replace

from crawlfleet.control.alerts.alert_options import AlertOptions
from crawlfleet.control.alerts.notice_maker import NoticeMaker, is_receiver
from crawlfleet.model.alerts.alert import AlertChannel, AlertState, AlertStatus
from crawlfleet.model.ids import IdFactory
from crawlfleet.model.notice import NOTICE_ITEMS, NoticeState, Severity
from crawlfleet.scheduling.alerts.notice_plan import GroupMessage, MessageItem
from crawlfleet.scheduling.alerts.rule_kinds import default_rules

RULE = default_rules()["node_down"]
OPS, BOSS = AlertChannel("ops", "slack", {}), AlertChannel("boss", "mail", {})
MAKER = NoticeMaker(id_factory=IdFactory(1, lambda: 1_767_225_600_000), options=AlertOptions("https://x.example/", "x"))


def message(count: int, state: NoticeState = NoticeState.FIRING) -> GroupMessage:
    items = [
        MessageItem(
            state, AlertState("node_down", f"node:{number}", AlertStatus.FIRING, 5, 5 + number, 1.0, 5, "silent")
        )
        for number in range(count)
    ]
    return GroupMessage(RULE, "node", state, tuple(items))


def test_a_single_alert_has_its_facts_in_the_notice() -> None:
    [new] = MAKER.make_notices([message(1)], [OPS], 100)
    notice = new.notice
    assert (notice.scope, notice.why, notice.value, notice.since, notice.count) == ("node:0", "silent", 1.0, 5, 1)
    assert (notice.severity, notice.items, notice.created_at) == (Severity.WARNING, (), 100)
    assert notice.link == "https://x.example/api/v1/alerts?rule=node_down"
    assert notice.id == f"notice-{new.id:016x}"


def test_many_alerts_are_counted_and_the_first_are_listed() -> None:
    [new] = MAKER.make_notices([message(500)], [OPS], 100)
    assert (new.notice.scope, new.notice.count, len(new.notice.items)) == ("node", 500, NOTICE_ITEMS)
    assert new.notice.items[3].scope == "node:3"


def test_every_enabled_channel_of_the_rule_gets_one() -> None:
    off = replace(OPS, name="off", is_enabled=False)
    assert [new.channel for new in MAKER.make_notices([message(1)], [OPS, BOSS, off], 1)] == ["ops", "boss"]
    named = replace(message(1), rule=replace(RULE, channels=("boss",)))
    notices = MAKER.make_notices([named], [OPS, BOSS], 1)
    assert [new.channel for new in notices] == ["boss"]
    assert not is_receiver(RULE, off)


def test_that_a_channel_fails_is_sent_through_the_others() -> None:
    rule = default_rules()["channel_failing"]
    alert = AlertState("channel_failing", "channel:ops", AlertStatus.FIRING, 5, 5)
    failing = GroupMessage(rule, "channel", NoticeState.FIRING, (MessageItem(NoticeState.FIRING, alert),))
    assert [new.channel for new in MAKER.make_notices([failing], [OPS, BOSS], 1)] == ["boss"]


def test_a_rule_of_ones_own_names_its_kind() -> None:
    own = replace(message(2), rule=replace(RULE, name="mine"))
    [new] = MAKER.make_notices([own], [OPS], 1)
    assert (new.notice.rule, new.notice.kind, new.notice.items[0].kind) == ("mine", "node_down", "node_down")


def test_without_a_public_address_there_is_no_link() -> None:
    maker = NoticeMaker(id_factory=IdFactory(1, lambda: 1), options=AlertOptions())
    [new] = maker.make_notices([message(1, NoticeState.RECOVERED)], [OPS], 1)
    assert (new.notice.link, new.notice.severity) == ("", Severity.INFO)
