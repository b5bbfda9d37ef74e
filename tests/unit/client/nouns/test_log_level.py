"""The client shows and sets the log level of the master that it calls."""

import json

from aiohttp import web

from tests.unit.client.test_client import Script, served

VIEW = {"master": "m0#1", "level": "debug", "own": "debug", "masters": None, "started_with": "info"}


async def test_the_level_is_shown_and_set() -> None:
    script = Script(lambda: web.json_response(VIEW))
    async with served(script) as client:
        assert (await client.log_level()).level == "debug"
        assert (await client.set_log_level("debug")).own == "debug"
        await client.set_log_level(None)
    assert script.requests == ["GET /api/v1/log-level", "PUT /api/v1/log-level", "PUT /api/v1/log-level"]
    assert [json.loads(body)["level"] for body in script.bodies[1:]] == ["debug", None]
