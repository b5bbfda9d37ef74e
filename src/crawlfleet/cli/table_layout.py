"""Table layout: which columns fit a terminal and how wide each is. Words and ids are never broken."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

GAP = 2
PROSE_LEAST = 20
"""A column of prose is shortened to this before another column is left out."""
CUT = "…"


class Layout(NamedTuple):
    columns: list[int]
    """Positions of the columns that are shown."""
    widths: list[int]
    """In cells of the terminal, one for each of them."""
    dropped: list[str]
    """Titles of columns that hold something and are not shown."""


def lay_out(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None,
    *,
    prose: Collection[str] = (),
    drop: Sequence[str] = (),
) -> Layout:
    """The columns that fit into `width` cells (None: all, uncut).

    Columns without any value are left out first, then those in `drop` in its order, then from the right; the first
    column always stays. Columns in `prose` share what is left.
    """
    cells = [[row[index] for row in rows] for index in range(len(titles))]
    natural = [max(map(cell_width, [title, *cells[index]])) for index, title in enumerate(titles)]
    shown = list(range(len(titles)))
    if width is None:
        return Layout(shown, natural, [])
    least = [
        min(natural[index], max(PROSE_LEAST, cell_width(title))) if title in prose else natural[index]
        for index, title in enumerate(titles)
    ]
    dropped: list[int] = []
    for index in _drop_order(titles, cells, drop):
        if _total_width(least, shown) <= width:
            break
        shown.remove(index)
        dropped.append(index)
    for index in list(reversed(dropped)):
        # One that had to go before a wider one may have room now.
        if any(cells[index]) and _total_width(least, [*shown, index]) <= width:
            shown = sorted([*shown, index])
            dropped.remove(index)
    widths = _share_width(natural, least, shown, width)
    return Layout(shown, widths, [titles[index] for index in sorted(dropped) if any(cells[index])])


def _drop_order(titles: Sequence[str], cells: Sequence[Sequence[str]], drop: Sequence[str]) -> list[int]:
    last_first = range(len(titles) - 1, 0, -1)
    empty = [index for index in last_first if not any(cells[index])]
    named = [titles.index(title) for title in drop if title in titles]
    return list(dict.fromkeys([*empty, *named, *last_first]))


def _total_width(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[index] for index in shown) + GAP * (len(shown) - 1)


def _share_width(natural: Sequence[int], least: Sequence[int], shown: Sequence[int], width: int) -> list[int]:
    left = max(0, width - _total_width(least, shown))
    widths = []
    for index in shown:
        more = min(left, natural[index] - least[index])
        left -= more
        widths.append(least[index] + more)
    return widths


def row_lines(cells: Sequence[str], widths: Sequence[int], *, wraps_last: bool) -> list[list[str]]:
    """The lines of a row, each a list of padded cells. A last column of prose goes on below itself."""
    lasts = wrap_words(cells[-1], widths[-1]) if wraps_last else [shorten_text(cells[-1], widths[-1])]
    head = [shorten_text(cell, width) for cell, width in zip(cells[:-1], widths[:-1], strict=True)]
    first = [*(_pad_cell(cell, width + GAP) for cell, width in zip(head, widths[:-1], strict=True)), lasts[0]]
    indent = " " * sum(width + GAP for width in widths[:-1])
    return [first, *([indent, line] for line in lasts[1:])]


def shorten_text(text: str, width: int) -> str:
    if cell_width(text) <= width:
        return text
    signs, used = [], cell_width(CUT)
    for sign in text:
        used += cell_width(sign)
        if used > width:
            break
        signs.append(sign)
    whole_words = "".join(signs).rpartition(" ")[0]
    # A text without spaces, such as an address, shows its beginning.
    return (whole_words if 2 * cell_width(whole_words) >= width else "".join(signs)).rstrip() + CUT


def wrap_words(text: str, width: int | None) -> list[str]:
    """Lines of at most `width` cells, broken at spaces only: a word that is longer has a line for itself."""
    if width is None or cell_width(text) <= width:
        return [text]
    lines, line, used = [], "", 0
    for word in text.split(" "):
        size = cell_width(word)
        if line and used + 1 + size > width:
            lines.append(line)
            line, used = word, size
        else:
            line, used = (f"{line} {word}", used + 1 + size) if line else (word, size)
    return [*lines, line]


def cell_width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _pad_cell(text: str, width: int) -> str:
    return text + " " * (width - cell_width(text))
