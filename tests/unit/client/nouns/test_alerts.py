"""The client's calls of alerts: paths, bodies and answers."""

import json
from typing import Any

from aiohttp import web

from tests.unit.client.test_client import Script, served

SILENCE: dict[str, Any] = {
    "id": "silence-0000000000000001",
    "matchers": {"rule": "x"},
    "starts_at": "2026-01-01T00:00:00Z",
    "until_at": "2026-01-01T02:00:00Z",
    "why": "w",
    "created_by": "ann",
    "created_at": "2026-01-01T00:00:00Z",
    "is_in_force": True,
}


def answers(body: Any) -> Script:
    return Script(lambda: web.json_response(body))


async def test_alerts_and_notices_are_read_with_filters() -> None:
    script = answers({"alerts": [], "firing": 0})
    async with served(script) as client:
        assert (await client.alerts(rule="node_down")).firing == 0
    assert script.requests == ["GET /api/v1/alerts?rule=node_down"]
    script = answers({"notices": [], "next_cursor": None})
    async with served(script) as client:
        assert (await client.notices(channel="ops", status="due")).notices == []
    assert script.requests == ["GET /api/v1/notices?limit=100&channel=ops&status=due"]


async def test_a_silence_is_added_and_ended() -> None:
    script = answers(SILENCE)
    async with served(script) as client:
        assert (await client.add_silence({"rule": "x"}, "w", lasts="2h")).id == SILENCE["id"]
        await client.end_silence(SILENCE["id"])
    assert script.requests == ["POST /api/v1/silences", f"DELETE /api/v1/silences/{SILENCE['id']}"]
    assert json.loads(script.bodies[0]) == {"matchers": {"rule": "x"}, "why": "w", "lasts": "2h"}


async def test_a_channel_is_set_and_tried_out() -> None:
    script = answers({"is_delivered": False, "answer": "errcode 310000", "status": 200})
    async with served(script) as client:
        assert (await client.test_alert_channel("ops")).answer == "errcode 310000"
    assert script.requests == ["POST /api/v1/alerts/channels/ops:test"]


async def test_a_rule_is_previewed_with_other_values() -> None:
    answer = {"scope": "*", "since": "2026-01-01T00:00:00Z", "until": "2026-01-01T06:00:00Z", "alerts": [], "points": 0}
    script = answers(answer)
    async with served(script) as client:
        assert (await client.preview_alert_rule("failure_rate", scope="project:a", threshold=0.5)).points == 0
    assert script.requests == ["POST /api/v1/alerts/rules/failure_rate:preview?scope=project:a"]
    assert json.loads(script.bodies[0]) == {"threshold": 0.5}
