"""The API over a real SQLite store, with the loops of its master running, behind a real server."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog

from tests.api.kit import Site, Worker, open_site, working
from tests.api.socket_kit import SocketSite, serving_sockets


@pytest.fixture(scope="session", autouse=True)
def _plain_tracebacks() -> Iterator[None]:
    """The usual ones show every local variable, which takes seconds when one of them is a document."""
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])
    yield
    structlog.reset_defaults()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as one:
        yield one


@pytest.fixture
async def worker(site: Site) -> AsyncIterator[Worker]:
    async with working(site) as one:
        yield one


@pytest.fixture
async def sockets(site: Site) -> AsyncIterator[SocketSite]:
    async with serving_sockets(site) as opened:
        yield opened
