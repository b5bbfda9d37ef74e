"""Terminal escaping: foreign text in which every character that controls a terminal is an escape such as `\\x1b`."""

from __future__ import annotations

import json
import re

# C0 controls except tab and newline, DEL, C1 controls, marks that change the direction of the text around them, line
# and paragraph separators, and halves of surrogate pairs, which cannot be sent to any terminal.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    """Escape every character that controls a terminal; tabs and newlines stay."""
    return text if text.isprintable() else _STEERING.sub(_write_out, text)


def escape_line(text: str) -> str:
    """Escape like `escape_controls` for text that has to stay on one line: newlines and tabs are escaped too."""
    return text if text.isprintable() else escape_controls(text).replace("\n", "\\n").replace("\t", "\\t")


def json_text(value: object, *, indent: int | None = None) -> str:
    """Write JSON with the letters of all languages unescaped, and every character that controls a terminal escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text if text.isprintable() else _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _write_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
