"""Properties of cutting: within the limit, a beginning of the text, and as long as possible."""

from __future__ import annotations

import html

from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.notices.dialects import escape_feishu, escape_slack
from crawlfleet.notices.text_fitting import CUT, byte_length, cut_rendered, cut_text, join_lines

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.text("ab<&é节😀", max_size=60)


@given(texts, st.integers(0, 120))
def test_a_cut_text_is_the_longest_beginning_that_fits(text: str, max_bytes: int) -> None:
    shown = cut_text(text, max_bytes)
    assert len(shown.encode()) <= max_bytes
    if len(text.encode()) <= max_bytes:
        assert shown == text
    elif shown:
        assert shown.endswith(CUT)
        kept = shown[: -len(CUT)]
        assert text.startswith(kept)
        assert len((text[: len(kept) + 1] + CUT).encode()) > max_bytes
    else:
        assert max_bytes < len(CUT.encode())


@given(texts, st.integers(3, 120))
def test_an_escape_is_never_cut_in_two(text: str, max_bytes: int) -> None:
    for escape in (escape_slack, escape_feishu):
        shown = cut_rendered(text, escape, max_bytes)
        assert byte_length(shown) <= max_bytes
        plain = html.unescape(shown)
        assert plain == text or (plain.endswith(CUT) and text.startswith(plain[: -len(CUT)]))


@given(st.lists(texts.map(lambda text: text.replace("\n", " ")), max_size=6), st.text("ab节", max_size=20), st.data())
def test_joined_lines_fit_with_their_tail_whole(lines: list[str], tail: str, data: st.DataObject) -> None:
    max_bytes = data.draw(st.integers(byte_length(tail), 200))
    shown = join_lines([(line, escape_slack) for line in lines], tail, max_bytes)
    assert byte_length(shown) <= max_bytes
    assert shown.endswith(tail)
    whole = "\n".join([*(escape_slack(line) for line in lines if line), *([tail] if tail else [])])
    if byte_length(whole) <= max_bytes:
        assert shown == whole
