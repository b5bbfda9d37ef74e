"""The markup of each chat service, and the layout of a message in it.

Names and sentences from outside are escaped, so that they can neither mention people, nor place links or images. Where
a service documents no escape, a character that opens markup is replaced by its full-width twin.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass

from crawlfleet.notices.text_fitting import cut_rendered, join_lines
from crawlfleet.notices.texts import NoticeText

_FULL_WIDTH = str.maketrans({"<": "＜", ">": "＞", "[": "［", "]": "］", "`": "ˋ", "!": "！", "@": "＠"})
_FEISHU = str.maketrans({char: f"&#{ord(char)};" for char in "<>*_~`[]()!@#&"})


def escape_full_width(text: str) -> str:
    """Escape for DingTalk and WeCom: asterisks and underscores stay, as names are full of them."""
    return text.translate(_FULL_WIDTH)


def escape_feishu(text: str) -> str:
    """Escape for the Markdown of Feishu's cards, by character references."""
    return text.translate(_FEISHU)


def escape_slack(text: str) -> str:
    """Escape for Slack's mrkdwn: without `<` there is no mention and no link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _same(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one service marks up text."""

    escape: Callable[[str], str]
    title: str
    """Pattern of the first line, with `{}` for the escaped title; empty where the title stands elsewhere."""
    bold: str
    item: str
    link: str
    """Pattern of the link, with `{label}` and `{link}`."""
    escape_link: Callable[[str], str] = _same
    line_end: str = ""
    """What has to stand before a line end, so that the service shows it as one."""


DINGTALK = Dialect(escape_full_width, "### {}", "**{}**", "- {}", "[{label}]({link})", line_end="  ")
FEISHU = Dialect(escape_feishu, "", "**{}**", "- {}", "[{label}]({link})")
WECOM = Dialect(escape_full_width, "### {}", "**{}**", "> {}", "[{label}]({link})")
SLACK = Dialect(escape_slack, "*{}*", "*{}*", "• {}", "<{link}|{label}>", escape_link=escape_slack)
PLAIN = Dialect(_same, "", "{}", "- {}", "{label}: {link}")


def lay_out(text: NoticeText, dialect: Dialect, max_bytes: int, *, ending: str = "") -> str:
    """Lay out a message within `max_bytes` of UTF-8. Link and ending are always whole; the rest is cut from its end."""
    lines: list[tuple[str, Callable[[str], str]]] = []

    def add_line(plain: str, pattern: str) -> None:
        lines.append((plain, lambda part: pattern.replace("{}", dialect.escape(part)) + dialect.line_end))

    if dialect.title:
        add_line(text.title, dialect.title)
    if text.lead:
        add_line(text.lead, "{}")
    for label, value in text.facts:
        add_line(value, f"{dialect.bold.replace('{}', label)}: {{}}")
    for item in text.items:
        add_line(item, dialect.item)
    tail = [dialect.link.format(label=text.link_label, link=dialect.escape_link(text.link))] if text.link else []
    if ending:
        # A service looks for its keyword as it was written there.
        tail.append(ending)
    return join_lines(lines, f"{dialect.line_end}\n".join(tail), max_bytes)


def lay_out_html(text: NoticeText) -> str:
    """Lay out a message as the HTML of a mail: no style sheet, no image, nothing that is loaded."""
    rows = "".join(
        f"<tr><td><b>{html.escape(label)}</b>&nbsp;</td><td>{html.escape(value)}</td></tr>"
        for label, value in text.facts
    )
    items = "".join(f"<li>{html.escape(item)}</li>" for item in text.items)
    parts = [
        f"<h3>{html.escape(text.title)}</h3>",
        f"<p>{html.escape(text.lead)}</p>" if text.lead else "",
        f"<table>{rows}</table>" if rows else "",
        f"<ul>{items}</ul>" if items else "",
        f'<p><a href="{html.escape(text.link)}">{html.escape(text.link_label)}</a></p>' if text.link else "",
    ]
    body = "\n".join(part for part in parts if part)
    return f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"></head><body>\n{body}\n</body></html>\n'


def cut_title(text: NoticeText, max_bytes: int) -> str:
    """Return the title as plain text within a limit."""
    return cut_rendered(text.title, _same, max_bytes)
