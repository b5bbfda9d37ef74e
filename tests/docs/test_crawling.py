"""The page about what is followed says what is so."""

from __future__ import annotations

import re
from dataclasses import asdict

import msgspec
import pytest

from crawlfleet.control.tasks.task_types import TaskTypes
from crawlfleet.execution.crawl.frontier.follow_config import find_follow_problems
from crawlfleet.execution.crawl.frontier.traps import TrapLimits
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "crawling.md").read_text(encoding="utf-8")
EXAMPLES = [block for block in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if '"url"' in block]
PARTS = ("follow", "normalise", "traps", "pagination")


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_can_be_submitted(example: str) -> None:
    assert TaskTypes({"web_crawl": WebCrawl.schema}).find_refusal("web_crawl", example.encode()) is None
    assert find_follow_problems(msgspec.json.decode(example)) == []


@pytest.mark.parametrize("part", PARTS)
def test_every_parameter_has_its_row(part: str) -> None:
    schema = WebCrawl.schema["properties"][part]
    names = set((schema if "properties" in schema else schema["anyOf"][-1])["properties"])
    (table,) = re.findall(rf"^\| in `{part}` .*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    told = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    # Both ends of a template stand in its row.
    assert told == names - {"first", "last"}


def test_caps_are_as_told() -> None:
    for name, cap in asdict(TrapLimits()).items():
        assert re.search(rf"^\| `{name}` \| {cap:,} \|", PAGE, re.MULTILINE), name
