"""`crawlfleet alert silence`: what it calls, prints and refuses."""

import json
from typing import Any

from aiohttp import web

from tests.unit.cli.work.test_export import said
from tests.unit.client.nouns.test_alerts import SILENCE
from tests.unit.client.test_client import Script


def answers(body: Any) -> Script:
    return Script(lambda: web.json_response(body))


async def test_a_silence_is_added_with_its_matchers() -> None:
    script = answers(SILENCE)
    words = ["--rule", "node_*", "--cluster", "eu", "--for", "2h", "--why", "new racks"]
    shown = (await said(script, "alert", "silence", "add", *words)).stdout
    assert shown.startswith(f"{SILENCE['id']}: until 2026-01-01")
    assert json.loads(script.bodies[0]) == {
        "matchers": {"rule": "node_*", "parent": "cluster:eu"},
        "why": "new racks",
        "lasts": "2h",
    }


async def test_a_silence_of_nothing_or_without_an_end_is_refused_before_a_call() -> None:
    script = answers(SILENCE)
    await said(script, "alert", "silence", "add", "--for", "2h", "--why", "x", code=2)
    await said(script, "alert", "silence", "add", "--rule", "x", "--why", "x", code=2)
    await said(script, "alert", "silence", "add", "--rule", "x", "--why", "x", "--for", "1h", "--until", "y", code=2)
    assert script.requests == []


async def test_silences_are_listed_and_ended() -> None:
    shown = (await said(answers({"silences": [SILENCE]}), "alert", "silence", "list")).stdout
    assert SILENCE["id"] in shown
    shown = (await said(answers(SILENCE), "alert", "silence", "end", SILENCE["id"])).stdout
    assert shown == f"{SILENCE['id']}: over\n"
