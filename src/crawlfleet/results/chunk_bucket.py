"""The chunk store in a bucket of S3, or of a service with the same API: one compressed object for each chunk.

    <prefix>/<first digits of the task>/<task>/<execution>/<kind>-<number>.jsonl.zst (records: .warc.gz)

The names are those of `chunk_folder`, so that results move between the two by a plain copy. An object appears whole or
not at all, and is stored when the call is answered. Endpoint, region and credentials come from the AWS_ variables.

Every call waits for its turn and has a timeout, shorter than the time a node waits for its upload: a node gets 503 and
tries again, it does not hang. The chunks that wait here are bounded in bytes, whatever the number of nodes.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import zstandard
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from crawlfleet.errors import ConfigError, Unavailable
from crawlfleet.model.ids import ExecutionId, TaskId
from crawlfleet.ports.chunk_store import MARK, ChunkFile, ChunkKind
from crawlfleet.results.chunk_names import (
    PREFIX_DIGITS,
    chunk_name,
    compress_chunk,
    decompress_chunk,
    execution_name,
    folder_name,
    parse_chunk_number,
    parse_task,
)
from crawlfleet.results.recent_failures import RecentFailure

SCHEME = "s3://"
CONNECT_S, REQUEST_S, CALL_S = 3, 8, 20.0
AT_ONCE = 32
DROPS_AT_ONCE = 8
HELD_BYTES = 256 << 20
"""Limit of the bytes of chunks on their way to the bucket; more are refused until some are written."""
PAGE = 1_000
_REFUSED = re.compile(r"status code: (?:301|4(?!08|29)\d\d)")
"""Pattern of errors that are refusals: the same request would be answered in the same way again."""
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_ROLES = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
_LINE_CHARS = 300
AnswerT = TypeVar("AnswerT")


class ObjectChunks:
    def __init__(self, address: str, environment: Mapping[str, str]) -> None:
        """Open the store of `s3://BUCKET/PREFIX`. Raises ConfigError for mistakes that show without a request."""
        self.address = address
        self._store = _open_store(address, environment)
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._held_bytes = 0
        self._failure = RecentFailure()

    @property
    def trouble(self) -> str | None:
        return self._failure.recent_message

    async def put(self, task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int, data: bytes) -> None:
        if self._held_bytes + len(data) > HELD_BYTES:
            raise self._unavailable_error("write", f"{self._held_bytes} bytes are on their way already")
        self._held_bytes += len(data)
        try:
            body = await asyncio.to_thread(compress_chunk, kind, data)
            path = _chunk_path(task, execution, kind, number)
            # In one request: the parts that a broken multipart upload leaves behind are hidden, and paid for.
            await self._call_store("write", lambda: self._store.put_async(path, body, use_multipart=False))
        except FileNotFoundError as exc:
            raise self._unavailable_error("write", exc) from exc
        finally:
            self._held_bytes -= len(data)

    async def read(self, task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int) -> bytes | None:
        body = await self._get_object(_chunk_path(task, execution, kind, number))
        if body is None:
            return None
        try:
            return await asyncio.to_thread(decompress_chunk, kind, body)
        except zstandard.ZstdError as exc:
            raise self._unavailable_error("read", exc) from exc

    async def count(self, task: TaskId, execution: ExecutionId, kind: ChunkKind) -> int:
        numbers: set[int] = set()
        count = 0
        async for files in self._list_pages(execution_name(task, execution)):
            chunk_names = (file.name.rpartition("/")[2] for file in files)
            numbers |= {number for name in chunk_names if (number := parse_chunk_number(name, kind)) is not None}
            while count in numbers:
                numbers.remove(count)
                count += 1
        return count

    async def drop(self, tasks: Sequence[TaskId]) -> None:
        groups: defaultdict[str, set[str]] = defaultdict(set)
        for task in tasks:
            groups[f"{task:016x}"[:PREFIX_DIGITS]].add(folder_name(task))
        for prefix, folders in groups.items():
            # Most tasks leave no chunks: one listing for all tasks with a common prefix, not one for each task.
            listed = await self._call_store("drop", lambda prefix=prefix: self._store.list_with_delimiter_async(prefix))  # type: ignore[misc]
            await self._drop_folders([path for path in listed["common_prefixes"] if path.rstrip("/") in folders])

    async def mark(self) -> str | None:
        body = await self._call_at_start(lambda: self._get_object(MARK))
        return None if body is None else body.decode("utf-8", "replace").strip()

    async def set_mark(self, text: str, *, is_replacing: bool = False) -> None:
        mode: Literal["overwrite", "create"] = "overwrite" if is_replacing else "create"

        async def put_mark() -> None:
            await self._call_store("mark", lambda: self._store.put_async(MARK, text.encode(), mode=mode))

        with suppress(AlreadyExistsError):
            await self._call_at_start(put_mark)

    async def remove_mark(self) -> None:
        with suppress(FileNotFoundError):
            await self._call_store("unmark", lambda: self._store.delete_async(MARK))

    async def list_files(self, after: str = "") -> AsyncIterator[list[ChunkFile]]:
        async for page in self._list_pages("", after):
            if files := [file for file in page if parse_task(file.name) is not None]:
                yield files

    async def read_file(self, name: str) -> bytes | None:
        return await self._get_object(name)

    async def write_file(self, name: str, body: bytes) -> None:
        try:
            await self._call_store("write", lambda: self._store.put_async(name, body, use_multipart=False))
        except FileNotFoundError as exc:
            raise self._unavailable_error("write", exc) from exc

    async def _get_object(self, path: str) -> bytes | None:
        async def get_bytes() -> bytes:
            return bytes(await (await self._store.get_async(path)).bytes_async())

        try:
            return await self._call_store("read", get_bytes)
        except FileNotFoundError as exc:
            if "NoSuchBucket" in str(exc):
                raise self._unavailable_error("read", exc) from exc
            return None

    async def _list_pages(self, prefix: str, after: str = "") -> AsyncIterator[list[ChunkFile]]:
        stream = self._store.list(prefix or None, offset=after or None, chunk_size=PAGE)

        async def read_page() -> list[ChunkFile] | None:
            objects = await anext(stream, None)
            return None if objects is None else [ChunkFile(meta["path"], meta["size"]) for meta in objects]

        while (files := await self._call_store("look at", read_page)) is not None:
            yield files

    async def _drop_folders(self, folders: Sequence[str]) -> None:
        left = iter(folders)

        async def drop_next_folders() -> None:
            for folder in left:
                async for files in self._list_pages(folder):
                    names = [file.name for file in files]
                    await self._call_store("drop", lambda names=names: self._store.delete_async(names))  # type: ignore[misc]

        done = await asyncio.gather(*(drop_next_folders() for _ in range(DROPS_AT_ONCE)), return_exceptions=True)
        for error in done:
            if isinstance(error, BaseException):
                raise error

    async def _call_store(self, verb: str, request: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """Make a call in its turn, with a timeout. Raises FileNotFoundError and AlreadyExistsError, which are answers;
        every other error is raised as Unavailable."""
        try:
            async with asyncio.timeout(CALL_S), self._turn:
                answer = await request()
        except (FileNotFoundError, AlreadyExistsError):
            raise
        except (BaseError, OSError, TimeoutError, ValueError) as exc:
            raise self._unavailable_error(verb, exc) from exc
        self._failure.clear()
        return answer

    def _unavailable_error(self, verb: str, why: object) -> Unavailable:
        message = f"cannot {verb} a chunk of results"
        self._failure.note_failure(message)
        return Unavailable(f"{message}: {_first_line(why)}", told=message)

    async def _call_at_start(self, request: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """Make a call at the start. A refusal is a wrong setting, and raises ConfigError; an unavailable service may
        recover."""
        try:
            return await request()
        except FileNotFoundError as exc:
            raise ConfigError(f"results: {self.address}: there is no such bucket") from exc
        except Unavailable as exc:
            if (complaint := _settings_complaint(exc.__cause__)) is not None:
                raise ConfigError(f"results: {self.address}: {complaint}") from exc
            raise


def _open_store(address: str, environment: Mapping[str, str]) -> S3Store:
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    endpoint = endpoint or environment.get("AWS_ENDPOINT") or ""
    if endpoint and not _is_http(endpoint):
        raise ConfigError(f"results: AWS_ENDPOINT_URL: {endpoint!r} is not an address such as https://s3.example.com")
    # Without credentials the library would request some from the network of the machine (instance metadata).
    has_keys = all(environment.get(name) for name in _KEYS)
    if not has_keys and not any(environment.get(name) for name in _ROLES):
        raise ConfigError(f"results: {address} needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment")
    bucket, _, prefix = address.removeprefix(SCHEME).partition("/")
    try:
        return S3Store(
            bucket,
            prefix=prefix or None,
            client_options={
                "allow_http": endpoint.startswith("http://"),
                "connect_timeout": timedelta(seconds=CONNECT_S),
                "timeout": timedelta(seconds=REQUEST_S),
            },
            retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=REQUEST_S)},
        )
    except (BaseError, ValueError) as exc:
        raise ConfigError(f"results: {address}: {_first_line(exc)}") from exc


def _is_http(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _settings_complaint(cause: BaseException | None) -> str | None:
    text = str(cause)
    if "NoSuchBucket" in text:
        return "there is no such bucket"
    if isinstance(cause, PermissionDeniedError | UnauthenticatedError):
        return "the credentials of the AWS_ variables may not read or write there"
    return _first_line(cause) if _REFUSED.search(text) else None


def _first_line(why: object) -> str:
    """Return the first line of an error message: the second line of the library's messages is its own state."""
    return str(why).partition("\n")[0][:_LINE_CHARS] or type(why).__name__


def _chunk_path(task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int) -> str:
    return f"{execution_name(task, execution)}/{chunk_name(kind, number)}"
