#!/usr/bin/env python3
"""Checks that the subject of a commit has at most 72 characters. It is meant as git's hook `commit-msg`.

scripts/check_commit_subject.py FILE_WITH_THE_MESSAGE
"""

from __future__ import annotations

import sys
from pathlib import Path

SUBJECT_LENGTH = 72
MADE_BY_GIT = ("Merge ", "fixup! ", "squash! ", "amend! ")


def read_subject(message: str) -> str:
    """The first line that is neither empty nor one of git's comments."""
    return next((line.strip() for line in message.splitlines() if line.strip() and not line.startswith("#")), "")


def subject_error(message: str) -> str | None:
    subject = read_subject(message)
    if subject.startswith(MADE_BY_GIT) or len(subject) <= SUBJECT_LENGTH:
        return None
    return f"""\
error: the subject of this commit has {len(subject)} characters, and may have {SUBJECT_LENGTH}: {subject}
hint: name the package and one change ("store: merge the modules of daily quotas"), and say why in the body"""


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    error = subject_error(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if error is not None:
        print(error, file=sys.stderr)
    return 0 if error is None else 1


if __name__ == "__main__":
    sys.exit(main())
