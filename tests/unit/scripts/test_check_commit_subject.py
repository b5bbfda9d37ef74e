"""Which subjects of commits are refused, alone and as git's hook."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.check_commit_subject import subject_error
from tests.paths import ROOT

LONG = "store: " + "x" * 66


@pytest.mark.parametrize(
    "message",
    [
        "store: " + "x" * 65,
        "Short\n\n" + "a body may have lines of any length " * 9,
        f"# {LONG}\n\nShort\n# {LONG}",
        f"Merge branch {LONG}",
        f"fixup! {LONG}",
        "文" * 72,
        "",
    ],
)
def test_a_subject_of_72_characters_or_made_by_git_is_fine(message: str) -> None:
    assert subject_error(message) is None


def test_a_longer_subject_is_refused_with_its_length() -> None:
    error = subject_error(f"\n{LONG}\n\nwhy\n")
    assert error is not None
    assert "73 characters, and may have 72" in error


@pytest.mark.parametrize(("subject", "code"), [("Short", 0), (LONG, 1)])
def test_the_hook_answers_by_its_exit_code(subject: str, code: int, tmp_path: Path) -> None:
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text(subject)
    script = ROOT / "scripts" / "check_commit_subject.py"
    run = subprocess.run([sys.executable, script, message], capture_output=True, text=True, check=False)
    assert run.returncode == code
    assert bool(run.stderr) == bool(code)
    assert run.stdout == ""
