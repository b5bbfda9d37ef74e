"""How alerts are shown."""

from __future__ import annotations

from dataclasses import replace

from crawlfleet.api.views.alerts import alert_view, notice_view, rule_view
from crawlfleet.control.alerts.alert_reader import AlertReport
from crawlfleet.control.alerts.alert_rules import RuleReport
from crawlfleet.model.alerts.alert import AlertHours, AlertState, AlertStatus
from crawlfleet.model.notice import Notice, NoticeState, Severity
from crawlfleet.ports.alert_store import NoticeStatus, StoredNotice
from crawlfleet.scheduling.alerts.rule_kinds import default_rules

RULE = default_rules()["node_down"]


def test_a_pending_alert_has_not_fired() -> None:
    state = AlertState("node_down", "node:a", AlertStatus.PENDING, 0, 5)
    view = alert_view(AlertReport(state, RULE, ""))
    assert (view.status, view.fired_at, view.muted_why, view.is_flapping) == ("pending", None, None, False)
    firing = alert_view(AlertReport(replace(state, status=AlertStatus.FIRING, flapping_at=3), RULE, "silenced"))
    assert (firing.fired_at, firing.muted_why, firing.is_flapping) == ("1970-01-01T00:00:00.005Z", "silenced", True)


def test_hours_are_shown_as_they_were_given() -> None:
    view = rule_view(RuleReport(replace(RULE, hours=AlertHours(1320, 0, (1,), "UTC")), None))
    assert view.hours is not None
    assert (view.hours.begin, view.hours.until, view.hours.days) == ("22:00", "24:00", [1])
    assert (view.is_built_in, view.changed_by) == (True, None)


def test_a_notice_that_is_done_is_not_due() -> None:
    notice = Notice("n", NoticeState.FIRING, "node_down", Severity.WARNING, "node:a", 1)
    stored = StoredNotice(1, "ops", NoticeStatus.MERGED, 5, None, 0, None, "", 2, notice)
    view = notice_view(stored)
    assert (view.status, view.due_at, view.digest_id) == ("merged", None, "notice-0000000000000002")
