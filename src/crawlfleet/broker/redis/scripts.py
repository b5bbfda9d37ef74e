"""The Lua scripts of the broker. Each is one atomic step, whatever the number of lanes or tasks in it."""

from __future__ import annotations

from hashlib import sha1
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent / "lua"


class Script(NamedTuple):
    source: str
    sha: str


def _load_script(*names: str) -> Script:
    """Join several files into one script: the first ones define what the last one uses."""
    source = "\n".join((_FOLDER / f"{name}.lua").read_text("utf-8") for name in names)
    return Script(source, sha1(source.encode(), usedforsecurity=False).hexdigest())


CLAIM = _load_script("claim")
OFFER = _load_script("ready", "ready_shrink", "ready_offer")
WINDOWS = _load_script("ready_windows")
CHANGED = _load_script("ready_changed")
TAKE = _load_script("ready", "ready_take")
REFILL = _load_script("ready", "ready_shrink", "ready_refill")
DISCARD = _load_script("ready", "ready_discard")
DROP = _load_script("ready", "ready_drop")
CLEAR = _load_script("ready", "ready_clear")
POST_FREED = _load_script("freed_post")
TAKE_FREED = _load_script("freed_take")
PUT_ON_BOARD = _load_script("board_put")
MEMORY_INFO = _load_script("memory_info")

ALL = (
    CLAIM,
    OFFER,
    WINDOWS,
    CHANGED,
    TAKE,
    REFILL,
    DISCARD,
    DROP,
    CLEAR,
    POST_FREED,
    TAKE_FREED,
    PUT_ON_BOARD,
    MEMORY_INFO,
)
