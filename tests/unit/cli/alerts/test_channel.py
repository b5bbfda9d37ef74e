"""`crawlfleet alert channel`: what it calls, prints and refuses."""

import json
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.unit.cli.work.test_export import said
from tests.unit.client.test_client import Script

CHANNEL: dict[str, Any] = {
    "name": "ops",
    "kind": "slack",
    "fields": {"url": "********"},
    "language": "en",
    "is_enabled": True,
    "disabled_why": None,
    "failures": 0,
    "failing_since": None,
    "last_answer": "ok",
    "last_sent_at": None,
    "changed_by": "ann",
    "changed_at": "2026-01-01T00:00:00.000Z",
}
KIND = {
    "name": "slack",
    "about": "An incoming webhook.",
    "fields": [{"name": "url", "about": "its address", "is_required": True, "is_secret": True}],
}


def answers(body: Any) -> Script:
    return Script(lambda: web.json_response(body))


async def test_channels_and_kinds_are_listed() -> None:
    body = {"channels": [CHANNEL], "kinds": [KIND]}
    assert "slack" in (await said(answers(body), "alert", "channel", "list")).stdout
    shown = (await said(answers(body), "alert", "channel", "kinds")).stdout
    assert shown == "slack: An incoming webhook.\nFIELD  NEEDED  WHAT\nurl    yes     its address\n"
    assert json.loads((await said(answers(body), "alert", "channel", "kinds", "--json")).stdout) == {"kinds": [KIND]}


async def test_fields_come_from_options_and_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SEC123\n")
    script = answers(CHANNEL)
    words = ["--kind", "slack", "--field", "url=https://x?a=b", "--field-file", f"secret={secret}", "--language", "zh"]
    shown = (await said(script, "alert", "channel", "set", "ops", *words)).stdout
    assert shown.startswith("channel ops: slack; try it:")
    assert json.loads(script.bodies[0]) == {
        "kind": "slack",
        "fields": {"url": "https://x?a=b", "secret": "SEC123"},
        "language": "zh",
        "is_enabled": True,
    }


async def test_bad_fields_are_refused_before_a_call(tmp_path: Path) -> None:
    script = answers(CHANNEL)
    await said(script, "alert", "channel", "set", "ops", "--kind", "slack", "--field", "url", code=2)
    missing = f"secret={tmp_path / 'none'}"
    await said(script, "alert", "channel", "set", "ops", "--kind", "slack", "--field-file", missing, code=2)
    assert script.requests == []


async def test_a_test_that_is_refused_fails_with_the_words_of_the_service() -> None:
    delivery = {"is_delivered": False, "answer": "errcode 310000", "status": 200}
    shown = await said(answers(delivery), "alert", "channel", "test", "ops", code=1)
    assert shown.stdout == "ops: not delivered: errcode 310000\n"
    await said(answers({**delivery, "is_delivered": True}), "alert", "channel", "test", "ops")
    script = Script(lambda: web.Response(status=204))
    assert (await said(script, "alert", "channel", "remove", "ops")).stdout == "channel ops: removed\n"
