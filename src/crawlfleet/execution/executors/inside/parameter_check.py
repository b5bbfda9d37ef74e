"""Check of parameters against the schema of their executor, in its own process.

A submit has checked them already; the parameters of a flow's step are filled in later, from results, and are checked
only here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crawlfleet.execution.sdk import ANYTHING, Executor, TaskError, get_declaration
from crawlfleet.wire.schema_errors import describe_error

Check = Callable[[Any], None]
_MESSAGE_CHARS = 500


def build_check(executor: object) -> Check:
    """Build the check of an executor's parameters, which raises a permanent TaskError of the class `input`."""
    _, schema = get_declaration(executor) or ("", ANYTHING)
    problems = executor.problems if isinstance(executor, type) and issubclass(executor, Executor) else _no_problems
    if dict(schema) == ANYTHING:
        return _build_problem_check(problems)
    # Loaded only for a type that has something to check: a process of its own is there for one execution.
    import jsonschema_rs

    check_problems = _build_problem_check(problems)
    validator = jsonschema_rs.validator_for(dict(schema))

    def check(parameters: Any) -> None:
        if not validator.is_valid(parameters):
            error = next(iter(validator.iter_errors(parameters)))
            where, detail = describe_error(schema, error)
            raise TaskError(f"parameters{where}: {detail}"[:_MESSAGE_CHARS], error="input", permanent=True)
        check_problems(parameters)

    return check


def _build_problem_check(problems: Callable[[Any], list[tuple[str, str]]]) -> Check:
    def check(parameters: Any) -> None:
        for path, detail in problems(parameters):
            raise TaskError(f"parameters.{path}: {detail}"[:_MESSAGE_CHARS], error="input", permanent=True)

    return check


def _no_problems(_parameters: Any) -> list[tuple[str, str]]:
    return []
