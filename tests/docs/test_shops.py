"""The tasks that the page about shops shows can be submitted."""

from __future__ import annotations

import json
import re

from crawlfleet.execution.executors.inside.parameter_check import build_check
from crawlfleet.execution.executors.registry import builtin_entries, load_executor
from tests.paths import ROOT

_JSON = re.compile(r"^```json\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_tasks_shown_are_taken() -> None:
    shown = [json.loads(block) for block in _JSON.findall((ROOT / "docs" / "shops.md").read_text(encoding="utf-8"))]
    tasks = [one for one in shown if "task_type" in one]
    assert {one["task_type"] for one in tasks} == {"full_sync", "single_product", "batch_products"}
    for one in tasks:
        build_check(load_executor(builtin_entries()[one["task_type"]].path))(one["parameters"])
