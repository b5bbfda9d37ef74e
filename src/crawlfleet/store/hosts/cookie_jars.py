"""Cookie jars: one row each, changed only by a live execution of a task of the same project."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec
from sqlalchemy import select

from crawlfleet.model.cookie import OWN_JAR_MARK, CookieJarSummary, CookieRecord, merge_cookies
from crawlfleet.model.ids import GroupId, TaskId, group_text, task_text
from crawlfleet.model.instants import Instant
from crawlfleet.ports.composite_store import CookieChanges
from crawlfleet.store import schema
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Tx

SUMMARY_HOSTS = 20
_HOLD_EXECUTION = (
    "SELECT t.project, t.group_id FROM live l JOIN task t ON t.id = l.id "
    "WHERE l.id = $1 AND l.execution = $2 AND l.node = $3 SHARE_ROWS(l)"
)
_IS_CRAWL = "SELECT 1 FROM crawl WHERE id = $1"
_READ_JAR = "SELECT body FROM cookie_jar WHERE project = $1 AND name = $2"
_LOCK_JAR = f"{_READ_JAR} LOCK_ROWS(cookie_jar)"
_WRITE_JAR = "UPDATE cookie_jar SET body = $3, changed_at = $4 WHERE project = $1 AND name = $2"
_REMOVE_JAR = "DELETE FROM cookie_jar WHERE project = $1 AND name = $2"
OLD_JARS = (
    "DELETE FROM cookie_jar WHERE (project, name) IN "
    "(SELECT project, name FROM cookie_jar WHERE changed_at < $1 ORDER BY changed_at LIMIT $2)"
)
_COLUMNS = ("project", "name", "body", "changed_at")
_EMPTY = b"[]"
_records = msgspec.json.Decoder(list[CookieRecord])


class CookieTables:
    _engine: QueryEngine

    async def merge_cookie_jar(self, wanted: CookieChanges, now: Instant) -> list[CookieRecord] | None:
        async def merge_changes(tx: Tx) -> list[CookieRecord] | None:
            held = await tx.fetch(_HOLD_EXECUTION, wanted.task, wanted.execution, wanted.node)
            if not held:
                return None
            ((project, group),) = held
            name = wanted.jar or await _find_own_jar(tx, wanted.task, group)
            if not wanted.changes:
                rows = await tx.fetch(_READ_JAR, project, name)
                return list(merge_cookies(_records.decode(rows[0][0]) if rows else (), (), now).values())
            await tx.insert_new(schema.cookie_jar, _COLUMNS, [(project, name, _EMPTY, now)])
            ((body,),) = await tx.fetch(_LOCK_JAR, project, name)
            merged = list(merge_cookies(_records.decode(body), wanted.changes, now).values())
            await tx.execute(_WRITE_JAR, project, name, msgspec.json.encode(merged), now)
            return merged

        return await self._engine.write(merge_changes)

    async def cookie_jars(self, project: str | None, limit: int) -> list[CookieJarSummary]:
        jar = schema.cookie_jar
        query = select(jar.c.project, jar.c.name, jar.c.body, jar.c.changed_at).order_by(jar.c.project, jar.c.name)
        if project is not None:
            query = query.where(jar.c.project == project)
        return [
            _summarize_jar(project_name, name, _records.decode(body), changed_at)
            for project_name, name, body, changed_at in await self._engine.run_query(query.limit(limit))
        ]

    async def remove_cookie_jar(self, project: str, name: str) -> bool:
        return await self._engine.write(lambda tx: tx.execute(_REMOVE_JAR, project, name)) > 0


async def _find_own_jar(tx: Tx, task: TaskId, group: GroupId | None) -> str:
    """Return the name of a task's own jar. Members of one crawl share a jar; tasks of another kind of group do not."""
    if group is not None and await tx.fetch(_IS_CRAWL, group):
        return f"{OWN_JAR_MARK}{group_text(group)}"
    return f"{OWN_JAR_MARK}{task_text(task)}"


def _summarize_jar(project: str, name: str, records: list[CookieRecord], changed_at: Instant) -> CookieJarSummary:
    hosts = sorted({urlsplit(record.url).hostname or "" for record in records})
    return CookieJarSummary(project, name, len(records), tuple(hosts[:SUMMARY_HOSTS]), changed_at)
