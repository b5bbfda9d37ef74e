"""The layouts: markup from outside is shown and not obeyed."""

from __future__ import annotations

import html.parser

import pytest

from crawlfleet.model.notice import Language
from crawlfleet.notices.dialects import (
    DINGTALK,
    FEISHU,
    PLAIN,
    SLACK,
    WECOM,
    Dialect,
    cut_title,
    escape_feishu,
    escape_full_width,
    escape_slack,
    lay_out,
    lay_out_html,
)
from crawlfleet.notices.texts import write_notice
from tests.unit.notices.notice_kit import make_large_notice, make_notice

HOSTILE = "![i](http://evil/x.png) [l](http://evil) <@all> <at id=all> <!here> `c` @everyone <b>"


@pytest.mark.parametrize("dialect", [DINGTALK, FEISHU, WECOM, SLACK])
def test_markup_from_outside_opens_nothing(dialect: Dialect) -> None:
    shown = lay_out(write_notice(make_notice(why=HOSTILE, link=""), Language.ENGLISH), dialect, 8_000)
    assert "<" not in shown
    if dialect is not SLACK:
        assert "](" not in shown
        assert "`" not in shown


def test_names_with_underscores_stay_as_they_are_where_people_copy_them() -> None:
    assert escape_full_width("node_7*c") == "node_7*c"
    assert escape_slack("node_7 & co") == "node_7 &amp; co"
    assert escape_feishu("node_7") == "node&#95;7"


@pytest.mark.parametrize("dialect", [DINGTALK, FEISHU, WECOM, SLACK, PLAIN])
@pytest.mark.parametrize("max_bytes", [200, 500, 2_048, 8_000])
def test_a_layout_fits_and_keeps_link_and_ending(dialect: Dialect, max_bytes: int) -> None:
    text = write_notice(make_large_notice(), Language.CHINESE)
    shown = lay_out(text, dialect, max_bytes, ending="关键词")
    assert len(shown.encode()) <= max_bytes
    assert text.link in shown
    assert shown.endswith("关键词")


def test_a_mail_in_html_loads_nothing_and_runs_nothing() -> None:
    notice = make_notice(why="<script>alert(1)</script><img src=x>", scope='project:"><a href=x>')
    page = lay_out_html(write_notice(notice, Language.ENGLISH))
    tags: set[str] = set()

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.add(tag)
            if tag == "a":
                assert attrs == [("href", "https://crawl.example/alerts/failure_rate")]

    Reader().feed(page)
    assert tags == {"html", "head", "meta", "body", "h3", "p", "table", "tr", "td", "b", "a"}


def test_a_title_is_cut_on_a_character() -> None:
    text = write_notice(make_large_notice(), Language.CHINESE)
    assert len(cut_title(text, 100).encode()) <= 100
    assert cut_title(text, 100).endswith("…")
