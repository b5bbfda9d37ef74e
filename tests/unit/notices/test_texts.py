"""The text of a notice, for every state, in both languages."""

from __future__ import annotations

import pytest

from crawlfleet.model.notice import Language, NoticeItem, NoticeState, Severity
from crawlfleet.notices.texts import SHOWN_ITEMS, clean_line, describe_scope, write_notice
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS
from tests.unit.notices.notice_kit import NOW, make_notice

ENGLISH, CHINESE = Language.ENGLISH, Language.CHINESE


def test_a_firing_alert_with_its_facts() -> None:
    text = write_notice(make_notice(), ENGLISH)
    assert text.title == "[WARNING] Many executions fail: project shop (prod)"
    assert text.lead == "23.4 % of the executions failed or timed out; the threshold is 10 %."
    assert text.facts == (
        ("Value", "23.4 %"),
        ("Threshold", "10 %"),
        ("Since", "2027-01-15 07:58:30 UTC"),
        ("Why", "12 of 52 executions failed, most of them with http 503."),
    )
    assert (text.link_label, text.link) == ("Open", "https://crawl.example/alerts/failure_rate")


def test_the_same_in_chinese_with_the_reason_as_it_was_given() -> None:
    text = write_notice(make_notice(), CHINESE)
    assert text.title == "[警告] 执行失败率过高：项目 shop (prod)"
    assert text.lead == "23.4 % 的执行失败或超时，阈值为 10 %。"
    assert text.facts[-1] == ("原因", "12 of 52 executions failed, most of them with http 503.")


def test_a_recovery_says_how_long_it_was() -> None:
    notice = make_notice(state=NoticeState.RECOVERED, rule="node_down", scope="node:node-7c", since=NOW - 7_500_000)
    assert write_notice(notice, ENGLISH).title == "[RECOVERED] The node answers again: node node-7c (prod)"
    assert write_notice(notice, ENGLISH).lead == "It is over after 2 h 5 min."
    assert write_notice(notice, CHINESE).title == "[已恢复] 节点已恢复：节点 node-7c (prod)"
    assert write_notice(notice, CHINESE).lead == "持续 2 小时 5 分钟 后恢复。"


def test_a_reminder_says_which_one_it_is() -> None:
    notice = make_notice(
        state=NoticeState.REMINDER, rule="node_down", scope="node:node-7c", since=NOW - 8 * 3_600_000, reminder=3
    )
    text = write_notice(notice, ENGLISH)
    assert text.title == "[WARNING] Still: A node stopped answering: node node-7c (prod)"
    assert text.lead.endswith("It has been so for 8 h. This is the 3rd reminder.")
    assert write_notice(notice, CHINESE).lead.endswith("已持续 8 小时。这是第 3 次提醒。")


def test_a_group_lists_its_alerts_and_counts_the_rest() -> None:
    items = tuple(
        NoticeItem("node_down", NoticeState.FIRING, Severity.CRITICAL, f"node:n{number}", 1.0, why="no sync for 31 s")
        for number in range(50)
    )
    text = write_notice(make_notice(rule="node_down", scope="node", count=500, items=items, why=""), ENGLISH)
    assert text.title == "[WARNING] A node stopped answering × 500 (prod)"
    assert text.lead.endswith("500 alerts.")
    assert text.items[0] == "firing: node n0 - no sync for 31 s"
    assert len(text.items) == SHOWN_ITEMS + 1
    assert text.items[-1] == f"... and {500 - SHOWN_ITEMS} more"


def test_a_digest_names_the_rule_of_each_alert() -> None:
    items = (
        NoticeItem("queue_size", NoticeState.FIRING, Severity.WARNING, "*", 2_000.0, 1_000.0),
        NoticeItem("node_down", NoticeState.RECOVERED, Severity.INFO, "node:a"),
    )
    notice = make_notice(state=NoticeState.DIGEST, rule="digest", scope="*", count=2, items=items, value=None, why="")
    text = write_notice(notice, CHINESE)
    assert text.title == "[警告] 2 条告警汇总 (prod)"
    assert text.items == ("告警中: 排队任务过多 (2,000)", "已恢复: 节点已恢复 - 节点 a")


def test_a_rule_of_a_person_speaks_by_its_kind_and_an_unknown_one_by_its_name() -> None:
    own = make_notice(rule="my rule", kind="queue_size", scope="queue:fast", value=1500, threshold=1000)
    assert write_notice(own, ENGLISH).title == "[WARNING] Too many tasks wait: queue fast (prod)"
    unknown = make_notice(rule="moon\nphase", scope="*", value=3, threshold=2)
    assert write_notice(unknown, ENGLISH).title == "[WARNING] Rule moon phase fires (prod)"
    assert write_notice(unknown, CHINESE).lead == "当前值为 3，阈值为 2。"


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("state", NoticeState)
@pytest.mark.parametrize("rule", [*RULE_KINDS, "test", "digest"])
def test_every_rule_and_state_has_a_whole_text(rule: str, state: NoticeState, language: Language) -> None:
    for changes in ({}, {"value": None, "threshold": None, "since": None, "why": "", "link": "", "installation": ""}):
        text = write_notice(make_notice(rule=rule, state=state, **changes), language)
        for part in (text.title, text.lead, *(value for _, value in text.facts)):
            assert "{" not in part
            assert "None" not in part
            assert "\n" not in part
        assert text.title.strip("[] ")


def test_a_since_of_the_future_gives_no_duration() -> None:
    text = write_notice(make_notice(state=NoticeState.RECOVERED, since=NOW + 5_000), ENGLISH)
    assert text.lead == "It is over."


@pytest.mark.parametrize("link", ["javascript:alert(1)", "https://a b", "https://x|y", "https://x>y", "https://x)y"])
def test_a_link_that_could_break_the_markup_is_left_out(link: str) -> None:
    assert write_notice(make_notice(link=link), ENGLISH).link == ""


def test_what_controls_a_display_is_removed() -> None:
    assert clean_line("a\x00b\x1b[0m\u202ec\r\nd\u2028e", 50) == "a b [0m c d e"
    assert clean_line("x" * 60, 50) == "x" * 49 + "…"
    assert describe_scope("node:a\nb", ENGLISH) == "node a b"
    assert describe_scope("*", ENGLISH) == ""
    assert describe_scope("node", CHINESE) == "node"
