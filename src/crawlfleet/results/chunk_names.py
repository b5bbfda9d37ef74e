"""The name of a chunk in the chunk store, and its compression there: the same in a folder and in a bucket."""

from __future__ import annotations

import re
from typing import get_args

import zstandard

from crawlfleet.model.ids import ExecutionId, TaskId
from crawlfleet.ports.chunk_store import CHUNK_BYTES, ChunkKind

PREFIX_DIGITS = 6
"""Number of leading hex digits of a task id in a folder name: 24 of 64 bits, so that a folder spans four minutes."""
_LEVEL = 3
_LINES, _RECORDS = ".jsonl.zst", ".warc.gz"
_NAME = re.compile(rf"({'|'.join(get_args(ChunkKind))})-([0-9]{{1,7}})(?:{re.escape(_LINES)}|{re.escape(_RECORDS)})")

_PATH = re.compile(
    rf"([0-9a-f]{{{PREFIX_DIGITS}}})/(\1[0-9a-f]{{{16 - PREFIX_DIGITS}}})/[0-9a-f]{{16}}/{_NAME.pattern}"
)


def folder_name(task: TaskId) -> str:
    digits = f"{task:016x}"
    return f"{digits[:PREFIX_DIGITS]}/{digits}"


def execution_name(task: TaskId, execution: ExecutionId) -> str:
    return f"{folder_name(task)}/{execution:016x}"


def chunk_name(kind: ChunkKind, number: int) -> str:
    return f"{kind}-{number}{_RECORDS if kind == 'warc' else _LINES}"


def parse_chunk_number(name: str, kind: ChunkKind) -> int | None:
    """Return the number of a chunk of that kind; None for any other name."""
    match = _NAME.fullmatch(name)
    return int(match[2]) if match is not None and match[1] == kind else None


def parse_task(path: str) -> TaskId | None:
    """Return the task whose chunk has this path below the storage location; None for the path of anything else."""
    match = _PATH.fullmatch(path)
    return None if match is None else int(match[2], 16)


def compress_chunk(kind: ChunkKind, data: bytes) -> bytes:
    # WARC records are compressed one by one already, so that archive tools can open the file.
    return data if kind == "warc" else zstandard.ZstdCompressor(level=_LEVEL).compress(data)


def decompress_chunk(kind: ChunkKind, body: bytes) -> bytes:
    """Decompress a chunk. Raises ZstdError for damaged data."""
    return body if kind == "warc" else zstandard.ZstdDecompressor().decompress(body, max_output_size=CHUNK_BYTES)
