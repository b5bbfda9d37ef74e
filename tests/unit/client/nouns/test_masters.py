"""The client lists masters, and reads figures that a later version added without an error."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.unit.client.test_client import Script, served

FIGURES: dict[str, Any] = {
    "url": "http://127.0.0.1:8000",
    "loop_lag_p99_ms": 1.5,
    "commit_p99_ms": None,
    "loops": {"leader": {"passed_s_ago": 0.5, "overdue_s": 0.0}},
    "broker": "memory",
    "broker_trouble": None,
    "broker_losses": 0,
    "broker_resets": 0,
    "broker_memory_ratio": None,
    "leader_changes": 0,
    "memory_bytes": 5,
    "disks": {"data": {"path": "/data", "total_bytes": 10, "free_bytes": 4}},
    "clock_offset_ms": None,
    "a_later_figure": 1,
}
MASTER: dict[str, Any] = {
    "name": "m1",
    "boot": 3,
    "version": "1.0",
    "address": "",
    "is_alive": True,
    "is_leader": True,
    "started_at": "2026-01-01T00:00:00Z",
    "seen_at": "2026-01-01T00:00:05Z",
    "silent_s": 0.25,
    "figures": FIGURES,
}


async def test_masters_are_listed_with_their_figures() -> None:
    script = Script(web.json_response({"masters": [MASTER]}))
    async with served(script) as client:
        (master,) = await client.masters()
    assert (master.name, master.is_leader, master.silent_s) == ("m1", True, 0.25)
    assert master.figures.loops["leader"].passed_s_ago == 0.5
    assert master.figures.disks["data"].free_bytes == 4
    assert script.requests == ["GET /api/v1/masters"]
