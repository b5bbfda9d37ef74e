"""Records of alerts: scopes, silences, statuses; secrets of channels stay out of texts."""

from __future__ import annotations

from crawlfleet.model.alerts.alert import AlertChannel, AlertStatus, Silence, scope_kind


def test_the_kind_of_a_scope_stands_before_the_colon() -> None:
    assert [scope_kind(scope) for scope in ("*", "node:a", "host:a.example:8080")] == ["*", "node", "host"]


def test_a_silence_ends_before_its_end() -> None:
    silence = Silence(1, {"rule": "*"}, 10, 20, "why", "ann", 5)
    assert [silence.is_in_force(now) for now in (9, 10, 19, 20)] == [False, True, True, False]


def test_an_alert_that_recovers_still_counts_as_firing() -> None:
    assert [status for status in AlertStatus if status.is_active] == [AlertStatus.FIRING, AlertStatus.RECOVERING]


def test_the_text_of_a_channel_has_no_secret() -> None:
    assert "s3cret" not in repr(AlertChannel("ops", "slack", {"url": "https://hooks.example/s3cret"}))
