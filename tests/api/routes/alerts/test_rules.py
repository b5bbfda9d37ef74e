"""Alert rules over HTTP: changed, previewed, reset; bad values with the field named."""

from typing import Any

import pytest

from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS
from tests.api.kit import Site

RULES = "/api/v1/alerts/rules"


async def test_a_rule_is_changed_field_by_field_and_reset(site: Site) -> None:
    listed = (await site.get(RULES, role="viewer")).json["rules"]
    assert [rule["name"] for rule in listed] == list(RULE_KINDS)
    hours = {"from": "08:00", "until": "24:00", "days": [1, 2], "time_zone": "Asia/Shanghai"}
    made = await site.send("PUT", f"{RULES}/queue_size", {"threshold": 10, "hours": hours}, role="operator")
    assert (made.status, made.json["threshold"], made.json["clear"], made.json["hours"]) == (200, 10, 8, hours)
    changed = (await site.send("PUT", f"{RULES}/queue_size", {"severity": "critical", "hours": None})).json
    assert (changed["threshold"], changed["severity"], changed["hours"]) == (10, "critical", None)
    assert (await site.get(f"{RULES}/queue_size")).json == changed
    assert ("operator", "alert_rule.put", "queue_size") in await site.audited()
    assert (await site.send("DELETE", f"{RULES}/queue_size")).status == 204
    assert (await site.get(f"{RULES}/queue_size")).json["threshold"] == 1_000
    assert (await site.send("PUT", f"{RULES}/queue_size", {}, role="viewer")).status == 403


async def test_a_rule_of_ones_own_is_added_and_removed(site: Site) -> None:
    body = {"kind": "failure_rate", "scope": "project:shop", "threshold": 0.3}
    made = (await site.send("PUT", f"{RULES}/shop_fails", body)).json
    assert (made["is_built_in"], made["kind"], made["unit"], made["has_preview"]) == (
        False,
        "failure_rate",
        "ratio",
        True,
    )
    assert (await site.send("DELETE", f"{RULES}/shop_fails")).status == 204
    assert (await site.send("DELETE", f"{RULES}/shop_fails")).status == 404
    assert (await site.get(f"{RULES}/shop_fails")).status == 404


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("queue_size", {"threshold": 10, "clear": 11}, "clear"),
        ("queue_size", {"threshold": "10"}, "threshold"),
        ("queue_size", {"threshold": -1}, "threshold"),
        ("queue_size", {"scope": "planet:mars"}, "scope"),
        ("queue_size", {"channels": ["never"]}, "channels"),
        ("queue_size", {"hours": {"from": "08:00", "until": "20:00", "time_zone": "Mars/Base"}}, "hours.time_zone"),
        ("queue_size", {"hours": {"from": "8", "until": "20:00"}}, "hours.from"),
        ("queue_size", {"severity": "panic"}, "severity"),
        ("queue_size", {"tresh": 1}, "tresh"),
        ("mine", {"threshold": 1}, "kind"),
        ("UPPER", {"kind": "queue_size"}, "name"),
    ],
)
async def test_a_bad_rule_is_refused_and_changes_nothing(
    site: Site, name: str, body: dict[str, Any], field: str
) -> None:
    answer = await site.send("PUT", f"{RULES}/{name}", body)
    assert answer.status == 422
    assert field in str(answer.json)
    listed = (await site.get(RULES)).json["rules"]
    assert len(listed) == len(RULE_KINDS)
    assert [rule["name"] for rule in listed if rule["changed_by"]] == []


async def test_a_preview_changes_nothing(site: Site) -> None:
    answer = await site.post(f"{RULES}/failure_rate:preview", {"threshold": 0.5}, role="viewer")
    assert (answer.status, answer.json["alerts"], answer.json["scope"]) == (200, [], "*")
    assert (await site.post(f"{RULES}/failure_rate:preview?scope=project:shop", {})).json["points"] == 0
    assert (await site.post(f"{RULES}/node_down:preview", {})).status == 422
    assert (await site.get(f"{RULES}/failure_rate")).json["changed_by"] is None
