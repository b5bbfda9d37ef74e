"""The settings of alerts: links, the watchdog, a certificate that is replaced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crawlfleet.bootstrap.alerts import alert_settings
from crawlfleet.bootstrap.alerts.alert_settings import alert_options, certificate_reader
from crawlfleet.errors import ConfigError
from crawlfleet.settings.master import MasterSettings


def test_the_settings_become_options(tmp_path: Path) -> None:
    options = alert_options(MasterSettings(data_dir=tmp_path, public_url="https://fleet.example:8443/"))
    assert (options.public_url, options.installation) == ("https://fleet.example:8443", "fleet.example")
    assert options.factory is not None
    assert "dingtalk" in options.factory.kinds
    assert (options.ping, list(options.certificates())) == (None, [])
    assert (
        alert_options(MasterSettings(data_dir=tmp_path, alert_watchdog_url="http://hc.example/1?status=up")).ping
        is not None
    )


def test_a_watchdog_that_cannot_be_called_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="alert_watchdog_url"):
        alert_options(MasterSettings(data_dir=tmp_path, alert_watchdog_url="hc.example/1"))


def test_a_replaced_certificate_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, ends = tmp_path / "cert.pem", iter([1, 2])
    monkeypatch.setattr(alert_settings, "read_certificate_end", lambda _: next(ends))
    read = certificate_reader("m1", path)
    assert list(read()) == []
    path.write_text("first")
    assert [(each.name, each.expires_at) for each in read()] == [("m1", 1)]
    assert [each.expires_at for each in read()] == [1]
    os.utime(path, ns=(1, 1))
    assert [each.expires_at for each in read()] == [2]
    path.unlink()
    assert [each.expires_at for each in read()] == [2]
