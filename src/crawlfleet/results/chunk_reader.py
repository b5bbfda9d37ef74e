"""Pages and streams over the chunks of an execution. One chunk is in memory at a time, whatever the number of items."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import msgspec

from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.ids import ExecutionId, TaskId, execution_text
from crawlfleet.ports.chunk_store import CHUNKS, ChunkKind, ChunkStore

PAGE_BYTES = 4 << 20
PAGE_CHUNKS = 50
_WHOLE = 1_000_000_000
"""More lines than a chunk has."""
_LINES = msgspec.json.Decoder(msgspec.Raw)


class Place(NamedTuple):
    """Where a page ended: a chunk, and how many of its lines were read."""

    chunk: int = 0
    line: int = 0

    @property
    def text(self) -> str:
        return f"{self.chunk}.{self.line}"

    @classmethod
    def parse(cls, text: str, *, field: str) -> Place:
        chunk, dot, line = text.partition(".")
        if dot and _is_small(chunk) and _is_small(line) and int(chunk) <= CHUNKS:
            return cls(int(chunk), int(line))
        raise InvalidInput("not a place that an earlier answer gave", field=field)


class Lines(NamedTuple):
    lines: list[msgspec.Raw]
    next: Place
    """Where to go on; what is written later appears there."""
    is_end: bool
    """There is no more at this moment."""


class Chunks:
    """One kind of chunk of one execution."""

    def __init__(
        self, store: ChunkStore, task: TaskId, execution: ExecutionId, kind: ChunkKind, expected: int | None = None
    ) -> None:
        """`expected`: how many its accepted outcome says there are; None for one that runs or that failed."""
        self._store = store
        self._task = task
        self._execution = execution
        self._kind: ChunkKind = kind
        self._expected = expected

    async def count(self) -> int:
        if self._expected is not None:
            return self._expected
        return await self._store.count(self._task, self._execution, self._kind)

    async def lines(self, number: int) -> list[msgspec.Raw]:
        """Of one chunk. Raises NotFound for one that is gone."""
        return _LINES.decode_lines(await self._chunk_or_end(number) or b"")

    async def page(
        self,
        start: Place,
        limit: int,
        *,
        keep: Callable[[msgspec.Raw], bool] | None = None,
        most_bytes: int = PAGE_BYTES,
        most_chunks: int = PAGE_CHUNKS,
    ) -> Lines:
        """At most `limit` lines, and about `most_bytes` of them: a page of large items is shorter.

        It looks at no more than `most_chunks`, so that a filter that keeps next to nothing does not read all there is.
        """
        place = start
        found: list[msgspec.Raw] = []
        size = 0
        while place.chunk < start.chunk + most_chunks:
            # Without counting first, which takes longer the more there are: a late page costs what the first does.
            data = await self._chunk_or_end(place.chunk)
            if data is None:
                return Lines(found, place, is_end=True)
            for line in _LINES.decode_lines(data)[place.line :]:
                if keep is None or keep(line):
                    length = len(memoryview(line))
                    if len(found) == limit or (found and size + length > most_bytes):
                        return Lines(found, place, is_end=False)
                    # A copy: a line must not keep its whole chunk in memory.
                    found.append(line.copy())
                    size += length
                place = Place(place.chunk, place.line + 1)
            place = Place(place.chunk + 1)
        return Lines(found, place, is_end=place.chunk == self._expected)

    async def page_before(
        self,
        end: Place,
        limit: int,
        *,
        keep: Callable[[msgspec.Raw], bool] | None = None,
        most_bytes: int = PAGE_BYTES,
        most_chunks: int = PAGE_CHUNKS,
    ) -> Lines:
        """The last lines before a place, in order; `next` is the place they begin at, for those before them."""
        found: list[msgspec.Raw] = []
        size = looked = 0
        place = end
        while place > Place() and looked < most_chunks:
            looked += 1
            if not place.line:
                place = Place(place.chunk - 1, _WHOLE)
            data = await self._chunk_or_end(place.chunk)
            lines = _LINES.decode_lines(data or b"")[: place.line]
            for number in range(len(lines) - 1, -1, -1):
                line = lines[number]
                if keep is None or keep(line):
                    length = len(memoryview(line))
                    if len(found) == limit or (found and size + length > most_bytes):
                        return Lines(found[::-1], Place(place.chunk, number + 1), is_end=False)
                    found.append(line.copy())
                    size += length
            place = Place(place.chunk)
        return Lines(found[::-1], place, is_end=place == Place())

    async def stream(self, first: int = 0) -> AsyncIterator[bytes]:
        """All of it from a chunk on, a chunk at a time, as JSON lines."""
        number = first
        while (data := await self._chunk_or_end(number)) is not None:
            yield data
            number += 1

    async def _chunk_or_end(self, number: int) -> bytes | None:
        if self._expected is not None and number >= self._expected:
            return None
        data = await self._store.read(self._task, self._execution, self._kind, number)
        if data is None and self._expected is not None:
            raise NotFound(f"the {self._kind} of {execution_text(self._execution)} are no longer kept")
        return data


def _is_small(digits: str) -> bool:
    return digits.isascii() and digits.isdigit() and len(digits) <= 9
