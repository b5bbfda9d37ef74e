"""Task types and the JSON schemas of their parameters. Schemas are compiled once, and only submit uses them.

`TaskTypes` holds the types that this master knows; `KnownTypes` reads from the store what nodes registered with the
other masters.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import jsonschema_rs
import msgspec
import structlog

from crawlfleet.control.support.single_flight import SingleFlight
from crawlfleet.control.tasks.schema_cost import TooCostly, schema_cost
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.ports.admin_store import MASTERS, ConfigStore, TypeIgnored, TypeRecord
from crawlfleet.ports.clock import Clock
from crawlfleet.scheduling.flows.flow_graph import expressions_in, is_reference
from crawlfleet.wire.field_messages import unknown_name
from crawlfleet.wire.schema_errors import describe_error, shorten_text
from crawlfleet.wire.tasks import storage_problem

ANYTHING: Mapping[str, Any] = {"type": "object"}
SCHEMA_BYTES = 64 << 10
TYPES_MOST = 200
"""Maximum number of types that one node can register."""
ERRORS_MOST = 1_000
WORK_MOST = 80_000_000
"""Maximum product of the cost of a schema and the bytes of the parameters: about half a second on the event loop."""
_DETAILED_WORK = 1_000_000
"""Work up to which every error is searched for, each of which takes a thousand times as long as to find that there is
one; above it only the first error is."""
_INLINE_BYTES = 4_096
"""Maximum total size of schemas that are compiled on the event loop; larger ones are compiled in a thread."""
_ALSO = 4
# Patterns are linear in the length of the text, so that no user's pattern can block the event loop; the price is that
# there is no lookaround.
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=1 << 20)

log = structlog.get_logger()
_encode = msgspec.json.Encoder(order="sorted").encode


def release_number(version: str) -> int:
    """Return a release as a number that rises with it: 1.4.2 is 1,004,002."""
    parts = [int(part) for part in re.findall(r"\d+", version)[:3]]
    major, minor, patch = [*parts, 0, 0, 0][:3]
    return (major * 1_000 + minor) * 1_000 + patch


Check = Callable[[Mapping[str, Any]], list[tuple[str, str]]]
"""A check of parameters that fit their schema; it returns path and detail of each error."""


class TaskTypes:
    def __init__(
        self,
        schemas: Mapping[str, Mapping[str, Any]] | None = None,
        checks: Mapping[str, Check] | None = None,
        *,
        release: int = 0,
    ) -> None:
        """Create the table of types; `schemas` are the built-in ones of this `release`."""
        self.release = release
        self._checks = checks or {}
        self._compiled: dict[str, _CompiledType] = {}
        self._versions: dict[str, int] = {}
        self.built_in: dict[str, bytes] = {name: _encode(schema) for name, schema in (schemas or {}).items()}
        """The schemas this master was built with: no node changes them."""
        self.misses = 0
        """Number of requests for an unknown type."""
        for task_type, schema in (schemas or {}).items():
            self.add_type(task_type, schema)

    def add_type(self, task_type: str, schema: Mapping[str, Any]) -> None:
        """Add a type, or replace its schema by a newer one."""
        self._compiled[task_type] = _compile_type(task_type, schema)

    def learn_records(self, records: Iterable[TypeRecord]) -> None:
        """Learn the types that are newer in the store than those read from it before."""
        self.learn_compiled(compile_records(self.newer_records(records)))

    def newer_records(self, records: Iterable[TypeRecord]) -> list[TypeRecord]:
        """Return the records that are newer in the store than those read from it before. For a built-in type only a
        later release is newer: what an earlier release or a node wrote there changes nothing here."""
        return [
            record
            for record in records
            if record.version > self._versions.get(record.name, 0)
            and (record.name not in self.built_in or (record.owner == MASTERS and record.revision > self.release))
        ]

    def learn_compiled(self, compiled_types: Iterable[tuple[TypeRecord, _CompiledType | None]]) -> None:
        """Learn the types of the store. For a schema that cannot be used, the previous one stays; a type that has none
        accepts any parameters."""
        for record, compiled_type in compiled_types:
            self._versions[record.name] = record.version
            if compiled_type is not None:
                self._compiled[record.name] = compiled_type
            elif record.name not in self._compiled:
                self._compiled[record.name] = _CompiledType(record.schema, None, 0)

    def __contains__(self, task_type: str) -> bool:
        return task_type in self._compiled

    def list_names(self) -> list[str]:
        return sorted(self._compiled)

    def find_refusal(self, task_type: str, parameters: bytes, *, is_template: bool = False) -> Refusal | None:
        """Return why the parameters are refused, or None. For a template only errors count that remain whatever its
        references are filled with."""
        try:
            compiled = self._compiled[task_type]
        except KeyError:
            self.misses += 1
            names = self.list_names() or ["none"]
            detail = unknown_name(task_type, names, shown=f"no task type {task_type!r}")
            return Refusal(Code.UNKNOWN_TYPE, shorten_text(detail), "task_type")
        if compiled.validator is None:
            return None
        work = compiled.cost * len(parameters)
        if work > WORK_MOST:
            max_bytes = WORK_MOST // compiled.cost
            detail = f"{len(parameters)} bytes; {max_bytes} are taken of a type whose schema takes as long to check"
            return Refusal(Code.TOO_LARGE, detail, "parameters")
        value = msgspec.json.decode(parameters)
        all_errors = _find_errors(compiled.validator, value, is_detailed=work <= _DETAILED_WORK)
        errors = (error for error in all_errors if not (is_template and _may_be_filled(value, error)))
        if wrong := [describe_error(compiled.schema, error) for error in islice(errors, ERRORS_MOST)]:
            return _merge_problems(wrong)
        check = self._checks.get(task_type)
        if check is None or (is_template and any(expressions_in(value, ""))):
            return None
        return _merge_problems([(f".{path}", detail) for path, detail in check(value)])


class _CompiledType(NamedTuple):
    schema: Mapping[str, Any]
    validator: jsonschema_rs.Validator | None
    """Compiled validator; None for a schema without requirements."""
    cost: int


def compile_records(records: Iterable[TypeRecord]) -> list[tuple[TypeRecord, _CompiledType | None]]:
    """Compile the schemas of the records; None for a schema that cannot be used, because it is from before there were
    bounds, or from another version."""
    compiled_types: list[tuple[TypeRecord, _CompiledType | None]] = []
    for record in records:
        compiled_type = None
        try:
            compiled_type = _compile_type(record.name, record.schema)
        except InvalidInput as exc:
            log.warning("schema_not_used", task_type=record.name, version=record.version, error=str(exc))
        compiled_types.append((record, compiled_type))
    return compiled_types


def _compile_type(task_type: str, schema: Mapping[str, Any]) -> _CompiledType:
    return _CompiledType(schema, compile_schema(task_type, schema), _bounded_cost(task_type, schema, "schema"))


def _find_errors(
    validator: jsonschema_rs.Validator, value: Any, *, is_detailed: bool
) -> Iterable[jsonschema_rs.ValidationError]:
    # The validator makes all errors at once, however few are needed: 500,000 took nine seconds.
    if validator.is_valid(value):
        return ()
    if is_detailed:
        return validator.iter_errors(value)
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as exc:
        return (exc,)
    return ()


def _merge_problems(problems: list[tuple[str, str]]) -> Refusal | None:
    """Return one refusal for all errors: the first with its field, and the others in the same message, so that the user
    can correct them together."""
    if not problems:
        return None
    (path, detail), *others = problems
    also = "".join(
        f"; {other_path.removeprefix('.') or 'parameters'}: {shorten_text(other_detail)}"
        for other_path, other_detail in others[:_ALSO]
    )
    more = f"; and {len(others) - _ALSO} more" if len(others) > _ALSO else ""
    if len(problems) == ERRORS_MOST:
        more += ", at least"
    return Refusal(Code.INVALID_INPUT, f"{shorten_text(detail)}{also}{more}", shorten_text(f"parameters{path}"))


def _may_be_filled(value: Any, error: jsonschema_rs.ValidationError) -> bool:
    """Return whether an error may disappear once the references in the value are filled; an error about its keys does
    not."""
    for step in error.instance_path:
        if is_reference(value):
            return True
        value = value[step]
    is_of_keys = error.schema_path[-1] in ("required", "additionalProperties") and not is_reference(value)
    return not is_of_keys and any(expressions_in(value, ""))


class KnownTypes:
    """Keeps a master's task types up to date with the store's."""

    def __init__(self, types: TaskTypes, *, store: ConfigStore, clock: Clock) -> None:
        self.types = types
        self._store = store
        self._clock = clock
        self._refresh_once = SingleFlight(self._read_types, "task types")
        self._looked_at: float | None = None

    async def seed_types(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the schemas that this master was built with into the store, then learn the types of the store."""
        await self._store.put_built_in_types(schemas, self.types.release, self._clock.now())
        await self._read_types()

    async def refresh(self, max_age_s: float) -> bool:
        """Read the store, unless that was done less than `max_age_s` ago; returns whether it was read."""
        if self.is_fresh(max_age_s):
            return False
        await self._refresh_once()
        return True

    def is_fresh(self, max_age_s: float) -> bool:
        return self._looked_at is not None and self._clock.monotonic() - self._looked_at < max_age_s

    def own_types(self, schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """Return the types that a node may describe: every agent also sends the built-in ones, in the version of its
        release."""
        return {name: schema for name, schema in schemas.items() if name not in self.types.built_in}

    async def put_types(self, schemas: Mapping[str, Mapping[str, Any]], node: NodeId) -> dict[str, TypeIgnored]:
        """Store the checked schemas of a node, as far as they are its own. Returns those that are not used."""
        ignored = await self._store.put_task_types(self.own_types(schemas), node, self._clock.now())
        for name, body in self.types.built_in.items():
            if name in schemas and _encode(schemas[name]) != body:
                ignored[name] = TypeIgnored.BUILT_IN
        await self._read_types()
        if ignored:
            log.warning("schemas_ignored", node=node_text(node), **{name: str(why) for name, why in ignored.items()})
        return ignored

    async def put_names(self, names: Iterable[str]) -> None:
        """Store the types that a node runs and that have no schema: they accept any parameters until a node describes
        them."""
        unknown = [name for name in names if name not in self.types]
        if unknown:
            await self._store.put_type_names(unknown, self._clock.now())
            await self._read_types()

    async def _read_types(self) -> None:
        now_mono = self._clock.monotonic()
        newer = self.types.newer_records(await self._store.task_types())
        if sum(len(_encode(record.schema)) for record in newer) > _INLINE_BYTES:
            self.types.learn_compiled(await asyncio.to_thread(compile_records, newer))
        else:
            self.types.learn_records(newer)
        self._looked_at = now_mono


def compile_schema(task_type: str, schema: Mapping[str, Any], field: str = "schema") -> jsonschema_rs.Validator | None:
    """Return the compiled validator; None for a schema without requirements, as every body is an object already."""
    try:
        if dict(schema) in ({}, ANYTHING):
            return None
        # Offline: a schema that refers to an address must not make a master fetch it.
        return jsonschema_rs.validator_for(dict(schema), offline=True, pattern_options=_PATTERNS)
    except (jsonschema_rs.ValidationError, ValueError) as exc:
        complaint_line = shorten_text(str(exc).partition("\n")[0])
        raise InvalidInput(f"the schema of {task_type} is not valid: {complaint_line}", field=field) from exc


def check_types(schemas: Mapping[str, Mapping[str, Any]]) -> None:
    """Check the schemas that a node sends. Raises InvalidInput with the field `task_types` or `task_types.NAME`."""
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
        _bounded_cost(name, schema, field)
        compile_schema(name, schema, field)


def _bounded_cost(task_type: str, schema: Mapping[str, Any], field: str) -> int:
    """Return the cost of a schema. Raises InvalidInput for a schema with which one small value could block a master."""
    try:
        return _cached_cost(_encode(schema))
    except TooCostly as exc:
        raise InvalidInput(f"the schema of {task_type} cannot be used: {exc}", field=field) from exc


@lru_cache(maxsize=512)
def _cached_cost(encoded: bytes) -> int:
    return schema_cost(msgspec.json.decode(encoded))


def check_name(task_type: str) -> None:
    if not 0 < len(task_type) <= limits.LABEL_CHARS or storage_problem(task_type):
        detail = f"the name of a type has 1 to {limits.LABEL_CHARS} characters, no NUL"
        raise InvalidInput(detail, field="task_types")


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(limits.JSON_DEPTH):
        level = [inner for outer in level for inner in _inner_values(outer)]
        if not level:
            return False
    return True


def _inner_values(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
