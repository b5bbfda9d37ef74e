"""The text of metrics, plain or OpenMetrics.

The library's own writer sorts and escapes every label anew for each line; with a thousand nodes it would take most of
the time of a scrape. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class ScrapeText(NamedTuple):
    text: bytes
    content_type: str


def write_plain(metrics: Iterable[Metric]) -> ScrapeText:
    lines: list[str] = []
    for metric in metrics:
        suffix = "_total" if metric.type == "counter" else ""
        _write_metric(lines, metric, metric.name + suffix)
    return ScrapeText("".join(lines).encode(), CONTENT_TYPE_PLAIN_0_0_4)


def write_openmetrics(metrics: Iterable[Metric]) -> ScrapeText:
    lines: list[str] = []
    for metric in metrics:
        _write_metric(lines, metric, metric.name)
    lines.append("# EOF\n")
    return ScrapeText("".join(lines).encode(), CONTENT_TYPE_LATEST)


def _write_metric(lines: list[str], metric: Metric, name: str) -> None:
    lines.append(f"# HELP {name} {metric.documentation}\n# TYPE {name} {metric.type}\n")
    for sample_name, labels, value, *_ in metric.samples:
        # The sum makes a number of a truth value.
        if labels:
            text = ",".join([f'{label}="{text.translate(_ESCAPED)}"' for label, text in labels.items()])
            lines.append(f"{sample_name}{{{text}}} {value + 0}\n")
        else:
            lines.append(f"{sample_name} {value + 0}\n")
