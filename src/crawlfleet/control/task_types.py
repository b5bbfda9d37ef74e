"""Task types and what their parameters must look like. Schemas are compiled once, and only submit asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import msgspec

from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.answers import Code, Refusal

ANYTHING: Mapping[str, Any] = {"type": "object"}


class TaskTypes:
    def __init__(self, schemas: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._validators: dict[str, jsonschema_rs.Validator | None] = {}
        for task_type, schema in (schemas or {}).items():
            self.learn(task_type, schema)

    def learn(self, task_type: str, schema: Mapping[str, Any]) -> None:
        """Know a type, or its newer schema."""
        try:
            # Every body is an object already: the schema that asks for no more costs nothing.
            trivial = dict(schema) in ({}, {"type": "object"})
            self._validators[task_type] = None if trivial else jsonschema_rs.validator_for(dict(schema))
        except (jsonschema_rs.ValidationError, ValueError) as exc:
            raise InvalidInput(f"the schema of {task_type} is not valid: {exc}", field="schema") from exc

    def __contains__(self, task_type: str) -> bool:
        return task_type in self._validators

    def names(self) -> list[str]:
        return sorted(self._validators)

    def refusal(self, task_type: str, parameters: bytes) -> Refusal | None:
        try:
            validator = self._validators[task_type]
        except KeyError:
            known = ", ".join(self.names()) or "none"
            return Refusal(Code.UNKNOWN_TYPE, f"no task type {task_type!r}; known: {known}", "task_type")
        if validator is None:
            return None
        for error in validator.iter_errors(msgspec.json.decode(parameters)):
            path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
            return Refusal(Code.INVALID_INPUT, shortened(error.message), shortened(f"parameters{path}"))
        return None


def shortened(text: str) -> str:
    """Its beginning and its end: what is refused may be a megabyte, and a batch has thousands of them."""
    most = limits.NAME_CHARS
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"
