"""Which task types a node finds, and what it says of modules that are none of use."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

import crawlfleet
from crawlfleet.control.tasks.task_types import TaskTypes
from crawlfleet.errors import ConfigError
from crawlfleet.execution import sdk
from crawlfleet.execution.executors import registry
from crawlfleet.execution.executors.registry import (
    builtin_entries,
    builtin_schemas,
    load_executor,
    load_user_entries,
    scan_entries,
)

GOOD = """
from crawlfleet import Executor, executor, TaskContext
from crawlfleet.execution.executors.builtin.echo import Echo

@executor("{name}", schema={{"type": "object", "properties": {{"n": {{"type": "integer"}}}}}})
async def one(context):
    return 1

class Two(Executor):
    task_type = "two_{name}"

    async def run(self, context):
        return 2

class NoType(Executor):
    pass
"""


def module(folder: Path, name: str, text: str) -> str:
    (folder / f"{name}.py").write_text(text)
    return name


@pytest.fixture
def search_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.syspath_prepend(str(tmp_path))
    return [str(tmp_path), *sys.path]


def test_the_built_in_types_have_strict_schemas() -> None:
    assert {"echo", "sleep", "fail"} <= set(builtin_entries())
    types = TaskTypes(builtin_schemas())
    assert types.find_refusal("echo", b'{"any": ["thing"]}') is None
    assert types.find_refusal("sleep", b'{"seconds": 0.5}') is None
    assert types.find_refusal("fail", b'{"times": 2, "class": "network", "permanent": true}') is None
    for task_type, parameters in (
        ("sleep", b"{}"),
        ("sleep", b'{"seconds": -1}'),
        ("sleep", b'{"seconds": 1e9}'),
        ("sleep", b'{"second": 1}'),
        ("fail", b'{"class": "no such class"}'),
        ("fail", b'{"times": 1.5}'),
        ("fail", b'{"often": 2}'),
    ):
        assert types.find_refusal(task_type, parameters) is not None, (task_type, parameters)


def test_functions_and_classes_are_found_and_what_is_only_imported_is_not(
    tmp_path: Path, search_path: list[str]
) -> None:
    module(tmp_path, "users_good", GOOD.format(name="mine"))
    entries = scan_entries(["users_good"], search_path)
    assert set(entries) == {*builtin_entries(), "mine", "two_mine"}
    assert entries["mine"].path == "users_good:one"
    assert entries["mine"].schema["properties"] == {"n": {"type": "integer"}}
    assert not entries["mine"].is_builtin
    assert entries["echo"].is_builtin
    assert "users_good" not in sys.modules, "a user's module is never loaded into the agent"


def test_a_path_leads_to_the_code() -> None:
    assert load_executor(builtin_entries()["echo"].path) is load_executor(
        "crawlfleet.execution.executors.builtin.echo:Echo"
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("import no_such_thing_at_all", "ModuleNotFoundError"),
        ("raise ValueError('at import')", "at import"),
        ("raise SystemExit(3)", "SystemExit"),
        ("import os; os._exit(9)", "exit code 9"),
        ("def (", "SyntaxError"),
        ("x = 1", "has no executor"),
        ("import crawlfleet\n@crawlfleet.executor('echo')\nasync def f(c): ...", "echo: the name of a built-in"),
        ("import crawlfleet\n@crawlfleet.executor('9 lives')\nasync def f(c): ...", "'9 lives' is no task type"),
        (
            "import crawlfleet\n@crawlfleet.executor('a', schema={'type': 'nonsense'})\nasync def f(c): ...",
            "schema is not valid",
        ),
        (
            "import crawlfleet\n@crawlfleet.executor('a', schema={'default': object()})\nasync def f(c): ...",
            "schema is not valid",
        ),
        (
            "import crawlfleet\n@crawlfleet.executor('a')\nasync def f(c): ...\n"
            "@crawlfleet.executor('a')\nasync def g(c): ...",
            "declared twice",
        ),
        ("print('noise on stdout')\nprint('{')", "has no executor"),
    ],
)
def test_a_module_that_is_of_no_use_is_named_with_the_reason(
    tmp_path: Path, search_path: list[str], text: str, complaint: str
) -> None:
    module(tmp_path, "users_bad", text)
    with pytest.raises(ConfigError) as raised:
        scan_entries(["users_bad"], search_path)
    assert complaint in str(raised.value)
    assert "users_bad" in str(raised.value) or "echo" in str(raised.value)


def test_entry_points_are_found(tmp_path: Path, search_path: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    module(tmp_path, "users_point", GOOD.format(name="pointed"))
    points = [
        importlib.metadata.EntryPoint("whole", "users_point", registry.ENTRY_POINT_GROUP),
        importlib.metadata.EntryPoint("part", "users_point:Two", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: points if group == registry.ENTRY_POINT_GROUP else []
    )
    assert set(load_user_entries([])) == {"pointed", "two_pointed"}
    points.append(importlib.metadata.EntryPoint("gone", "users_point:Missing", registry.ENTRY_POINT_GROUP))
    with pytest.raises(ConfigError, match="entry point 'gone'"):
        load_user_entries([])


def test_the_public_names_are_those_of_the_sdk() -> None:
    assert crawlfleet.executor is sdk.executor
    assert crawlfleet.Executor is sdk.Executor
    assert crawlfleet.TaskContext is sdk.TaskContext
    assert crawlfleet.TaskError is sdk.TaskError
    with pytest.raises(AttributeError):
        _ = crawlfleet.no_such_name


def test_a_task_error_names_a_class_that_exists() -> None:
    with pytest.raises(ValueError, match="none of network"):
        sdk.TaskError("x", error="nonsense")
