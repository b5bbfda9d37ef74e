"""Registry of the task types that a node can run, with the path of each executor's code.

Built-in types are the modules of `builtin/`. User types come from the entry point group `crawlfleet.executors` and
from modules named at start. User modules are loaded in a process of their own (`scan_entries`), never in the agent.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from types import ModuleType
from typing import Any

import jsonschema_rs

from crawlfleet.errors import ConfigError
from crawlfleet.execution.executors import builtin
from crawlfleet.execution.sdk import TASK_TYPE, Executor, get_declaration

ENTRY_POINT_GROUP = "crawlfleet.executors"
SCAN_S = 60.0


@dataclass(frozen=True, slots=True)
class ExecutorEntry:
    """A task type with its schema and the path of its executor."""

    task_type: str
    schema: Mapping[str, Any]
    is_builtin: bool
    path: str
    """`module:name` of the class or function"""


def load_executor(path: str) -> object:
    """Import the executor class or function at `module:name`."""
    module_name, _, name = path.partition(":")
    return getattr(importlib.import_module(module_name), name)


@cache
def builtin_entries() -> Mapping[str, ExecutorEntry]:
    names = sorted(module.name for module in pkgutil.iter_modules(builtin.__path__))
    modules = [importlib.import_module(f"{builtin.__name__}.{name}") for name in names]
    return _index_by_type(entry for module in modules for entry in _find_entries(module, is_builtin=True))


def builtin_schemas() -> dict[str, Mapping[str, Any]]:
    return {name: entry.schema for name, entry in builtin_entries().items()}


def builtin_checks() -> dict[str, Callable[[Mapping[str, Any]], list[tuple[str, str]]]]:
    """The `problems` checks of the built-in types that have one."""
    executors = ((name, load_executor(entry.path)) for name, entry in builtin_entries().items())
    return {
        name: executor.problems
        for name, executor in executors
        if isinstance(executor, type) and issubclass(executor, Executor) and "problems" in vars(executor)
    }


def load_user_entries(modules: Sequence[str]) -> dict[str, ExecutorEntry]:
    """Load user modules into this process. Raises ConfigError that names the module and what is wrong with it."""
    found_entries = [entry for name in modules for entry in _load_module_entries(name, f"executors: module {name!r}")]
    for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        where = f"entry point {point.name!r} of {ENTRY_POINT_GROUP}"
        if point.attr:
            found_entries += _load_object_entry(point, where)
        else:
            found_entries += _load_module_entries(point.module, where)
    entries = _index_by_type(found_entries)
    if clashes := sorted(entries.keys() & builtin_entries().keys()):
        raise ConfigError(f"executors: {', '.join(clashes)}: the name of a built-in task type")
    return entries


def scan_entries(modules: Sequence[str], search_path: Sequence[str]) -> dict[str, ExecutorEntry]:
    """All types of this node: the built-in ones, and user types loaded in a process of its own."""
    if not modules and not importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        return dict(builtin_entries())
    command = [sys.executable, "-P", "-m", __name__, json.dumps([list(search_path), list(modules)])]
    try:
        finished = subprocess.run(command, capture_output=True, timeout=SCAN_S, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as exc:
        raise ConfigError(f"executors: {', '.join(modules)}: not loaded within {SCAN_S:g} s") from exc
    try:
        answer = json.loads(finished.stdout.rpartition(b"\n")[2])
    except ValueError:
        last_line = finished.stderr.decode(errors="replace").strip().splitlines()[-1:] or [
            f"exit code {finished.returncode}"
        ]
        raise ConfigError(f"executors: {', '.join(modules)}: could not be loaded: {last_line[0]}") from None
    if "error" in answer:
        raise ConfigError(answer["error"])
    return dict(builtin_entries()) | {name: ExecutorEntry(**entry) for name, entry in answer["entries"].items()}


def _load_module_entries(name: str, where: str) -> list[ExecutorEntry]:
    try:
        module = importlib.import_module(name)
    except BaseException as exc:  # user code: it may even call exit()
        raise ConfigError(f"{where} could not be loaded: {type(exc).__name__}: {exc}") from exc
    entries = _find_entries(module, is_builtin=False)
    if not entries:
        raise ConfigError(f"{where} has no executor: decorate a function with @executor(...) or subclass Executor")
    return entries


def _load_object_entry(point: importlib.metadata.EntryPoint, where: str) -> list[ExecutorEntry]:
    try:
        executor = point.load()
    except BaseException as exc:
        raise ConfigError(f"{where} could not be loaded: {type(exc).__name__}: {exc}") from exc
    if get_declaration(executor) is None:
        raise ConfigError(f"{where} is no executor: {point.value}")
    return [_make_entry(executor, f"{point.module}:{point.attr}", is_builtin=False)]


def _find_entries(module: ModuleType, *, is_builtin: bool) -> list[ExecutorEntry]:
    """Entries of the executors that the module itself defines; imported ones do not count."""
    return [
        _make_entry(executor, f"{module.__name__}:{name}", is_builtin=is_builtin)
        for name, executor in vars(module).items()
        if getattr(executor, "__module__", None) == module.__name__ and get_declaration(executor) is not None
    ]


def _make_entry(executor: object, path: str, *, is_builtin: bool) -> ExecutorEntry:
    task_type, schema = get_declaration(executor) or ("", {})
    if not TASK_TYPE.fullmatch(task_type):
        raise ConfigError(f"executors: {path}: {task_type!r} is no task type (a letter, then letters, digits, _ . -)")
    try:
        json.dumps(schema, allow_nan=False)
        jsonschema_rs.validator_for(dict(schema))
    except (jsonschema_rs.ValidationError, ValueError, TypeError) as exc:
        raise ConfigError(f"executors: {path}: its schema is not valid: {exc}") from exc
    return ExecutorEntry(task_type, schema, is_builtin, path)


def _index_by_type(entries: Iterable[ExecutorEntry]) -> dict[str, ExecutorEntry]:
    unique: dict[str, ExecutorEntry] = {}
    for entry in entries:
        first = unique.setdefault(entry.task_type, entry)
        if first.path != entry.path:
            raise ConfigError(f"executors: {entry.task_type} is declared twice: {first.path} and {entry.path}")
    return unique


def _main(argument: str) -> None:
    search_path, modules = json.loads(argument)
    # What users' modules print must not mix with the answer.
    answer_to = os.dup(1)
    os.dup2(2, 1)
    sys.path[:] = search_path
    answer: dict[str, Any]
    try:
        answer = {"entries": {name: asdict(entry) for name, entry in load_user_entries(modules).items()}}
    except ConfigError as exc:
        answer = {"error": str(exc)}
    os.write(answer_to, json.dumps(answer).encode())


if __name__ == "__main__":
    _main(sys.argv[1])
