"""`crawlfleet alert`: what it calls and prints."""

import json
from typing import Any

from aiohttp import web

from tests.unit.cli.work.test_export import said
from tests.unit.client.test_client import Script

ALERT: dict[str, Any] = {
    "rule": "node_down",
    "scope": "node:node-0123456789abcdef",
    "status": "firing",
    "severity": "warning",
    "since": "2026-01-01T00:00:00Z",
    "fired_at": "2026-01-01T00:00:00Z",
    "value": 1.0,
    "threshold": 1.0,
    "why": "Node a has not answered.",
    "is_flapping": False,
    "muted_why": None,
    "acknowledgement": None,
    "notified_at": None,
}
NOTICE: dict[str, Any] = {
    "id": "notice-0000000000000001",
    "channel": "ops",
    "status": "delivered",
    "state": "firing",
    "rule": "node_down",
    "scope": "node",
    "severity": "warning",
    "alerts": 3,
    "why": "",
    "created_at": "2026-01-01T00:00:00Z",
    "tries": 1,
    "tried_at": None,
    "due_at": None,
    "answer": "ok",
    "digest_id": None,
}


def answers(body: Any) -> Script:
    return Script(lambda: web.json_response(body))


async def test_alerts_are_listed_for_people_and_programs() -> None:
    script = answers({"alerts": [ALERT], "firing": 1})
    shown = (await said(script, "alert", "list", "--rule", "node_down")).stdout
    assert "node_down" in shown
    assert "Node a has not answered." in shown
    assert script.requests == ["GET /api/v1/alerts?rule=node_down"]
    script = answers({"alerts": [ALERT], "firing": 1})
    assert json.loads((await said(script, "alert", "list", "--json")).stdout)["alerts"] == [ALERT]
    quiet = await said(answers({"alerts": [], "firing": 0}), "alert", "list")
    assert "everything is as it should be" in quiet.output


async def test_an_alert_is_acknowledged() -> None:
    acknowledgement = {"by": "ann", "acknowledged_at": "2026-01-01T00:00:00Z", "why": "w"}
    script = answers({"rule": "failure_rate", "scope": "*", "acknowledgement": acknowledgement})
    shown = (await said(script, "alert", "ack", "failure_rate", "--why", "w")).stdout
    assert shown == "failure_rate *: acknowledged, quiet until it recovers\n"
    assert json.loads(script.bodies[0]) == {"rule": "failure_rate", "scope": "*", "why": "w"}


async def test_notices_are_listed_with_their_answers() -> None:
    script = answers({"notices": [NOTICE], "next_cursor": None})
    shown = (await said(script, "alert", "notices", "--channel", "ops")).stdout
    assert "delivered" in shown
    assert script.requests == ["GET /api/v1/notices?limit=50&channel=ops"]
