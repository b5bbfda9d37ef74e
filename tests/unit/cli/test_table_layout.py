"""What the command line prints on a terminal and into a pipe: no broken words, no lost cells."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from crawlfleet.cli import exit_codes, output
from crawlfleet.cli.table_layout import lay_out, row_lines, shorten_text, wrap_words

ID = "task-0123456789abcdef"
TITLES = ("TASK", "STATUS", "NODE", "CREATED", "NAME")
ROW = (ID, "completed", "node-0123456789abcdef", "2026-01-01T00:00:00Z", "the spring collection of all our shops")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "terminal_width", lambda _: 80)
    monkeypatch.setattr(exit_codes, "terminal_width", lambda _: 80)


def test_everything_is_shown_where_there_is_room() -> None:
    layout = lay_out(TITLES, [ROW], 200, prose=("NAME",))
    assert (layout.columns, layout.dropped) == ([0, 1, 2, 3, 4], [])


@pytest.mark.parametrize("width", [20, 60, 80, 120])
def test_no_word_is_broken_at_any_width(width: int) -> None:
    layout = lay_out(TITLES, [ROW], width, prose=("NAME",), drop=("NODE", "CREATED"))
    lines = row_lines(
        [ROW[at] for at in layout.columns], layout.widths, wraps_last="NAME" in TITLES[layout.columns[-1]]
    )
    words = "".join("".join(line) + "\n" for line in lines).split()
    assert ID in words
    assert set(words) <= set(" ".join(ROW).split())
    assert all(len("".join(line).rstrip()) <= max(width, len(ID)) for line in lines)


def test_columns_are_left_out_in_the_order_that_is_asked_for() -> None:
    assert lay_out(TITLES, [ROW], 80, prose=("NAME",), drop=("NODE", "CREATED")).dropped == ["NODE"]
    assert lay_out(TITLES, [ROW], 60, prose=("NAME",), drop=("NODE", "CREATED")).dropped == ["NODE", "CREATED"]
    assert lay_out(TITLES, [ROW], 1).dropped == ["STATUS", "NODE", "CREATED", "NAME"]


def test_a_column_that_went_for_a_wider_one_comes_back_where_there_is_room() -> None:
    layout = lay_out(("A", "B", "C"), [("1234567890", "12", "1" * 30)], 16, drop=("B", "C"))
    assert (layout.columns, layout.dropped) == ([0, 1], ["C"])


def test_columns_without_a_value_go_first_and_are_not_missed() -> None:
    row = (ID, "completed", "", "2026-01-01T00:00:00Z", "")
    layout = lay_out(TITLES, [row], 57, drop=("STATUS",))
    assert ([TITLES[at] for at in layout.columns], layout.dropped) == (["TASK", "STATUS", "CREATED"], [])


def test_prose_is_shortened_with_a_mark_where_it_is_not_the_last() -> None:
    layout = lay_out(("NAME", "TASK"), [(ROW[4], ID)], 50, prose=("NAME",))
    assert row_lines([ROW[4], ID], layout.widths, wraps_last=False) == [["the spring collection of…    ", ID]]
    assert shorten_text("日本語日本語", 5) == "日本…"


def test_words_that_are_longer_than_a_line_have_one_for_themselves() -> None:
    assert wrap_words(f"no task {ID}: look again", 12) == ["no task", f"{ID}:", "look again"]
    assert wrap_words("any text", None) == ["any text"]


def test_a_table_says_what_it_leaves_out(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    output.Output(is_json=False).print_table(TITLES, [ROW], drop=("CREATED", "NAME"))
    said = capsys.readouterr()
    assert said.out == (
        f"TASK                   STATUS     NODE                   CREATED\n{ID}  completed  {ROW[2]}  {ROW[3]}\n"
    )
    assert said.err == "(no room for NAME; a wider terminal or --json shows all)\n"


def test_a_pipe_gets_all_of_it_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    long = "word " * 200 + "\nend"
    out = output.Output(is_json=False)
    out.print_table(("TASK", "CAUSE"), [(ID, long)], prose=("CAUSE",))
    out.print_record({"cause": "word " * 200})
    out.print_note("word " * 200)
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 3
    assert said.out.count("word") == 400
    assert len(said.err.splitlines()) == 1


def test_a_record_goes_on_below_its_values(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    output.Output(is_json=False).print_record({"id": ID, "at": "2026-01-01T00:00:00.123Z", "reason": "word " * 30})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"id      {ID}", "at      2026-01-01T00:00:00Z"]
    assert all(line.startswith("        word") for line in lines[3:])
    assert max(map(len, lines)) <= 80


def test_errors_are_broken_between_words(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    exit_codes.print_to_stderr("error: " + f"{ID} " * 6)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80
    assert " ".join(lines).count(ID) == 6


def test_a_real_terminal_of_eighty_columns(tmp_path: Path) -> None:
    """The widest listing that needs no master: every setting with its value and where it comes from."""
    master, slave = pty.openpty()
    os.set_blocking(master, True)
    env = {**os.environ, "COLUMNS": "80", "HOME": str(tmp_path), "TERM": "dumb"}
    with subprocess.Popen(
        [sys.executable, "-m", "crawlfleet.cli", "config", "show"], stdout=slave, stderr=slave, env=env, cwd=tmp_path
    ) as process:
        os.close(slave)
        data = b""
        try:
            while chunk := os.read(master, 65_536):
                data += chunk
        except OSError:
            # A terminal whose last process has gone reads as an error.
            pass
        assert process.wait(60) == 0
    os.close(master)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", data.decode()).replace("\r", "").splitlines()
    assert lines[0].startswith("SETTING")
    assert max(map(len, lines)) <= 80
