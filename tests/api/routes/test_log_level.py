"""The log level of a master over HTTP: shown to all, changed by admins, for this master or for all of them."""

from typing import Any

import pytest

from tests.api.kit import Answer, Site

LEVEL = "/api/v1/log-level"
CONFIG = "/api/v1/clusters/default/config"


async def put(site: Site, path: str, body: object, **more: Any) -> Answer:
    return await site.send("PUT", path, body, **more)


async def test_an_admin_changes_the_level_of_this_master(site: Site) -> None:
    before = (await site.get(LEVEL, role="viewer")).json
    assert before == {
        "master": before["master"],
        "level": "info",
        "own": None,
        "masters": None,
        "started_with": "info",
    }
    answer = await put(site, LEVEL, {"level": "DEBUG"})
    assert (answer.status, answer.json) == (200, {**before, "level": "debug", "own": "debug"})
    (entry,) = await site.changes()
    assert (entry.action, entry.target, entry.details) == ("log_level.set", before["master"], {"level": "debug"})
    assert (await put(site, LEVEL, {"level": None})).json == before


async def test_the_level_of_all_masters_is_a_setting_of_the_installation(site: Site) -> None:
    assert (await put(site, CONFIG, {"values": {"log_level_masters": "Warning"}})).json["effective"][
        "log_level_masters"
    ] == "warning"
    keeper = site.master.log_level_keeper
    await keeper.run_once(site.master.clock.now())
    shown = (await site.get(LEVEL)).json
    assert (shown["level"], shown["masters"], shown["own"]) == ("warning", "warning", None)
    # What is set for this master alone goes before it.
    assert (await put(site, LEVEL, {"level": "critical"})).json["level"] == "critical"


@pytest.mark.parametrize("level", ["loud", "", 10, True, ["debug"], {}, "d" * 5_000])
async def test_anything_else_is_refused_and_changes_nothing(site: Site, level: object) -> None:
    answer = await put(site, LEVEL, {"level": level})
    assert answer.told == (422, "invalid_input", "level")
    assert (await site.get(LEVEL)).json["own"] is None


async def test_the_level_has_to_be_named(site: Site) -> None:
    assert (await put(site, LEVEL, {})).status == 422
    assert (await put(site, LEVEL, {"level": "debug", "scope": "all"})).status == 422


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_only_admins_change_it(site: Site, role: str) -> None:
    assert (await put(site, LEVEL, {"level": "debug"}, role=role)).status == 403
    assert (await put(site, CONFIG, {"values": {"log_level_masters": "debug"}}, role=role)).status == 403


@pytest.mark.parametrize("value", ["loud", 3, False, []])
async def test_a_wrong_level_in_the_configuration_is_refused_by_name(site: Site, value: object) -> None:
    for name in ("log_level_masters", "log_level_nodes"):
        answer = await put(site, CONFIG, {"values": {name: value}})
        assert answer.told == (422, "invalid_input", name)
        assert "one of debug, info, warning, error, critical, or null" in answer.json["detail"]
    other = await put(site, "/api/v1/clusters/eu/config", {"values": {"log_level_masters": "debug"}})
    assert other.status in (404, 422)
