"""`crawlfleet alert rule`: what it calls, prints and refuses."""

import json
from typing import Any

from aiohttp import web

from tests.unit.cli.work.test_export import said
from tests.unit.client.test_client import Script

RULE: dict[str, Any] = {
    "name": "queue_size",
    "kind": "queue_size",
    "about": "At least this many tasks wait.",
    "scope": "*",
    "unit": "count",
    "threshold": 10.0,
    "clear": 8.0,
    "fires_below": False,
    "for_s": 60,
    "keep_s": 30,
    "least_samples": 0,
    "severity": "warning",
    "channels": [],
    "hours": None,
    "is_enabled": True,
    "is_built_in": True,
    "has_preview": False,
    "changed_by": None,
    "changed_at": None,
}


def answers(body: Any) -> Script:
    return Script(lambda: web.json_response(body))


async def test_rules_are_listed_and_shown() -> None:
    shown = (await said(answers({"rules": [RULE]}), "alert", "rule", "list")).stdout
    assert "queue_size" in shown
    shown = (await said(answers(RULE), "alert", "rule", "show", "queue_size")).stdout
    assert shown.startswith("queue_size: At least this many tasks wait.\n")
    assert json.loads((await said(answers(RULE), "alert", "rule", "show", "queue_size", "--json")).stdout) == RULE


async def test_what_is_named_is_set() -> None:
    script = answers(RULE)
    words = ["--threshold", "10", "--hours", "08:00-20:00", "--zone", "Asia/Shanghai", "--channel", "ops", "--off"]
    shown = (await said(script, "alert", "rule", "set", "queue_size", *words)).stdout
    assert shown == "rule queue_size: fires at 10, clears at 8\n"
    assert json.loads(script.bodies[0]) == {
        "threshold": 10,
        "channels": ["ops"],
        "is_enabled": False,
        "hours": {"from": "08:00", "until": "20:00", "time_zone": "Asia/Shanghai"},
    }
    script = answers(RULE)
    await said(script, "alert", "rule", "set", "queue_size", "--hours", "always")
    assert json.loads(script.bodies[0]) == {"hours": None}


async def test_nothing_to_set_and_bad_hours_are_refused_before_a_call() -> None:
    script = answers(RULE)
    await said(script, "alert", "rule", "set", "queue_size", code=2)
    await said(script, "alert", "rule", "set", "queue_size", "--hours", "8", code=2)
    assert script.requests == []


async def test_a_preview_and_a_reset() -> None:
    alerts = [{"fired_at": "2026-01-01T00:01:00Z", "recovered_at": None, "peak": 0.5}]
    body = {
        "scope": "*",
        "since": "2026-01-01T00:00:00Z",
        "until": "2026-01-01T06:00:00Z",
        "alerts": alerts,
        "points": 3,
    }
    shown = (await said(answers(body), "alert", "rule", "preview", "failure_rate", "--threshold", "0.1")).stdout
    assert "still fires" in shown
    quiet = await said(answers({**body, "alerts": []}), "alert", "rule", "preview", "failure_rate")
    assert "it would not have fired since" in quiet.output
    script = Script(lambda: web.Response(status=204))
    assert (await said(script, "alert", "rule", "reset", "queue_size")).stdout == "rule queue_size: reset\n"
