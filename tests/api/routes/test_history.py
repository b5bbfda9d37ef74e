"""The history of task figures over HTTP: columns without gaps, and bounds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from crawlfleet.api.routes.history import FIELD_NAMES
from tests.api.kit import Site

ROOT = Path(__file__).parents[3]
HISTORY = "/api/v1/history"
TASK = {"task_type": "echo", "parameters": {}}


async def _folded(site: Site) -> None:
    await site.master.tallier.wait_for_passes(4)


async def test_what_was_submitted_is_in_the_history(site: Site) -> None:
    for _ in range(3):
        assert (await site.send("POST", "/api/v1/tasks", {**TASK, "project_id": "shop"})).status == 201
    await _folded(site)
    answer = await site.get(
        f"{HISTORY}?series=*&series=project:shop&fields=submitted,completed,run_p95_ms,failure_rate"
    )
    assert answer.status == 200, answer.content
    history = answer.json
    assert [one["series"] for one in history["series"]] == ["*", "project:shop"]
    for one in history["series"]:
        assert set(one["fields"]) == {"submitted", "completed", "run_p95_ms", "failure_rate"}
        assert all(len(column) == len(history["times"]) for column in one["fields"].values())
        assert sum(one["fields"]["submitted"]) == 3
        assert set(one["fields"]["run_p95_ms"]) == {None}
    assert history["times"] == sorted(set(history["times"]))
    assert history["times"][0] == history["since"]


async def test_gauges_are_sampled_for_the_whole_installation(site: Site) -> None:
    await site.master.gauge_sampler.run_once(site.master.clock.now())
    history = (await site.get(f"{HISTORY}?series=*&series=type:echo&fields=nodes,waiting_max&span=hour")).json
    whole, part = history["series"]
    assert [value for value in whole["fields"]["nodes"] if value is not None] == [0]
    assert [value for value in whole["fields"]["waiting_max"] if value is not None] == [0]
    assert set(part["fields"]["nodes"]) == {None}


@pytest.mark.parametrize("span", ["minute", "hour", "day"])
async def test_the_default_range_is_as_far_back_as_there_may_be_points(site: Site, span: str) -> None:
    answer = await site.get(f"{HISTORY}?span={span}")
    assert answer.status == 200, answer.content
    assert len(answer.json["times"]) <= 501


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("series=shop:x", "series"),
        ("series=", "series"),
        ("series=gauge:*", "series"),
        ("&".join(f"series=type:{n}" for n in range(21)), "series"),
        ("span=week", "span"),
        ("since=yesterday", "since"),
        ("since=2031-01-01T00:00:00Z&until=2030-01-01T00:00:00Z", "since"),
        ("since=2099-01-01T00:00:00Z", "since"),
        ("since=2020-01-01T00:00:00Z", "since"),
        ("span=day&since=1970-01-01T00:00:00Z", "since"),
        ("fields=nothing", "fields"),
        ("fields=submitted,", "fields"),
        ("fields=" + "x" * 1_001, "fields"),
    ],
)
async def test_bad_input_is_named(site: Site, query: str, field: str) -> None:
    answer = await site.get(f"{HISTORY}?{query}")
    assert 400 <= answer.status < 500, answer.content
    assert field in answer.content.decode()


async def test_an_unknown_name_has_an_empty_history(site: Site) -> None:
    history = (await site.get(f"{HISTORY}?series=type:never&fields=submitted")).json
    assert set(history["series"][0]["fields"]["submitted"]) == {0}


def test_every_field_has_a_row_in_the_documentation() -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text()
    section = text.partition("## History")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(FIELD_NAMES)
