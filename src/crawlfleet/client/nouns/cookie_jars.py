"""Calls for cookie jars, which crawls keep over executions."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.client._generated.models import CookieJarsView, CookieJarView
from crawlfleet.client.nouns.base import Calls, quote_segment


class CookieJarCalls(Calls):
    async def cookie_jars(self, project_id: str | None = None) -> Sequence[CookieJarView]:
        """By project and name; what is in them is not shown."""
        answer = await self._transport.get(CookieJarsView, "/cookie-jars", {"project_id": project_id})
        return answer.cookie_jars

    async def remove_cookie_jar(self, name: str, project_id: str | None = None) -> None:
        """Forget the cookies in it: the next crawl that names it begins without any."""
        params = {"project_id": project_id}
        return await self._transport.change(type(None), "DELETE", f"/cookie-jars/{quote_segment(name)}", params=params)
