"""The run-time settings of a cluster: one record, and a table with the same names."""

from dataclasses import fields

from crawlfleet.control.admin.cluster_settings import SETTINGS, ClusterSettings
from crawlfleet.model.host import HostLimits
from crawlfleet.scheduling.nodes.health import Thresholds

PREFIX = "health_"


def test_every_setting_is_a_field_in_the_same_order() -> None:
    assert [setting.name for setting in fields(ClusterSettings)] == list(SETTINGS)
    assert list(ClusterSettings().as_values()) == list(SETTINGS)


def test_every_setting_of_health_reaches_its_threshold() -> None:
    names = [name for name in SETTINGS if name.startswith(PREFIX)]
    values = {name: number / 100 for number, name in enumerate(names, start=1)}
    thresholds = ClusterSettings(**values).health_thresholds()  # type: ignore[arg-type]
    assert {name: getattr(thresholds, name.removeprefix(PREFIX)) for name in names} == values
    assert ClusterSettings().health_thresholds() == Thresholds()


def test_a_host_without_limits_of_its_own_has_those_of_the_installation() -> None:
    assert ClusterSettings(host_rate=0.5, host_concurrency=3, host_delay_s=1.5).host_limits == HostLimits(0.5, 3, 1.5)
