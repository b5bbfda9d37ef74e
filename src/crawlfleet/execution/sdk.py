"""What an executor is made of: the same few names for users' executors and for the built-in ones.

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

from crawlfleet.model.status import ErrorClass

if TYPE_CHECKING:
    from crawlfleet.execution.budget.host_gate import Gate
    from crawlfleet.execution.budget.quota_meter import Meter
    from crawlfleet.execution.crawl.fetch.proxy_pool import ProxyPool
    from crawlfleet.execution.crawl.fetch.robots_cache import RobotsCache
    from crawlfleet.model.product import Product

ERRORS = tuple(error.word for error in ErrorClass)
LEVELS = ("debug", "info", "warning", "error")
TASK_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
ANYTHING: Mapping[str, Any] = {"type": "object"}
"""The schema of a type that takes any parameters."""


class TaskError(Exception):
    """A failure an executor tells in its own words; `permanent` says that a retry cannot help."""

    def __init__(self, message: str, error: str = "internal", permanent: bool = False) -> None:
        if error not in ERRORS:
            raise ValueError(f"error: {error!r} is none of {', '.join(ERRORS)}")
        super().__init__(message)
        self.error = error
        self.permanent = permanent


class TryLater(Exception):
    """Nothing can be done now, through no fault of the task's: it is parked until then, at no cost of a retry."""

    def __init__(self, message: str, after_s: float) -> None:
        if not 0 <= after_s < float("inf"):
            raise ValueError(f"after_s: {after_s!r} is no span of time")
        super().__init__(message)
        self.after_s = after_s


class TaskStream(Protocol):
    """Where a context's items, log lines and figures go."""

    async def item(self, item: Mapping[str, Any]) -> None:
        """Returns when there is room for the next one. Raises TaskError for what is not JSON or too large."""
        ...

    async def record(self, record: bytes) -> None:
        """The same for a record of the archive: one of WARC, compressed by itself."""
        ...

    async def product(self, product: Product) -> None:
        """The same for what was seen of a product."""
        ...

    async def send_products(self) -> None: ...

    def log(self, message: str, level: str) -> None: ...

    def progress(self, figures: Mapping[str, Any]) -> None: ...


class MasterLink(Protocol):
    async def exchange(self, body: bytes) -> bytes:
        """For members of a crawl over many nodes (`wire.crawl`): a report up, the next chunk of URLs down."""
        ...

    async def ask(self, about: str, body: bytes) -> bytes:
        """`products:unseen` and `products:report` (`wire.products`): what a master knows of products. `cookies`
        (`wire.cookies`): a cookie jar that outlives executions."""
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
        gate: Gate | None = None,
        meter: Meter | None = None,
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
        """Where requests to target hosts pass; None where nobody keeps their budgets."""
        self.meter = meter
        """Where pages and bytes are counted; None for a project without daily quotas."""
        self.master = master
        """The way to a master; None where there is none."""
        self.robots: RobotsCache | None = None
        """What its process knows of sites' robots.txt; None: it reads them for itself."""
        self.proxy_pools = proxy_pools or {}
        """Those that the node was given, by name."""
        self.earlier: Callable[[str], AsyncIterator[bytes]] | None = None
        """Reads what an earlier task noted of its pages; None where there is no master to ask."""

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
        """What is wrong with parameters that fit the schema, as (path, detail): selectors that do not parse."""
        return []

    async def run(self, context: TaskContext) -> Any:
        """The task's result: anything that is JSON."""
        raise NotImplementedError


Run = Callable[[TaskContext], Any]
Function = TypeVar("Function", bound=Callable[..., Any])
_MARK = "__crawlfleet_executor__"


def executor(task_type: str, *, schema: Mapping[str, Any] | None = None) -> Callable[[Function], Function]:
    """Makes a function the executor of a task type. A plain function runs in a thread, an async one in the loop."""

    def mark(function: Function) -> Function:
        setattr(function, _MARK, (task_type, dict(schema or ANYTHING)))
        return function

    return mark


def declared(thing: object) -> tuple[str, Mapping[str, Any]] | None:
    """Task type and schema of a decorated function or an executor class; None for anything else."""
    if isinstance(thing, type):
        if issubclass(thing, Executor) and thing is not Executor and thing.task_type:
            return thing.task_type, thing.schema
        return None
    mark = getattr(thing, _MARK, None) if callable(thing) else None
    return mark if isinstance(mark, tuple) else None


async def call(thing: object, context: TaskContext) -> Any:
    """Runs a declared executor once and gives back its result."""
    function: Callable[[TaskContext], Awaitable[Any] | Any]
    if isinstance(thing, type) and issubclass(thing, Executor):
        function = thing().run
    elif callable(thing):
        function = thing
    else:
        raise TypeError(f"{thing!r} is no executor")
    if inspect.iscoroutinefunction(function):
        return await function(context)
    context._loop = asyncio.get_running_loop()
    result = await asyncio.to_thread(function, context)
    return await result if inspect.isawaitable(result) else result
