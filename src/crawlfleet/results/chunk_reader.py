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
"""Number of lines that no chunk reaches, for a place after the last line of a chunk."""
_LINES = msgspec.json.Decoder(msgspec.Raw)


class Place(NamedTuple):
    """The position at which a page ended: a chunk, and how many of its lines were read."""

    chunk: int = 0
    line: int = 0

    @property
    def text(self) -> str:
        return f"{self.chunk}.{self.line}"

    @classmethod
    def from_text(cls, text: str, *, field: str) -> Place:
        chunk, dot, line = text.partition(".")
        if dot and _is_small(chunk) and _is_small(line) and int(chunk) <= CHUNKS:
            return cls(int(chunk), int(line))
        raise InvalidInput("not a place that an earlier answer gave", field=field)


class Lines(NamedTuple):
    lines: list[msgspec.Raw]
    next: Place
    """Position of the next page; lines that are written later appear there."""
    is_end: bool
    """Whether there are no more lines for now."""


class Chunks:
    """The chunks of one kind of one execution."""

    def __init__(
        self, store: ChunkStore, task: TaskId, execution: ExecutionId, kind: ChunkKind, expected: int | None = None
    ) -> None:
        """Read the chunks of one kind of an execution. `expected` is the number of chunks that its accepted outcome
        counts; None for an execution that is running or has failed."""
        self._store = store
        self._task = task
        self._execution = execution
        self._kind: ChunkKind = kind
        self._expected = expected

    async def count_chunks(self) -> int:
        if self._expected is not None:
            return self._expected
        return await self._store.count(self._task, self._execution, self._kind)

    async def read_lines(self, number: int) -> list[msgspec.Raw]:
        """Read the lines of one chunk. Raises NotFound for a chunk that is gone."""
        return _LINES.decode_lines(await self._read_chunk(number) or b"")

    async def read_page(
        self,
        start: Place,
        limit: int,
        *,
        keep: Callable[[msgspec.Raw], bool] | None = None,
        max_bytes: int = PAGE_BYTES,
        max_chunks: int = PAGE_CHUNKS,
    ) -> Lines:
        """Read at most `limit` lines, and about `max_bytes` of them: a page of large items is shorter.

        It reads no more than `max_chunks` chunks, so that a filter that keeps next to nothing does not read all of
        them.
        """
        place = start
        page: list[msgspec.Raw] = []
        size = 0
        while place.chunk < start.chunk + max_chunks:
            # No count of the chunks first: it takes longer the more there are, and a late page costs what the first
            # page does.
            data = await self._read_chunk(place.chunk)
            if data is None:
                return Lines(page, place, is_end=True)
            for line in _LINES.decode_lines(data)[place.line :]:
                if keep is None or keep(line):
                    length = len(memoryview(line))
                    if len(page) == limit or (page and size + length > max_bytes):
                        return Lines(page, place, is_end=False)
                    # A copy: a line must not keep its whole chunk in memory.
                    page.append(line.copy())
                    size += length
                place = Place(place.chunk, place.line + 1)
            place = Place(place.chunk + 1)
        return Lines(page, place, is_end=place.chunk == self._expected)

    async def read_page_before(
        self,
        end: Place,
        limit: int,
        *,
        keep: Callable[[msgspec.Raw], bool] | None = None,
        max_bytes: int = PAGE_BYTES,
        max_chunks: int = PAGE_CHUNKS,
    ) -> Lines:
        """Read the last lines before a position, in order; `next` is where they begin, for the page before them."""
        page: list[msgspec.Raw] = []
        size = looked = 0
        place = end
        while place > Place() and looked < max_chunks:
            looked += 1
            if not place.line:
                place = Place(place.chunk - 1, _WHOLE)
            data = await self._read_chunk(place.chunk)
            lines = _LINES.decode_lines(data or b"")[: place.line]
            for number in range(len(lines) - 1, -1, -1):
                line = lines[number]
                if keep is None or keep(line):
                    length = len(memoryview(line))
                    if len(page) == limit or (page and size + length > max_bytes):
                        return Lines(page[::-1], Place(place.chunk, number + 1), is_end=False)
                    page.append(line.copy())
                    size += length
            place = Place(place.chunk)
        return Lines(page[::-1], place, is_end=place == Place())

    async def stream_lines(self, first: int = 0) -> AsyncIterator[bytes]:
        """Stream all lines from a chunk on as JSON lines, one chunk at a time."""
        number = first
        while (data := await self._read_chunk(number)) is not None:
            yield data
            number += 1

    async def _read_chunk(self, number: int) -> bytes | None:
        if self._expected is not None and number >= self._expected:
            return None
        data = await self._store.read(self._task, self._execution, self._kind, number)
        if data is None and self._expected is not None:
            raise NotFound(f"the {self._kind} of {execution_text(self._execution)} are no longer kept")
        return data


def _is_small(digits: str) -> bool:
    return digits.isascii() and digits.isdigit() and len(digits) <= 9
