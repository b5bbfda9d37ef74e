"""The async client: one file of calls per noun, one connection pool."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from crawlfleet.client.clusters import ClusterCalls
from crawlfleet.client.cookie_jars import CookieJarCalls
from crawlfleet.client.dead_letters import DeadLetterCalls
from crawlfleet.client.endpoint import endpoint_from, find_endpoint
from crawlfleet.client.events import EventCalls
from crawlfleet.client.exports import ExportCalls
from crawlfleet.client.flows import FlowCalls
from crawlfleet.client.groups import GroupCalls
from crawlfleet.client.hosts import HostCalls
from crawlfleet.client.nodes import NodeCalls
from crawlfleet.client.products import ProductCalls
from crawlfleet.client.projects import ProjectCalls
from crawlfleet.client.proxies import ProxyCalls
from crawlfleet.client.queues import QueueCalls
from crawlfleet.client.results import ResultCalls
from crawlfleet.client.retrying import RetryPolicy
from crawlfleet.client.schedules import ScheduleCalls
from crawlfleet.client.tasks import TaskCalls
from crawlfleet.client.tokens import TokenCalls
from crawlfleet.client.transport import Transport


class AsyncClient(
    TaskCalls, ResultCalls, ExportCalls, GroupCalls, FlowCalls, NodeCalls, ClusterCalls, DeadLetterCalls, QueueCalls,
    ProjectCalls, HostCalls, TokenCalls, EventCalls, ScheduleCalls, ProductCalls, CookieJarCalls, ProxyCalls,
):  # fmt: skip
    """Call an installation:

    async with AsyncClient("http://127.0.0.1:8000", token) as client:
        task = await client.submit("echo", {"hello": "world"})
        (task,) = await client.wait([task.id])

    Without arguments it looks at CRAWLFLEET_URL and CRAWLFLEET_TOKEN, then into the data dir on this machine.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, data_dir: Path | None = None,
        ca_file: Path | None = None, retry: RetryPolicy | None = None,
    ) -> None:  # fmt: skip
        if url or token or data_dir:
            found = find_endpoint(url, token, data_dir)
        else:
            found = endpoint_from()
        super().__init__(Transport(found.url, found.token, ca_file=ca_file, policy=retry))
        self.url = found.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()
