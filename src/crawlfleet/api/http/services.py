"""What the routes stand on: the services of a master, by the names they have there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from crawlfleet.control.admin.audit import Audit
from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.hosts import Hosts
from crawlfleet.control.admin.projects import Projects
from crawlfleet.control.admin.queues import Pause
from crawlfleet.control.admin.tokens import Tokens
from crawlfleet.control.composites.flows import Flows
from crawlfleet.control.composites.groups import Groups
from crawlfleet.control.composites.schedules import Schedules
from crawlfleet.control.explain.task import Why
from crawlfleet.control.loops.base import Loop
from crawlfleet.control.nodes.drain import Drain
from crawlfleet.control.nodes.heartbeat import Heartbeat
from crawlfleet.control.nodes.open_session import OpenSession
from crawlfleet.control.nodes.register import Register
from crawlfleet.control.nodes.sync import Sync
from crawlfleet.control.nodes.unregister import Unregister
from crawlfleet.control.tasks.changes import Cancel, Reprioritize, Retry
from crawlfleet.control.tasks.dead_letters import DeadLetters
from crawlfleet.control.tasks.finish import Finish
from crawlfleet.control.tasks.manual_assignment import AssignByHand
from crawlfleet.control.tasks.submit import Submit
from crawlfleet.control.tasks.task_types import TaskTypes
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.chunk_store import ChunkStore
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import Store


class Services(Protocol):
    """Read-only attributes, so that a master is one without saying so."""

    @property
    def name(self) -> str: ...
    @property
    def store(self) -> Store: ...
    @property
    def broker(self) -> Broker: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def loops(self) -> Sequence[Loop]: ...
    @property
    def submit(self) -> Submit: ...
    @property
    def schedules(self) -> Schedules: ...
    @property
    def cancel(self) -> Cancel: ...
    @property
    def retry(self) -> Retry: ...
    @property
    def groups(self) -> Groups: ...
    @property
    def reprioritize(self) -> Reprioritize: ...
    @property
    def assign(self) -> AssignByHand: ...
    @property
    def pause(self) -> Pause: ...
    @property
    def dead_letters(self) -> DeadLetters: ...
    @property
    def flows(self) -> Flows: ...
    @property
    def why(self) -> Why: ...
    @property
    def finish(self) -> Finish: ...
    @property
    def sync(self) -> Sync: ...
    @property
    def open_session(self) -> OpenSession: ...
    @property
    def register(self) -> Register: ...
    @property
    def heartbeat(self) -> Heartbeat: ...
    @property
    def hosts(self) -> Hosts: ...
    @property
    def drain(self) -> Drain: ...
    @property
    def unregister(self) -> Unregister: ...
    @property
    def task_types(self) -> TaskTypes: ...
    @property
    def tokens(self) -> Tokens: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def configure(self) -> Configure: ...
    @property
    def projects(self) -> Projects: ...
    @property
    def chunks(self) -> ChunkStore: ...


def services_of(connection: HTTPConnection) -> Services:
    return cast("Services", connection.app.state.services)


async def _depend_on_services(connection: HTTPConnection) -> Services:
    # FastAPI runs a plain function in a thread; this one only reads an attribute.
    return services_of(connection)


TheServices = Annotated[Services, Depends(_depend_on_services)]
"""For routes of FastAPI: `async def show(services: TheServices) -> Response`."""
