"""The factory of channels gets the hosts that the settings allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlfleet.bootstrap.notices import open_channels
from crawlfleet.errors import InvalidInput
from crawlfleet.settings.master import MasterSettings

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
FIELDS = {"url": "http://10.1.2.3:8080/in", "secret": SECRET}


def test_only_allowed_private_hosts_can_be_a_channel(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="alert_allow_hosts"):
        open_channels(MasterSettings(data_dir=tmp_path)).check_fields("webhook", FIELDS)
    allowing = MasterSettings(data_dir=tmp_path, alert_allow_hosts=("10.0.0.0/8",))
    assert open_channels(allowing).check_fields("webhook", FIELDS) == FIELDS
