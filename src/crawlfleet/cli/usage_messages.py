"""Messages about wrong options and commands: one sentence and a hint, as every other error of the command line."""

from __future__ import annotations

import re

_RULES = (
    (r" \(Possible options: ([^)]*)\)", r"; did you mean \1?"),
    (r"Input should be a valid integer.*", "must be a whole number"),
    (r"Input should be a valid number.*", "must be a number"),
    (r"Input should be a valid boolean.*", "must be true or false"),
    (r"Input should be greater than or equal to ", "must be at least "),
    (r"Input should be less than or equal to ", "must be at most "),
    (r"Input should be greater than ", "must be more than "),
    (r"Input should be less than ", "must be less than "),
    (r"Input should be ", "must be "),
    (r"Value error, ", ""),
    (r"^Invalid value for '([^']*)': ", r"\1: "),
    (r"^Got unexpected extra argument\(s\) \((.*)\)", r"\1 is one argument too many"),
    (r"^Missing argument '([^']*)'", r"the argument \1 is missing"),
    (r"^Missing option '([^']*)'", r"the option \1 is missing"),
    (r"^No such option: ", "there is no option "),
    (r"^No such command ", "there is no command "),
    (r"^Option '([^']*)' requires an argument", r"\1 needs a value"),
    (r"\. Did you mean ([^?]*)\?", r"; did you mean \1?"),
)


def usage_message(text: str) -> str:
    for pattern, words in _RULES:
        text = re.sub(pattern, words, text, flags=re.DOTALL)
    return text.rstrip(".")
