"""The search of tasks without an index: a bounded number of rows per page, newest first; the page reports where it
stopped.

The database searches the text of the parameters for a host, and its matches are checked here: only the host of a URL
counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

import msgspec
from sqlalchemy import Boolean, ColumnElement, Select, Text, func, literal, or_, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from crawlfleet.model.ids import TaskId
from crawlfleet.model.status import FINAL_STATUSES, TaskStatus
from crawlfleet.model.task import TaskRecord
from crawlfleet.ports.task_store import TaskFilter
from crawlfleet.store.engine.sqlalchemy_query import Sift
from crawlfleet.store.engine.transaction import Row
from crawlfleet.store.schema import done, live, task

ROWS = 20_000
"""Number of rows read for one page of a search."""
BYTES = 64 << 20
"""Number of bytes of parameters in which text is searched, for one page."""
_ID = re.compile(r"task-([0-9a-f]{1,16})")
_ID_DIGITS = 16
_FINAL = frozenset(FINAL_STATUSES)


class _Says(FunctionElement[bool]):
    """SQL function: whether bytes, read as text, contain another text, regardless of case."""

    type = Boolean()
    inherit_cache = True


@compiles(_Says, "sqlite")
def _says_sqlite(element: _Says, compiler: SQLCompiler, **options: Any) -> str:
    content, part = (compiler.process(clause, **options) for clause in element.clauses)
    return f"instr(lower(CAST({content} AS TEXT)), {part}) > 0"


@compiles(_Says, "postgresql")
def _says_postgres(element: _Says, compiler: SQLCompiler, **options: Any) -> str:
    content, part = (compiler.process(clause, **options) for clause in element.clauses)
    return f"position({part} in lower(convert_from({content}, 'UTF8'))) > 0"


def id_range(text: str | None) -> tuple[TaskId, TaskId] | None:
    """Return the range of ids that begin with the text; None for text that is no beginning of an id."""
    if text is None or (match := _ID.fullmatch(text)) is None:
        return None
    digits = match.group(1)
    largest = (1 << 63) - 1
    return int(digits.ljust(_ID_DIGITS, "0"), 16) & largest, min(int(digits.ljust(_ID_DIGITS, "f"), 16), largest)


def is_search(where: TaskFilter, text: str | None) -> bool:
    """Return whether a page of this query may have to look at many tasks to find a few."""
    is_sifted = where.group is not None and bool(where.statuses)
    return (
        text is not None
        or is_sifted
        or any(condition is not None for condition in (where.task_type, where.queue, where.node, where.name_prefix))
    )


def select_walked_ids(where: TaskFilter) -> Select[Any]:
    """Return the query of the ids that such a search walks over: of the table, and the group, project or workflow,
    that make it small."""
    if where.group is not None:
        return select(task.c.id).where(task.c.group_id == where.group)
    if where.statuses and not _FINAL.intersection(where.statuses):
        return select(live.c.id)
    if where.statuses and _FINAL.issuperset(where.statuses):
        # Only a single status other than completed has an index with its ids in order.
        is_indexed = len(where.statuses) == 1 and where.statuses[0] is not TaskStatus.COMPLETED
        query = select(done.c.id)
        return query.where(done.c.status == int(where.statuses[0])) if is_indexed else query
    query = select(task.c.id)
    if where.project is not None:
        query = query.where(task.c.project == where.project)
    if where.workflow is not None:
        query = query.where(task.c.workflow == where.workflow)
    return query


def search_end(sizes: Iterable[Row]) -> TaskId | None:
    """Return the first id that a search leaves to the next page, given ids in its order with the bytes to be read of
    each."""
    rows = size = 0
    for task_id, bytes_ in sizes:
        rows, size = rows + 1, size + bytes_
        if rows > ROWS or (size > BYTES and rows > 1):
            return int(task_id)
    return None


def make_sift(text: str, read_record: Callable[[Row], TaskRecord], reduce_row: Callable[[Row], Row]) -> Sift:
    """Make the sift that passes only tasks that are about the text, reduced to what is kept of their rows."""

    def match_row(row: Row) -> Row | None:
        return reduce_row(row) if is_about(read_record(row), text) else None

    return match_row


def mentions_text(text: str) -> ColumnElement[bool]:
    begins = func.substr(task.c.name, 1, len(text)) == text
    return or_(begins, _Says(task.c.parameters, literal(text.lower(), Text)))


def is_about(record: TaskRecord, text: str) -> bool:
    """Return whether its name begins with the text, or the host of one of its URLs contains it."""
    if record.name is not None and record.name.startswith(text):
        return True
    wanted = text.lower()
    return any(wanted in host for host in parameter_hosts(record.parameters))


def parameter_hosts(parameters: bytes) -> set[str]:
    """Return the hosts of the URLs in the parameters."""
    try:
        decoded = _urls(parameters)
    except msgspec.MsgspecError:
        return set()
    many = [url for listed in (decoded.urls, decoded.start_urls) if isinstance(listed, list) for url in listed]
    return {host for url in (decoded.url, *many) if isinstance(url, str) and (host := _url_host(url))}


def _url_host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


class _Urls(msgspec.Struct):
    url: Any = None
    urls: Any = None
    start_urls: Any = None


_urls = msgspec.json.Decoder(_Urls).decode
