"""The type of one page of a list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

RecordT = TypeVar("RecordT")


class RecordPage(list[RecordT]):
    """The records of a page. Large records make it shorter than requested, which does not mean the end of the list."""

    def __init__(self, records: Iterable[RecordT] = (), *, has_more: bool = False) -> None:
        super().__init__(records)
        self.has_more = has_more
