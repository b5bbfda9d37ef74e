"""The store's contract, over every backend: each function of the `suite_store_*` modules is one behaviour."""

import importlib
import inspect
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from crawlfleet.ports.store import Store
from crawlfleet.store.store import SqlStore
from testkit.factories import Kit
from tests.contract.conftest import Engines
from tests.paths import module_name

pytestmark = pytest.mark.contract

Behaviour = Callable[[Store, Kit], Awaitable[None]]

BACKENDS = ["sqlite", "sqlite-inline", pytest.param("postgres", marks=pytest.mark.postgres)]


def behaviours() -> Iterator[tuple[str, Behaviour]]:
    for path in sorted(Path(__file__).parent.rglob("suite_store_*.py")):
        module = importlib.import_module(module_name(path))
        for name, function in inspect.getmembers(module, inspect.iscoroutinefunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                yield name, function


ALL = list(behaviours())


@pytest.mark.parametrize("behaviour", [function for _, function in ALL], ids=[name for name, _ in ALL])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.asyncio(loop_scope="session")
async def test_store(engines: Engines, behaviour: Behaviour) -> None:
    store, second = (SqlStore(engine) for engine in engines)
    await behaviour(store, await Kit.open(store, second))


def test_every_behaviour_has_a_name_of_its_own() -> None:
    names = [name for name, _ in ALL]
    assert sorted(names) == sorted(set(names))
