"""The declarations of the process metrics keep the rules that all metrics keep."""

import re

import pytest

from crawlfleet.api.views.metric_families import MetricSpec
from crawlfleet.api.views.process_metrics import PROCESS_METRICS

FORBIDDEN_LABELS = {"task", "task_id", "execution", "execution_id", "run", "url", "address", "host", "path"}


@pytest.mark.parametrize("metric", PROCESS_METRICS, ids=lambda metric: metric.name)
def test_names_and_labels_keep_the_rules(metric: MetricSpec) -> None:
    assert re.fullmatch(r"[a-z][a-z_]*[a-z]", metric.name)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    if metric.kind == "histogram":
        assert metric.name.endswith("_seconds")
    assert not FORBIDDEN_LABELS & set(metric.labels)
    assert metric.help.endswith(".")
