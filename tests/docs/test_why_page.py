"""The page about `why` has every word that `why` says."""

from __future__ import annotations

import re

from crawlfleet.model.execution import ParkCause
from crawlfleet.model.flow import Unrun
from tests.paths import ROOT
from tests.property.control.explain.test_task_properties import CAUSES

_ROW = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \|", re.MULTILINE)
OF_FLOWS = {"steps", "items", *(unrun.word for unrun in Unrun if unrun is not Unrun.NOT)}


def test_every_cause_has_its_row() -> None:
    page = (ROOT / "docs" / "why.md").read_text(encoding="utf-8").partition("## In events")[0]
    rows = {word for row in _ROW.findall(page) for word in re.findall(r"\w+", row)}
    assert rows == CAUSES | OF_FLOWS
    assert {cause.word for cause in ParkCause} <= rows
