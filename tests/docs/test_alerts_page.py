"""The page on alerts names every rule and every kind of channel with its values, as the code has them."""

from __future__ import annotations

import json
import re

import pytest

from crawlfleet.model.notice import Language, NoticeState
from crawlfleet.notices.channel_factory import KINDS
from crawlfleet.notices.quantities import format_quantity
from crawlfleet.notices.webhook import encode_notice
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS
from tests.paths import ROOT
from tests.unit.notices.notice_kit import make_notice

PAGE = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
ROWS = {
    match["kind"]: match
    for match in re.finditer(
        r"^\| `(?P<kind>\w+)` \| (?P<fields>[^|]+)\|[^|]+\| (?P<rate>[^|]+) \|", PAGE, re.MULTILINE
    )
    if match["kind"] in KINDS
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_channel_has_a_row_with_its_fields_and_its_rate(kind: str) -> None:
    row = ROWS[kind]
    assert re.findall(r"`(\w+)`", row["fields"]) == [field.name for field in KINDS[kind].fields]
    span = {60: "minute", 1: "second"}[KINDS[kind].window_s]
    assert row["rate"] == f"{KINDS[kind].max_notices} a {span}"


def test_the_body_of_a_webhook_is_the_one_on_the_page() -> None:
    shown = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    assert json.loads(shown[1]) == json.loads(encode_notice(make_notice(), Language.ENGLISH))
    for state in NoticeState:
        assert f"`{state}`" in PAGE


def test_each_rule_has_a_row_with_its_defaults() -> None:
    section = PAGE.partition("## Rules")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:3] == "| `"]
    assert [row[0].strip("`") for row in rows] == list(RULE_KINDS)
    for row, kind in zip(rows, RULE_KINDS.values(), strict=True):
        rule = kind.default_rule()
        values = ["", ""]
        if not kind.is_state:
            values = [
                format_quantity(value, kind.unit, Language.ENGLISH).replace(" days", " d")
                for value in (rule.threshold, rule.clear)
            ]
        scopes = ", ".join(f"`{scope}`" for scope in kind.scopes)
        assert row[2:] == [*values, f"{rule.for_s} s", scopes, rule.severity], kind.name
