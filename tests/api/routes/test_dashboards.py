"""Every expression of the dashboards and of Prometheus's rules is valid, and names what a real scrape has."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import promql_parser as promql
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from crawlfleet.model.notice import Severity
from crawlfleet.model.schedule import TickStatus
from crawlfleet.model.status import ErrorClass, ExecutionStatus, NodeStatus, TaskStatus
from tests.api.kit import Site, Worker
from tests.paths import ROOT

GRAFANA = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
VARIABLES = {
    "$__rate_interval": "5m",
    "$cluster": ".*",
    "$task_type": ".*",
}
SCRAPE_LABELS = {"job", "instance"}
"""Labels that Prometheus adds to whatever it scrapes."""


class Selector(NamedTuple):
    metric: str
    matchers: dict[str, str]
    grouped: frozenset[str]
    """Labels by which an expression around it groups or matches."""


def words(kind: Any) -> set[str]:
    return {each.word for each in kind}


KNOWN_VALUES: dict[tuple[str, str], set[str]] = {
    ("crawlfleet_tasks", "status"): words(TaskStatus),
    ("crawlfleet_nodes", "status"): words(NodeStatus),
    ("crawlfleet_executions_total", "outcome"): words(ExecutionStatus),
    ("crawlfleet_execution_errors_total", "error_class"): words(ErrorClass),
    ("crawlfleet_schedule_ticks_total", "result"): words(TickStatus),
    ("crawlfleet_http_requests_total", "code_class"): {"1xx", "2xx", "3xx", "4xx", "5xx"},
    ("crawlfleet_alerts_firing", "severity"): set(Severity),
}
"""All values that a label can have, where a scrape has only those that exist."""


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def dashboard_expressions(path: Path) -> list[str]:
    dashboard = json.loads(path.read_text())
    return [target["expr"] for panel in panels(dashboard) for target in panel.get("targets", [])]


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def all_expressions() -> list[tuple[str, str]]:
    found = [(path.stem, expression) for path in GRAFANA for expression in dashboard_expressions(path)]
    return found + [("rules", rule["expr"]) for rule in rules()]


def parse_expression(expression: str) -> Any:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, f"an unknown variable: {expression}"
    return promql.parse(expression)


def selectors(node: Any, grouped: frozenset[str] = frozenset()) -> Iterator[Selector]:
    match node:
        case promql.VectorSelector():
            matchers = {matcher.name: matcher.value for matcher in node.matchers.matchers}
            yield Selector(node.name or "", matchers, grouped)
        case promql.MatrixSelector():
            yield from selectors(node.vector_selector, grouped)
        case promql.AggregateExpr():
            labels = frozenset(node.modifier.labels) if node.modifier is not None else frozenset()
            yield from selectors(node.expr, labels)
        case promql.BinaryExpr():
            matching = node.modifier.matching if node.modifier is not None else None
            labels = frozenset(matching.labels) if matching is not None else frozenset()
            for side in (node.lhs, node.rhs):
                yield from selectors(side, grouped | labels)
        case promql.Call():
            for argument in node.args:
                yield from selectors(argument, grouped)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            yield from selectors(node.expr, grouped)
        case promql.NumberLiteral() | promql.StringLiteral():
            return
        case _:
            raise AssertionError(f"an unknown part of an expression: {node}")


def test_there_are_dashboards_and_rules() -> None:
    assert len(GRAFANA) >= 2
    assert len(all_expressions()) > 60


@pytest.mark.parametrize("path", GRAFANA, ids=lambda path: path.stem)
def test_a_dashboard_can_be_imported(path: Path) -> None:
    dashboard = json.loads(path.read_text())
    assert dashboard["title"]
    assert dashboard["uid"] == path.stem
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert "datasource" in names
    shown = list(panels(dashboard))
    assert len({panel["id"] for panel in shown}) == len(shown)
    places: set[tuple[int, int]] = set()
    for panel in shown:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24
        cells = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
        assert not cells & places, f"{panel['title']} lies over another panel"
        places |= cells
        if panel["type"] == "row":
            continue
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        for source in (panel["datasource"], *(target["datasource"] for target in panel["targets"])):
            assert source == {"type": "prometheus", "uid": "${datasource}"}


def test_rules_say_what_is_wrong_and_what_to_do() -> None:
    names = [rule.get("alert") or rule["record"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in set(Severity), rule["alert"]
            assert rule["annotations"]["summary"]
            assert rule["annotations"]["description"].endswith(".")


async def test_expressions_name_metrics_and_labels_of_a_real_scrape(site: Site, worker: Worker) -> None:
    """Also the values of labels that are compared with words: a rule about a status that does not exist never fires."""
    task = await site.submit(parameters={"fail": "no", "permanent": True})
    await site.until_status(task, "failed")
    await site.submit(parameters={"hold": True})
    site.master.metrics.notices.add("ops", "delivered")
    await site.master.tallier.wait_for_passes()
    scraped: dict[str, list[dict[str, str]]] = {}
    declared: set[str] = set()
    for path in ("/metrics", "/metrics/installation"):
        text = (await site.get(path, role="metrics")).content.decode()
        for family in parse_plain(text):
            declared.add(family.name)
            for sample in family.samples:
                scraped.setdefault(sample.name, []).append(sample.labels)
    recorded = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}
    used: set[str] = set()
    for source, expression in all_expressions():
        for selector in selectors(parse_expression(expression)):
            used.add(selector.metric)
            if selector.metric == "up" or selector.metric in recorded:
                continue
            where = f"{source}: {selector.metric} in {expression}"
            if selector.metric not in scraped:
                # A gauge of alerts or nodes has no sample while there is none.
                assert selector.metric in declared, where
                continue
            samples = scraped[selector.metric]
            labels = set(samples[0]) | SCRAPE_LABELS
            assert set(selector.matchers) <= labels, where
            assert selector.grouped <= labels, where
            for label, pattern in selector.matchers.items():
                known = KNOWN_VALUES.get((selector.metric, label)) or {sample.get(label, "") for sample in samples}
                if label in SCRAPE_LABELS or ".*" in pattern or selector.metric == "crawlfleet_notices_total":
                    continue
                assert set(pattern.split("|")) <= known, where
    unused = {name for name in declared if not any(metric.startswith(name) for metric in used)}
    assert not unused, "metrics that no dashboard shows"


def test_a_misspelt_metric_would_be_found() -> None:
    (selector,) = selectors(parse_expression('sum by (clutser) (crawlfleet_nodez{staus="online"})'))
    assert selector == Selector("crawlfleet_nodez", {"staus": "online"}, frozenset({"clutser"}))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Prometheus")
def test_prometheus_takes_the_rules() -> None:
    checked = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
