"""Parameters against the schema of their executor, in its own process.

A submit has checked them already. Those of a step of a flow are filled in later, from results, and nobody else looks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crawlfleet.execution.sdk import ANYTHING, Executor, TaskError, declared
from crawlfleet.wire.schema_errors import complaint

Check = Callable[[Any], None]
_MESSAGE_CHARS = 500


def check_of(thing: object) -> Check:
    """Raises TaskError, of the class `input` and for good, for parameters that do not fit."""
    _, schema = declared(thing) or ("", ANYTHING)
    problems = thing.problems if isinstance(thing, type) and issubclass(thing, Executor) else _none
    if dict(schema) == ANYTHING:
        return _check_of_problems(problems)
    # Loaded only for a type that has something to check: a process of its own is there for one execution.
    import jsonschema_rs

    further = _check_of_problems(problems)
    validator = jsonschema_rs.validator_for(dict(schema))

    def check(parameters: Any) -> None:
        if not validator.is_valid(parameters):
            error = next(iter(validator.iter_errors(parameters)))
            where, said = complaint(schema, error)
            raise TaskError(f"parameters{where}: {said}"[:_MESSAGE_CHARS], error="input", permanent=True)
        further(parameters)

    return check


def _check_of_problems(problems: Callable[[Any], list[tuple[str, str]]]) -> Check:
    def check(parameters: Any) -> None:
        for path, detail in problems(parameters):
            raise TaskError(f"parameters.{path}: {detail}"[:_MESSAGE_CHARS], error="input", permanent=True)

    return check


def _none(_parameters: Any) -> list[tuple[str, str]]:
    return []
