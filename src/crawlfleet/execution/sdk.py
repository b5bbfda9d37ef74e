"""The SDK for executors: the same few names for user executors and for the built-in ones.

    @executor("greet", schema={"type": "object", "properties": {"name": {"type": "string"}}})
    async def greet(context: TaskContext) -> dict[str, str]:
        await context.item({"seen": context.parameters["name"]})
        return {"hello": context.parameters["name"]}

A class does as well (`class Greet(Executor): task_type = ...`). This module imports next to nothing: it is the first
thing every process of a user's execution loads.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from crawlfleet.execution.task_errors import ERRORS, TaskError, TryLater

if TYPE_CHECKING:
    from crawlfleet.execution.budget.host_gate import HostGate
    from crawlfleet.execution.budget.quota_meter import QuotaMeter
    from crawlfleet.execution.process_state.proxy_pool import ProxyPool
    from crawlfleet.execution.process_state.robots_cache import RobotsCache
    from crawlfleet.model.product import Product

__all__ = [
    "ANYTHING",
    "ERRORS",
    "LEVELS",
    "TASK_TYPE",
    "Executor",
    "MasterLink",
    "Run",
    "TaskContext",
    "TaskError",
    "TaskStream",
    "TryLater",
    "executor",
    "get_declaration",
    "run_executor",
]

LEVELS = ("debug", "info", "warning", "error")
TASK_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
ANYTHING: Mapping[str, Any] = {"type": "object"}
"""The schema of a type that takes any parameters."""


class TaskStream(Protocol):
    """The output of a context: items, records, products, log lines and progress figures.

    Its names are part of the documented SDK: users write a stream of their own to test executors.
    """

    async def item(self, item: Mapping[str, Any]) -> None:
        """Send an item, when there is room in the window. Raises TaskError for one that is not JSON or too large."""
        ...

    async def record(self, record: bytes) -> None:
        """Send a WARC record of the archive, compressed by itself, when there is room in the window."""
        ...

    async def product(self, product: Product) -> None:
        """Add a product, as it was seen."""
        ...

    async def send_products(self) -> None: ...

    def log(self, message: str, level: str) -> None: ...

    def progress(self, figures: Mapping[str, Any]) -> None: ...


class MasterLink(Protocol):
    """The link of an execution to a master."""

    async def report_crawl(self, body: bytes) -> bytes:
        """Send the report of a member of a crawl over many nodes (`wire.crawl`); returns the next batch of URLs."""
        ...

    async def send_request(self, endpoint: str, body: bytes) -> bytes:
        """Call an endpoint of the master: `products:unseen` and `products:report` (`wire.products`) for known products,
        `cookies` (`wire.cookies`) for a cookie jar that outlives executions."""
        ...


class TaskContext:
    """One execution, as the code that runs it sees it."""

    def __init__(
        self,
        stream: TaskStream,
        *,
        task_id: str,
        execution_id: str,
        task_type: str,
        parameters: dict[str, Any],
        attempt: int = 0,
        timeout_s: int = 3_600,
        allow_hosts: frozenset[str] = frozenset(),
        gate: HostGate | None = None,
        meter: QuotaMeter | None = None,
        master: MasterLink | None = None,
        proxy_pools: Mapping[str, ProxyPool] | None = None,
    ) -> None:
        self._stream = stream
        self._loop: asyncio.AbstractEventLoop | None = None
        self.task_id = task_id
        self.execution_id = execution_id
        self.task_type = task_type
        self.parameters = parameters
        self.attempt = attempt
        """How many retries came before: 0 the first time."""
        self.timeout_s = timeout_s
        self.allow_hosts = allow_hosts
        """Private hosts that may be crawled although their addresses are refused by default."""
        self.gate = gate
        """The gate for requests to target hosts; None where hosts have no budgets."""
        self.meter = meter
        """The meter of pages and bytes; None for a project without daily quotas."""
        self.master = master
        """The link to a master; None where there is none."""
        self.robots: RobotsCache | None = None
        """The robots.txt cache of the process; None: the execution reads robots.txt for itself."""
        self.proxy_pools = proxy_pools or {}
        """The proxy pools of the node, by name."""
        self.earlier: Callable[[str], AsyncIterator[bytes]] | None = None
        """Reads the page notes of an earlier task; None where there is no master to ask."""

    async def item(self, item: Mapping[str, Any]) -> None:
        """Adds an item to the task's results; waits while they cannot be taken away fast enough."""
        await self._stream.item(item)

    async def record(self, record: bytes) -> None:
        """Adds a record of WARC, compressed by itself, to the task's archive; waits as `item` does."""
        await self._stream.record(record)

    async def product(self, product: Product) -> None:
        """Adds a product to those of its project, or says what it looks like now. Written with the outcome; of many,
        all but the last are written while the execution runs."""
        await self._stream.product(product)

    async def send_products(self) -> None:
        """Returns when those that were added so far are written."""
        await self._stream.send_products()

    def emit(self, item: Mapping[str, Any]) -> None:
        """`item` for executors that are plain functions and run in a thread: it blocks."""
        if self._loop is None:
            raise RuntimeError("emit() is for plain functions; await item() in an async one")
        asyncio.run_coroutine_threadsafe(self._stream.item(item), self._loop).result()

    def log(self, message: str, level: str = "info") -> None:
        """Adds a line to the execution's log; may be called from any thread."""
        self._stream.log(message, level if level in LEVELS else "info")

    def progress(self, **figures: float | int | str) -> None:
        """Figures of how far the work is (pages=12, queued=30); the last ones become part of its metrics."""
        self._stream.progress(figures)


class Executor:
    """Base of executors written as a class; one object serves one execution."""

    task_type: ClassVar[str] = ""
    schema: ClassVar[Mapping[str, Any]] = ANYTHING
    """JSON schema of the parameters; submits are checked against it."""

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Problems of parameters that fit the schema, as (path, detail): selectors that do not parse."""
        return []

    async def run(self, context: TaskContext) -> Any:
        """The task's result: anything that is JSON."""
        raise NotImplementedError


Run = Callable[[TaskContext], Any]
Function = TypeVar("Function", bound=Callable[..., Any])
_MARK = "__crawlfleet_executor__"


def executor(task_type: str, *, schema: Mapping[str, Any] | None = None) -> Callable[[Function], Function]:
    """Makes a function the executor of a task type. A plain function runs in a thread, an async one in the loop."""

    def mark_executor(function: Function) -> Function:
        setattr(function, _MARK, (task_type, dict(schema or ANYTHING)))
        return function

    return mark_executor


def get_declaration(executor: object) -> tuple[str, Mapping[str, Any]] | None:
    """Task type and schema of a decorated function or an executor class; None for any other object."""
    if isinstance(executor, type):
        if issubclass(executor, Executor) and executor is not Executor and executor.task_type:
            return executor.task_type, executor.schema
        return None
    mark = getattr(executor, _MARK, None) if callable(executor) else None
    return mark if isinstance(mark, tuple) else None


async def run_executor(executor: object, context: TaskContext) -> Any:
    """Run a declared executor once and return its result."""
    function: Callable[[TaskContext], Awaitable[Any] | Any]
    if isinstance(executor, type) and issubclass(executor, Executor):
        function = executor().run
    elif callable(executor):
        function = executor
    else:
        raise TypeError(f"{executor!r} is no executor")
    if inspect.iscoroutinefunction(function):
        return await function(context)
    context._loop = asyncio.get_running_loop()
    result = await asyncio.to_thread(function, context)
    return await result if inspect.isawaitable(result) else result
