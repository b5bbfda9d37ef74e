"""The run-time settings of a cluster: one record, and a table with the same names."""

from dataclasses import fields

import pytest

from crawlfleet.control.admin.cluster_settings import SETTINGS, ClusterSettings, check_settings
from crawlfleet.errors import InvalidInput
from crawlfleet.model.host import HostLimits
from crawlfleet.model.queue import PriorityClasses
from crawlfleet.scheduling.nodes.health import Thresholds

PREFIX = "health_"


def test_every_setting_is_a_field_in_the_same_order() -> None:
    assert [setting.name for setting in fields(ClusterSettings)] == list(SETTINGS)
    assert list(ClusterSettings().as_values()) == list(SETTINGS)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"slots_min": 65}, "slots_min"),
        ({"slots_max": 0}, "slots_max"),
        ({"retry_base_delay_s": 301}, "retry_base_delay_s"),
        ({"retry_max_delay_s": 1}, "retry_max_delay_s"),
        ({"retry_max_delay_s": -1}, "retry_max_delay_s"),
        ({"priority_high": 11}, "priority_high"),
        ({"priority_high": 4}, "priority_high"),
        ({"priority_normal": 8, "priority_high": 7}, "priority_normal"),
        ({"priority_low": 6}, "priority_low"),
        ({"priority_low": "low"}, "priority_low"),
        ({"alert_failure_rate": 1.5}, "alert_failure_rate"),
        ({"alert_queue_size": 0}, "alert_queue_size"),
        ({"alert_avg_duration_s": 0}, "alert_avg_duration_s"),
    ],
)
def test_values_that_do_not_go_together_are_refused_by_name(values: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_settings("default", values)
    assert caught.value.field == field


def test_alerts_and_priorities_are_of_the_whole_installation() -> None:
    for name in SETTINGS:
        if name.startswith(("alert_", "priority_")):
            with pytest.raises(InvalidInput, match="of the whole installation"):
                check_settings("eu", {name: getattr(ClusterSettings(), name)})


def test_the_priority_classes_are_those_of_the_settings() -> None:
    assert ClusterSettings().priority_classes == PriorityClasses(10, 5, 1)
    assert ClusterSettings(priority_high=8, priority_normal=4, priority_low=2).priority_classes == (8, 4, 2)


def test_every_setting_of_health_reaches_its_threshold() -> None:
    names = [name for name in SETTINGS if name.startswith(PREFIX)]
    values = {name: number / 100 for number, name in enumerate(names, start=1)}
    thresholds = ClusterSettings(**values).health_thresholds()  # type: ignore[arg-type]
    assert {name: getattr(thresholds, name.removeprefix(PREFIX)) for name in names} == values
    assert ClusterSettings().health_thresholds() == Thresholds()


def test_a_host_without_limits_of_its_own_has_those_of_the_installation() -> None:
    assert ClusterSettings(host_rate=0.5, host_concurrency=3, host_delay_s=1.5).host_limits == HostLimits(0.5, 3, 1.5)
