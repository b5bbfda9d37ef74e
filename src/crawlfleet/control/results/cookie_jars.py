"""Cookie jars that outlive executions: exchanged with live executions, listed and removed by people."""

from __future__ import annotations

from crawlfleet.control.results.result_collection import Speaker, StaleExecution
from crawlfleet.control.tasks.finish import is_storable
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.cookie import CookieJarSummary, CookieRecord
from crawlfleet.model.ids import execution_text, task_text
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.composite_store import CookieChanges, CrawlStore
from crawlfleet.wire.cookies import AGE_MS_MAX, CookieBody, CookiesDown, CookiesUp
from crawlfleet.wire.tasks import storage_problem

JARS_MAX = 1_000


class CookieJars:
    def __init__(self, *, store: CrawlStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def exchange_cookies(self, speaker: Speaker, up: CookiesUp) -> CookiesDown:
        """Merge an execution's cookies into the jar, and return the jar. Raises StaleExecution, and InvalidInput that
        names the cookie that cannot be stored: then none is."""
        now = self._clock.now()
        for index, cookie in enumerate(up.changes):
            if storage_problem(cookie.url) or storage_problem(cookie.header):
                raise InvalidInput("has characters that cannot be stored", field=f"changes[{index}]")
        changes = [CookieRecord(cookie.url, cookie.header, now - cookie.age_ms) for cookie in up.changes]
        wanted = CookieChanges(*speaker, up.jar, changes)
        merged = None
        if is_storable(speaker.task, speaker.execution):
            merged = await self._store.merge_cookie_jar(wanted, now)
        if merged is None:
            what = f"{execution_text(speaker.execution)} of {task_text(speaker.task)}"
            raise StaleExecution(f"{what} is not a live execution of this node")
        return CookiesDown(
            [CookieBody(record.url, record.header, min(max(0, now - record.set_at), AGE_MS_MAX)) for record in merged]
        )

    async def list_jars(self, project: str | None) -> list[CookieJarSummary]:
        return await self._store.cookie_jars(project, JARS_MAX)

    async def remove_jar(self, project: str, name: str) -> None:
        """Remove the jar. Raises NotFound. Running executions keep the cookies they have, and may bring them back."""
        if not await self._store.remove_cookie_jar(project, name):
            raise NotFound(f"project {project} has no cookie jar {name}")
