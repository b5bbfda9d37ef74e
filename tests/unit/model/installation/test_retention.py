"""The spans that an installation keeps what is over."""

from crawlfleet.bootstrap.master_settings import master_options
from crawlfleet.model.installation.retention import KEEP_AUDIT_MS, Retention
from crawlfleet.settings.master import MasterSettings


def test_the_defaults_are_those_of_the_settings() -> None:
    assert master_options(MasterSettings()).retention == Retention()
    assert Retention().audit_ms == KEEP_AUDIT_MS
