"""Which task types a node can run, and where the code of each is.

Built-in types are the modules of `builtin/`. Users' types come from the entry point group `crawlfleet.executors` and
from modules named at start. Users' modules are loaded by a process of its own (`scan`): an agent never runs them.
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

GROUP = "crawlfleet.executors"
SCAN_S = 60.0


@dataclass(frozen=True, slots=True)
class ExecutorEntry:
    task_type: str
    schema: Mapping[str, Any]
    is_builtin: bool
    path: str
    """`module:name` of the class or function"""


def load(path: str) -> object:
    """The class or function of an entry."""
    module_name, _, name = path.partition(":")
    return getattr(importlib.import_module(module_name), name)


@cache
def built_in() -> Mapping[str, ExecutorEntry]:
    names = sorted(module.name for module in pkgutil.iter_modules(builtin.__path__))
    modules = [importlib.import_module(f"{builtin.__name__}.{name}") for name in names]
    return _unique(entry for module in modules for entry in _declared_in(module, is_builtin=True))


def built_in_schemas() -> dict[str, Mapping[str, Any]]:
    return {name: entry.schema for name, entry in built_in().items()}


def built_in_checks() -> dict[str, Callable[[Mapping[str, Any]], list[tuple[str, str]]]]:
    """Of those that look further than their schema."""
    things = ((name, load(entry.path)) for name, entry in built_in().items())
    return {
        name: thing.problems
        for name, thing in things
        if isinstance(thing, type) and issubclass(thing, Executor) and "problems" in vars(thing)
    }


def users(modules: Sequence[str]) -> dict[str, ExecutorEntry]:
    """Loads users' modules here and now. Raises ConfigError that names the module and what is wrong with it."""
    found = [entry for name in modules for entry in _of_module(name, f"executors: module {name!r}")]
    for point in importlib.metadata.entry_points(group=GROUP):
        where = f"entry point {point.name!r} of {GROUP}"
        if point.attr:
            found += _of_object(point, where)
        else:
            found += _of_module(point.module, where)
    entries = _unique(found)
    if taken := sorted(entries.keys() & built_in().keys()):
        raise ConfigError(f"executors: {', '.join(taken)}: the name of a built-in task type")
    return entries


def scan(modules: Sequence[str], search_path: Sequence[str]) -> dict[str, ExecutorEntry]:
    """All types of this node: what `users` finds, in a process of its own, and the built-in ones."""
    if not modules and not importlib.metadata.entry_points(group=GROUP):
        return dict(built_in())
    command = [sys.executable, "-P", "-m", __name__, json.dumps([list(search_path), list(modules)])]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SCAN_S, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as exc:
        raise ConfigError(f"executors: {', '.join(modules)}: not loaded within {SCAN_S:g} s") from exc
    try:
        answer = json.loads(done.stdout.rpartition(b"\n")[2])
    except ValueError:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise ConfigError(f"executors: {', '.join(modules)}: could not be loaded: {said[0]}") from None
    if "error" in answer:
        raise ConfigError(answer["error"])
    return dict(built_in()) | {name: ExecutorEntry(**entry) for name, entry in answer["entries"].items()}


def _of_module(name: str, where: str) -> list[ExecutorEntry]:
    try:
        module = importlib.import_module(name)
    except BaseException as exc:  # a stranger's code: it may even call exit()
        raise ConfigError(f"{where} could not be loaded: {type(exc).__name__}: {exc}") from exc
    entries = _declared_in(module, is_builtin=False)
    if not entries:
        raise ConfigError(f"{where} has no executor: decorate a function with @executor(...) or subclass Executor")
    return entries


def _of_object(point: importlib.metadata.EntryPoint, where: str) -> list[ExecutorEntry]:
    try:
        thing = point.load()
    except BaseException as exc:
        raise ConfigError(f"{where} could not be loaded: {type(exc).__name__}: {exc}") from exc
    if get_declaration(thing) is None:
        raise ConfigError(f"{where} is no executor: {point.value}")
    return [_entry(thing, f"{point.module}:{point.attr}", is_builtin=False)]


def _declared_in(module: ModuleType, *, is_builtin: bool) -> list[ExecutorEntry]:
    """Those written in the module itself: what it imports from elsewhere is not its own."""
    return [
        _entry(thing, f"{module.__name__}:{name}", is_builtin=is_builtin)
        for name, thing in vars(module).items()
        if getattr(thing, "__module__", None) == module.__name__ and get_declaration(thing) is not None
    ]


def _entry(thing: object, path: str, *, is_builtin: bool) -> ExecutorEntry:
    task_type, schema = get_declaration(thing) or ("", {})
    if not TASK_TYPE.fullmatch(task_type):
        raise ConfigError(f"executors: {path}: {task_type!r} is no task type (a letter, then letters, digits, _ . -)")
    try:
        json.dumps(schema, allow_nan=False)
        jsonschema_rs.validator_for(dict(schema))
    except (jsonschema_rs.ValidationError, ValueError, TypeError) as exc:
        raise ConfigError(f"executors: {path}: its schema is not valid: {exc}") from exc
    return ExecutorEntry(task_type, schema, is_builtin, path)


def _unique(entries: Iterable[ExecutorEntry]) -> dict[str, ExecutorEntry]:
    unique: dict[str, ExecutorEntry] = {}
    for entry in entries:
        known = unique.setdefault(entry.task_type, entry)
        if known.path != entry.path:
            raise ConfigError(f"executors: {entry.task_type} is declared twice: {known.path} and {entry.path}")
    return unique


def _main(argument: str) -> None:
    search_path, modules = json.loads(argument)
    # What users' modules print must not mix with the answer.
    answer_to = os.dup(1)
    os.dup2(2, 1)
    sys.path[:] = search_path
    answer: dict[str, Any]
    try:
        answer = {"entries": {name: asdict(entry) for name, entry in users(modules).items()}}
    except ConfigError as exc:
        answer = {"error": str(exc)}
    os.write(answer_to, json.dumps(answer).encode())


if __name__ == "__main__":
    _main(sys.argv[1])
