"""Calls for exports: results as files, streamed as they come or saved under their name once they are whole; and for the
quality of results."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from crawlfleet.client._generated.models import QualityView
from crawlfleet.client.errors import ApiError, Unreachable
from crawlfleet.client.nouns.base import Calls, quote_segment
from crawlfleet.client.transport.http import Params
from crawlfleet.client.transport.retry import may_repeat
from crawlfleet.client.types import ExportFormat, ExportKind, OnBytes, SavedExport

_READ_BYTES = 1 << 20
_PATIENCE_S = 900.0
"""Timeout in seconds between two pieces: before the first row of a table a master reads everything once for its
columns."""
_COMPLETE = "Export-Complete"


class ExportCalls(Calls):
    def export(
        self,
        task_id: str,
        *,
        format: ExportFormat = "jsonl",
        bom: bool = False,
        guard: bool = False,
        kind: ExportKind = "items",
    ) -> AsyncIterator[bytes]:
        """The items of a task as a file, as it comes. `bom` and `guard` are for CSV: the mark that Excel knows UTF-8
        by, and an apostrophe before texts that a spreadsheet would run. `kind`: without the notes that crawls keep of
        pages, only those (`pages`), or both (`all`)."""
        return self._stream_pieces(_task_path(task_id), _export_params(format, bom, guard, kind))

    def export_group(
        self,
        group_id: str,
        *,
        format: ExportFormat = "jsonl",
        partial: bool = False,
        bom: bool = False,
        guard: bool = False,
        kind: ExportKind = "items",
    ) -> AsyncIterator[bytes]:
        """The items of all members as a file, as it comes. Refused (409) while members are missing, unless
        `partial`."""
        return self._stream_pieces(
            _group_path(group_id), {**_export_params(format, bom, guard, kind), "partial": partial}
        )

    async def save_export(
        self,
        task_id: str,
        path: Path,
        *,
        format: ExportFormat = "jsonl",
        bom: bool = False,
        guard: bool = False,
        kind: ExportKind = "items",
        on_bytes: OnBytes | None = None,
    ) -> SavedExport:
        """`export` into a file, which has its name only once all of it is there. A broken connection is begun again
        from the first byte. `on_bytes` is called with how many have come."""
        return await self._save_stream(_task_path(task_id), _export_params(format, bom, guard, kind), path, on_bytes)

    async def save_group_export(
        self,
        group_id: str,
        path: Path,
        *,
        format: ExportFormat = "jsonl",
        partial: bool = False,
        bom: bool = False,
        guard: bool = False,
        kind: ExportKind = "items",
        on_bytes: OnBytes | None = None,
    ) -> SavedExport:
        """`export_group` into a file, as `save_export` does."""
        params = {**_export_params(format, bom, guard, kind), "partial": partial}
        return await self._save_stream(_group_path(group_id), params, path, on_bytes)

    async def quality(self, task_id: str, *, kind: ExportKind = "items") -> QualityView:
        """Which fields of a task's items are filled and with what, items per page, and duplicates."""
        return await self._load_quality(f"/tasks/{quote_segment(task_id)}/results:quality", {**_kind_param(kind)})

    async def group_quality(self, group_id: str, *, partial: bool = False, kind: ExportKind = "items") -> QualityView:
        """The same over the items of all members."""
        return await self._load_quality(
            f"/groups/{quote_segment(group_id)}/results:quality", {"partial": partial, **_kind_param(kind)}
        )

    async def _load_quality(self, address: str, params: Params) -> QualityView:
        async with self._transport.open_response(address, params=params, read_s=_PATIENCE_S) as answer:
            return msgspec.json.decode(await answer.read(), type=QualityView)

    async def _stream_pieces(self, address: str, params: Params) -> AsyncIterator[bytes]:
        async with self._transport.open_response(address, params=params, read_s=_PATIENCE_S) as answer:
            while data := await answer.content.read(_READ_BYTES):
                yield data

    async def _save_stream(self, address: str, params: Params, path: Path, on_bytes: OnBytes | None) -> SavedExport:
        waits = self._transport.retry_pauses()
        with _PartFile(path) as file:
            while True:
                try:
                    async with self._transport.open_response(address, params=params, read_s=_PATIENCE_S) as answer:
                        is_complete = answer.headers.get(_COMPLETE) != "false"
                        while data := await answer.content.read(_READ_BYTES):
                            await asyncio.to_thread(file.write, data)
                            if on_bytes is not None:
                                on_bytes(file.size)
                except (Unreachable, ApiError) as exc:
                    is_final = isinstance(exc, ApiError) and not may_repeat(exc.status, is_repeatable=True)
                    if is_final or (pause := next(waits, None)) is None:
                        raise
                    await asyncio.sleep(pause)
                    file.restart()
                    continue
                await asyncio.to_thread(file.move_into_place)
                return SavedExport(path, file.size, is_complete)


class _PartFile:
    """A file under another name until all of it is written: half an export must not pass for a whole one."""

    def __init__(self, path: Path) -> None:
        if path.is_dir():
            # Raised now, not when all of it has come.
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        self._path = path
        self._part = path.with_name(f"{path.name}.{os.getpid()}.part")
        self.size = 0

    def __enter__(self) -> Self:
        self._file = self._part.open("wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self.size += len(data)

    def restart(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self.size = 0

    def move_into_place(self) -> None:
        self._file.close()
        self._part.replace(self._path)


def _task_path(task_id: str) -> str:
    return f"/tasks/{quote_segment(task_id)}/results:export"


def _group_path(group_id: str) -> str:
    return f"/groups/{quote_segment(group_id)}/results:export"


def _export_params(format: ExportFormat, bom: bool, guard: bool, kind: ExportKind) -> dict[str, str | bool]:
    return {"format": format, "bom": bom, "guard": guard, **_kind_param(kind)}


def _kind_param(kind: ExportKind) -> dict[str, str]:
    """Return the query parameter of an export kind. The default is not sent: a master of an older version knows no
    other kind."""
    return {} if kind == "items" else {"kind": kind}
