"""docs/monitoring.md has a row for every metric, and no row for another one."""

import re

from crawlfleet.api.views.installation_metrics import INSTALLATION_METRICS
from crawlfleet.api.views.metric_families import MetricSpec
from crawlfleet.api.views.process_metrics import PROCESS_METRICS
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "monitoring.md").read_text()
ROW = re.compile(r"^\| `crawlfleet_(\w+)` \| (\w+) \| (.+?) \| (.+) \|$", re.MULTILINE)


def test_every_metric_has_its_row_in_order() -> None:
    rows = [(name, kind, tuple(re.findall(r"`(\w+)`", labels)), text) for name, kind, labels, text in ROW.findall(PAGE)]
    assert rows == [_row(metric) for metric in (*PROCESS_METRICS, *INSTALLATION_METRICS)]


def _row(metric: MetricSpec) -> tuple[str, str, tuple[str, ...], str]:
    return metric.name, metric.kind, metric.labels, metric.help
