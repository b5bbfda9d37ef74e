"""Task types and what their parameters must look like. Schemas are compiled once, and only submit asks.

`TaskTypes` is what this master knows; `KnownTypes` learns from the store what nodes told the other masters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec
import structlog

from crawlfleet.control.shared import Shared
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.answers import Code, Refusal
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.identity import TypeRecord, TypeStore
from crawlfleet.scheduling.flow_plan import expressions_in, is_reference
from crawlfleet.wire.complaints import complaint, shortened
from crawlfleet.wire.field_messages import unknown_name
from crawlfleet.wire.tasks import unstorable

ANYTHING: Mapping[str, Any] = {"type": "object"}
SCHEMA_BYTES = 64 << 10
TYPES_MOST = 200
"""That one node can bring along."""
ERRORS_MOST = 1_000
_ALSO = 4
# Linear in the length of the text, so that nobody's pattern can hold up the loop; no lookaround, that is the price.
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=1 << 20)

log = structlog.get_logger()

Check = Callable[[Mapping[str, Any]], list[tuple[str, str]]]
"""What is wrong with parameters that fit their schema: path and detail of each."""


class TaskTypes:
    def __init__(
        self, schemas: Mapping[str, Mapping[str, Any]] | None = None, checks: Mapping[str, Check] | None = None
    ) -> None:
        self._checks = checks or {}
        self._validators: dict[str, jsonschema_rs.Validator | None] = {}
        self._schemas: dict[str, Mapping[str, Any]] = {}
        self._versions: dict[str, int] = {}
        self.misses = 0
        """How often an unknown type was asked for."""
        for task_type, schema in (schemas or {}).items():
            self.learn(task_type, schema)

    def learn(self, task_type: str, schema: Mapping[str, Any]) -> None:
        """Know a type, or its newer schema."""
        self._validators[task_type] = compiled(task_type, schema)
        self._schemas[task_type] = schema

    def take(self, records: Iterable[TypeRecord]) -> None:
        """Learn what is newer in the store than what was taken from it before."""
        for record in records:
            if record.version > self._versions.get(record.name, 0):
                self._versions[record.name] = record.version
                try:
                    self.learn(record.name, record.schema)
                except InvalidInput as exc:
                    log.warning("schema_not_understood", task_type=record.name, version=record.version, error=str(exc))

    def __contains__(self, task_type: str) -> bool:
        return task_type in self._validators

    def names(self) -> list[str]:
        return sorted(self._validators)

    def refusal(self, task_type: str, parameters: bytes, *, is_template: bool = False) -> Refusal | None:
        """Of a template, what is wrong with it whatever its references are filled with."""
        try:
            validator = self._validators[task_type]
        except KeyError:
            self.misses += 1
            names = self.names() or ["none"]
            detail = unknown_name(task_type, names, shown=f"no task type {task_type!r}")
            return Refusal(Code.UNKNOWN_TYPE, shortened(detail), "task_type")
        if validator is None:
            return None
        value = msgspec.json.decode(parameters)
        schema = self._schemas[task_type]
        errors = (error for error in validator.iter_errors(value) if not (is_template and _may_be_filled(value, error)))
        if wrong := [complaint(schema, error) for error in islice(errors, ERRORS_MOST)]:
            return _of_problems(wrong)
        check = self._checks.get(task_type)
        if check is None or (is_template and any(expressions_in(value, ""))):
            return None
        return _of_problems([(f".{path}", detail) for path, detail in check(value)])


def _of_problems(problems: list[tuple[str, str]]) -> Refusal | None:
    """The first by its field; the others are told with it, so that nobody mends them one by one."""
    if not problems:
        return None
    (path, detail), *others = problems
    also = "".join(f"; {other.removeprefix('.') or 'parameters'}: {shortened(said)}" for other, said in others[:_ALSO])
    more = f"; and {len(others) - _ALSO} more" if len(others) > _ALSO else ""
    if len(problems) == ERRORS_MOST:
        more += ", at least"
    return Refusal(Code.INVALID_INPUT, f"{shortened(detail)}{also}{more}", shortened(f"parameters{path}"))


def _may_be_filled(value: Any, error: jsonschema_rs.ValidationError) -> bool:
    """Whether what is wrong may be right once the references in it are filled: those of its keys will not be."""
    for step in error.instance_path:
        if is_reference(value):
            return True
        value = value[step]
    is_of_keys = error.schema_path[-1] in ("required", "additionalProperties") and not is_reference(value)
    return not is_of_keys and any(expressions_in(value, ""))


class KnownTypes:
    """Keeps a master's task types up with the store's."""

    def __init__(self, types: TaskTypes, *, store: TypeStore, clock: Clock) -> None:
        self.types = types
        self._store = store
        self._clock = clock
        self._look = Shared(self._take, "task types")
        self._looked_at: float | None = None

    async def seed(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        """Tell the store what this master was built with, then learn what the store knows."""
        await self._store.put_task_types(schemas, self._clock.now())
        await self._take()

    async def refresh(self, max_age_s: float) -> bool:
        """Look into the store, unless that was done less than `max_age_s` ago; whether it was done now."""
        if self.is_fresh(max_age_s):
            return False
        await self._look()
        return True

    def is_fresh(self, max_age_s: float) -> bool:
        return self._looked_at is not None and self._clock.monotonic() - self._looked_at < max_age_s

    async def put(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        """Schemas that were checked, from a node: kept, and known here at once."""
        await self._store.put_task_types(schemas, self._clock.now())
        for name, schema in schemas.items():
            self.types.learn(name, schema)

    async def put_names(self, names: Iterable[str]) -> None:
        """Types that a node runs and nobody has described: they take any parameters until somebody does."""
        unknown = [name for name in names if name not in self.types]
        if unknown:
            await self._store.put_task_types(dict.fromkeys(unknown, ANYTHING), self._clock.now(), is_only_new=True)
            await self._take()

    async def _take(self) -> None:
        at = self._clock.monotonic()
        self.types.take(await self._store.task_types())
        self._looked_at = at


def compiled(task_type: str, schema: Mapping[str, Any], field: str = "schema") -> jsonschema_rs.Validator | None:
    """None for a schema that asks for nothing: every body is an object already."""
    try:
        if dict(schema) in ({}, ANYTHING):
            return None
        # Offline: a schema that refers to an address must not make a master fetch it.
        return jsonschema_rs.validator_for(dict(schema), offline=True, pattern_options=_PATTERNS)
    except (jsonschema_rs.ValidationError, ValueError) as exc:
        said = shortened(str(exc).partition("\n")[0])
        raise InvalidInput(f"the schema of {task_type} is not valid: {said}", field=field) from exc


def check_types(schemas: Mapping[str, Mapping[str, Any]]) -> None:
    """What a node brings along. Raises InvalidInput with the field `task_types` or `task_types.NAME`."""
    if len(schemas) > TYPES_MOST:
        raise InvalidInput(f"at most {TYPES_MOST}", field="task_types")
    for name, schema in schemas.items():
        check_name(name)
        field = f"task_types.{name}"
        if not isinstance(schema, Mapping):
            raise InvalidInput("must be a JSON schema, an object", field=field)
        if _is_too_deep(schema):
            raise InvalidInput(f"nested deeper than {limits.JSON_DEPTH} levels", field=field)
        try:
            size = len(msgspec.json.encode(schema))
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as exc:
            raise InvalidInput(f"cannot be written as JSON: {exc}", field=field) from exc
        if size > SCHEMA_BYTES:
            raise InvalidInput(f"{size} bytes; at most {SCHEMA_BYTES} are taken", field=field)
        compiled(name, schema, field)


def check_name(task_type: str) -> None:
    if not 0 < len(task_type) <= limits.LABEL_CHARS or unstorable(task_type):
        detail = f"the name of a type has 1 to {limits.LABEL_CHARS} characters, no NUL"
        raise InvalidInput(detail, field="task_types")


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(limits.JSON_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
