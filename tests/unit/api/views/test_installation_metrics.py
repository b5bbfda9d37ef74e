"""The metrics of the installation keep the rules, and are bounded whatever names exist."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.api.views.installation_metrics import INSTALLATION_METRICS, fold_names
from crawlfleet.api.views.metric_families import MetricSpec
from crawlfleet.api.views.process_metrics import PROCESS_METRICS
from crawlfleet.observe.metrics import OTHER
from tests.unit.api.views.test_process_metrics import FORBIDDEN_LABELS


@pytest.mark.parametrize("metric", INSTALLATION_METRICS, ids=lambda metric: metric.name)
def test_names_and_labels_keep_the_rules(metric: MetricSpec) -> None:
    assert re.fullmatch(r"[a-z][a-z_]*[a-z]", metric.name)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    if metric.kind == "histogram":
        assert metric.name.endswith("_seconds")
    if metric.kind != "gauge":
        assert "node" not in metric.labels
    assert not FORBIDDEN_LABELS & set(metric.labels)
    assert metric.help.endswith(".")


def test_no_name_is_on_both_paths() -> None:
    names = [metric.name for metric in (*PROCESS_METRICS, *INSTALLATION_METRICS)]
    assert len(set(names)) == len(names)


@given(st.dictionaries(st.text(max_size=5), st.integers(1, 1_000), max_size=40), st.integers(1, 10))
def test_names_beyond_the_limit_are_added_up(counts: dict[str, int], limit: int) -> None:
    counts.pop(OTHER, None)
    folded = fold_names(counts, limit)
    assert sum(folded.values()) == sum(counts.values())
    assert len(folded) <= limit + 1
    assert (OTHER in folded) == (len(counts) > limit)
    kept = [count for name, count in folded.items() if name != OTHER]
    assert kept == sorted(kept, reverse=True) or len(counts) <= limit
    assert all(counts[name] == count for name, count in folded.items() if name != OTHER)
