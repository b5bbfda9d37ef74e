"""The device dialect: statistics of tasks and devices, and the overview."""

from __future__ import annotations

from typing import Any

import pytest

from crawlfleet.version import __version__
from tests.api.dialects.device_kit import DEVICES, TASKS, Device
from tests.api.kit import Site

OVERVIEW = "/api/distribution/system/overview"


@pytest.fixture
async def device(site: Site) -> Device:
    """A device that has completed two tasks of three, and has one more."""
    device = await Device.register(site)
    for _ in range(4):
        await site.submit(project_id="shop", retry={"max_retries": 0})
    tasks = await device.pull(max_tasks=4)
    await device.run(tasks[0])
    await device.run(tasks[1])
    await device.report(tasks[2], "failed", error_message="no")
    await device.report(tasks[3], "running")
    return device


async def folded(site: Site, path: str, **expected: Any) -> Any:
    """The answer, once the figures are counted in."""

    async def is_folded() -> bool:
        answer = await site.get(path, role="viewer")
        assert answer.status == 200, answer.content
        return bool(expected.items() <= answer.json.items())

    await site.until(is_folded)
    return (await site.get(path, role="viewer")).json


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("query", ["", "?window=1h", "?window=7d"])
async def test_tasks_are_counted_by_status_and_type(site: Site, query: str) -> None:
    stats = await folded(site, f"{TASKS}/stats{query}", success_rate=2 / 3)
    assert (stats["total"], stats["tasks"]["completed"], stats["tasks"]["failed"], stats["tasks"]["running"]) == (
        4,
        2,
        1,
        1,
    )
    echo = stats["by_type"]["echo"]
    assert (echo["submitted"], echo["completed"], echo["failed"]) == (4, 2, 1)
    assert min(stats["avg_duration"], stats["p95_duration"], echo["avg_duration"]) >= 0


@pytest.mark.usefixtures("device")
async def test_a_project_is_counted_by_itself(site: Site) -> None:
    stats = await folded(site, f"{TASKS}/stats?project_id=shop", success_rate=2 / 3)
    assert (stats["total"], stats["by_type"]) == (4, {})
    nothing = (await site.get(f"{TASKS}/stats?project_id=other&window=1h", role="viewer")).json
    assert (nothing["total"], nothing["success_rate"], nothing["avg_duration"]) == (0, None, None)


async def test_a_device_has_figures_of_its_own(site: Site, device: Device) -> None:
    await device.beat(cpu_usage=0.5)
    path = f"{DEVICES}/dev-1/stats"
    stats = await folded(site, path, completed=2, failed=1, timeout=0)
    assert (stats["device_id"], stats["window"], stats["success_rate"]) == ("dev-1", "24h", 2 / 3)
    assert (stats["current_tasks"], stats["cpu_usage"]) == (1, 0.5)
    own = await device.send("GET", f"{path}?window=1h")
    assert (own.status, own.json["window"]) == (200, "1h")
    other = await Device.register(site, "dev-2")
    assert (await other.send("GET", path)).told[:2] == (403, "not_allowed")
    fresh = (await site.get(f"{DEVICES}/dev-2/stats", role="viewer")).json
    assert (fresh["completed"], fresh["success_rate"], fresh["p95_duration"]) == (0, None, None)


@pytest.mark.usefixtures("device")
async def test_the_overview_shows_the_installation(site: Site) -> None:
    overview = await folded(site, OVERVIEW, success_rate=2 / 3)
    assert (overview["version"], overview["leader"]) == (__version__, "master")
    assert [master["name"] for master in overview["masters"]] == ["master"]
    assert overview["devices"] == {
        "total": 1,
        "online": 1,
        "busy": 0,
        "maintenance": 0,
        "offline": 0,
        "timeout": 0,
    }
    assert (overview["tasks"]["completed"], overview["queue_size"], overview["alerts_firing"]) == (2, 0, 0)
    assert overview["throughput_per_min"] == 3 / 5


@pytest.mark.parametrize("path", [f"{TASKS}/stats?window=1y", f"{DEVICES}/dev-1/stats?window=0h"])
async def test_a_bad_window_is_refused(site: Site, device: Device, path: str) -> None:
    assert (await site.get(path, role="viewer")).told == (422, "invalid_input", "window")


async def test_an_unknown_device_has_no_figures(site: Site) -> None:
    assert (await site.get(f"{DEVICES}/nobody/stats", role="viewer")).told[:2] == (404, "not_found")
