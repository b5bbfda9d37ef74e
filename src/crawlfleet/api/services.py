"""What the routes stand on: the services of a master, by the names they have there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from crawlfleet.control.assign import AssignByHand
from crawlfleet.control.audit import Audit
from crawlfleet.control.cancel import Cancel
from crawlfleet.control.configure import Configure
from crawlfleet.control.dead_letters import DeadLetters
from crawlfleet.control.drain import Drain
from crawlfleet.control.finish import Finish
from crawlfleet.control.flows import Flows
from crawlfleet.control.groups import Groups
from crawlfleet.control.heartbeat import Heartbeat
from crawlfleet.control.hosts import Hosts
from crawlfleet.control.loops.loop import Loop
from crawlfleet.control.open_session import OpenSession
from crawlfleet.control.pause import Pause
from crawlfleet.control.projects import Projects
from crawlfleet.control.register import Register
from crawlfleet.control.reprioritize import Reprioritize
from crawlfleet.control.retry import Retry
from crawlfleet.control.schedules import Schedules
from crawlfleet.control.submit import Submit
from crawlfleet.control.sync import Sync
from crawlfleet.control.task_types import TaskTypes
from crawlfleet.control.tokens import Tokens
from crawlfleet.control.unregister import Unregister
from crawlfleet.control.why import Why
from crawlfleet.ports.artifacts import ChunkStore
from crawlfleet.ports.broker import Broker
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
