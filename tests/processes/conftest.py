"""A cluster of real processes, and a site that writes down what it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.processes.fleet import Fleet, fleet
from tests.processes.logging_site import LoggingSite, logging_site


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet(tmp_path) as running:
        yield running


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[LoggingSite]:
    async with logging_site(tmp_path) as site:
        yield site
