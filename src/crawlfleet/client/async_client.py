"""The async client: one module of calls per noun, and one connection pool."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from crawlfleet.client.nouns.alerts import AlertCalls
from crawlfleet.client.nouns.clusters import ClusterCalls
from crawlfleet.client.nouns.cookie_jars import CookieJarCalls
from crawlfleet.client.nouns.dead_letters import DeadLetterCalls
from crawlfleet.client.nouns.events import EventCalls
from crawlfleet.client.nouns.exports import ExportCalls
from crawlfleet.client.nouns.flows import FlowCalls
from crawlfleet.client.nouns.groups import GroupCalls
from crawlfleet.client.nouns.hosts import HostCalls
from crawlfleet.client.nouns.log_level import LogLevelCalls
from crawlfleet.client.nouns.maintenance import MaintenanceCalls
from crawlfleet.client.nouns.masters import MasterListCalls
from crawlfleet.client.nouns.nodes import NodeCalls
from crawlfleet.client.nouns.products import ProductCalls
from crawlfleet.client.nouns.projects import ProjectCalls
from crawlfleet.client.nouns.proxies import ProxyCalls
from crawlfleet.client.nouns.queues import QueueCalls
from crawlfleet.client.nouns.results import ResultCalls
from crawlfleet.client.nouns.schedules import ScheduleCalls
from crawlfleet.client.nouns.tasks import TaskCalls
from crawlfleet.client.nouns.tokens import TokenCalls
from crawlfleet.client.transport.endpoint import endpoint_from_environment, find_endpoint
from crawlfleet.client.transport.http import Transport
from crawlfleet.client.transport.retry import RetryPolicy


class AsyncClient(
    TaskCalls,
    ResultCalls,
    ExportCalls,
    GroupCalls,
    FlowCalls,
    NodeCalls,
    ClusterCalls,
    DeadLetterCalls,
    QueueCalls,
    MasterListCalls,
    ProjectCalls,
    HostCalls,
    TokenCalls,
    EventCalls,
    ScheduleCalls,
    ProductCalls,
    CookieJarCalls,
    ProxyCalls,
    AlertCalls,
    MaintenanceCalls,
    LogLevelCalls,
):
    """Call an installation:

    async with AsyncClient("http://127.0.0.1:8000", token) as client:
        task = await client.submit("echo", {"hello": "world"})
        (task,) = await client.wait([task.id])

    Without arguments it looks at CRAWLFLEET_URL and CRAWLFLEET_TOKEN, then into the data dir on this machine.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        data_dir: Path | None = None,
        ca_file: Path | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        if url or token or data_dir:
            endpoint = find_endpoint(url, token, data_dir)
        else:
            endpoint = endpoint_from_environment()
        super().__init__(Transport(endpoint.url, endpoint.token, ca_file=ca_file, policy=retry))
        self.url = endpoint.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()
