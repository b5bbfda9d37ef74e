"""The extraction plan is compiled once from a task's parameters; every problem is reported by name and place.

selectors  {"product": "div.product", "title": "h2.title"}     the flat form
extract    {"products": {"container": ..., "fields": {...}}}   containers with fields, over HTML or JSON
page       ["markdown", "metadata"]                            the page itself as an item
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import jsonschema_rs
import msgspec
import re2  # type: ignore[import-untyped]

from crawlfleet.execution.crawl.parse.extract.limits import MAX_FIELDS, MAX_NESTING
from crawlfleet.execution.crawl.parse.extract.selectors import (
    BadSelector,
    Selector,
    SelectorSet,
    compile_selector,
    is_xpath,
)
from crawlfleet.execution.crawl.parse.extract.values import OPTIONS, Convert, make_converter
from crawlfleet.execution.crawl.schemas.extract import DEFS, EXTRACT, PAGE, SELECTORS
from crawlfleet.scheduling.flows.expressions import Expression, InvalidExpression, parse_expression

PATTERN_BYTES = 1 << 20
EXTRACTION = ("selectors", "extract", "page")
"""Names of the parameters that are compiled here."""


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    detail: str


class BadPlan(Exception):
    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{problem.path}: {problem.detail}" for problem in problems[:5]))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    path: str
    """Path under which the field is counted: `products.price`."""
    selector: Selector | None
    """Selector of the field; None for the container itself."""
    expression: Expression | None
    attribute: str | None
    is_html: bool
    is_list: bool
    pattern: Any
    convert: Convert | None
    default: Any
    is_required: bool


@dataclass(frozen=True, slots=True)
class Container:
    name: str
    path: str
    selector: Selector | None
    """Selector of the container; None if the page is the one record."""
    expression: Expression | None
    """Expression over JSON, in which case the fields are expressions, too."""
    script: Selector | None
    """Selector of the script in an HTML page that holds the JSON."""
    fields: tuple[Field, ...]
    nested: tuple[Container, ...]
    is_required: bool


@dataclass(frozen=True, slots=True)
class ExtractionPlan:
    source: bytes
    """Parameters in JSON, from which another process compiles the same plan."""
    flat: SelectorSet
    containers: tuple[Container, ...]
    page: frozenset[str]
    by_xpath: bool
    """Whether any selector is an XPath: then all are matched as XPath, on one DOM."""
    is_plain: bool
    """Whether small pages may be parsed in the process of other work."""
    descents: int
    has_json: bool
    """Whether records are extracted from pages that are JSON."""

    @property
    def is_empty(self) -> bool:
        return not (self.flat.selectors or self.containers or self.page)

    @property
    def is_only_page(self) -> bool:
        return not (self.flat.selectors or self.containers)


def compile_plan(parameters: Mapping[str, Any]) -> ExtractionPlan:
    """Compile the plan of a task. Raises BadPlan. Unknown parameters are ignored."""
    return compile_plan_source(
        msgspec.json.encode({name: parameters[name] for name in EXTRACTION if name in parameters})
    )


@lru_cache(maxsize=64)
def compile_plan_source(source: bytes) -> ExtractionPlan:
    parameters = msgspec.json.decode(source)
    # The schema that the submission was checked against may come from a node of another version.
    errors = _plan_validator().iter_errors(parameters)
    if problems := [Problem(_error_path(error), _shorten_message(error.message)) for error in errors]:
        raise BadPlan(problems)
    return _Compiler(parameters).compile_plan(source)


@cache
def _plan_validator() -> jsonschema_rs.Validator:
    properties = {"selectors": SELECTORS, "extract": EXTRACT, "page": PAGE}
    return jsonschema_rs.validator_for({"properties": properties, "$defs": DEFS})


def _shorten_message(message: str) -> str:
    """Shorten a message in its middle: it begins with the value, and ends with what is wrong with it."""
    return message if len(message) <= 300 else f"{message[:100]}...{message[-200:]}"


def _error_path(error: jsonschema_rs.ValidationError) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)[1:]


def find_plan_problems(parameters: Mapping[str, Any]) -> list[Problem]:
    """Return the problems that the schema cannot express, for the check at submission."""
    try:
        compile_plan(parameters)
    except BadPlan as exc:
        return exc.problems
    return []


class _Compiler:
    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters
        self._problems: list[Problem] = []
        self._selectors: list[Selector] = []
        self._field_count = 0
        self._by_xpath = any(is_xpath(text) for text in _iter_selectors(parameters))

    def compile_plan(self, source: bytes) -> ExtractionPlan:
        flat = [
            selector
            for name, text in self._parameters.get("selectors", {}).items()
            if (selector := self._compile_selector(name, text, f"selectors.{name}")) is not None
        ]
        containers = [
            self._compile_container(name, spec, name, f"extract.{name}", 1) for name, spec in self._iter_containers()
        ]
        page = frozenset(self._parameters.get("page", []))
        if page:
            for place in ("selectors.page", "extract.pages"):
                parameter, _, name = place.partition(".")
                if name in self._parameters.get(parameter, {}):
                    self._add_problem(place, "is the key of the pages themselves in the result (page)")
        if self._field_count > MAX_FIELDS:
            self._add_problem("extract", f"{self._field_count} fields; at most {MAX_FIELDS} are taken")
        if self._problems:
            raise BadPlan(self._problems)
        return ExtractionPlan(
            source=source,
            flat=SelectorSet(tuple(flat)),
            containers=tuple(containers),
            page=page,
            by_xpath=self._by_xpath,
            # The main text of a page takes twenty times as long as all the rest.
            is_plain=all(selector.is_plain for selector in self._selectors) and page.isdisjoint({"text", "markdown"}),
            descents=max((selector.descents for selector in self._selectors), default=0),
            has_json=any(container.expression is not None and container.script is None for container in containers),
        )

    def _iter_containers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for name, spec in self._parameters.get("extract", {}).items():
            if name in {f"{flat}s" for flat in self._parameters.get("selectors", {})}:
                self._add_problem(f"extract.{name}", "is the key of a selector in the result already")
            yield name, spec

    def _compile_container(self, name: str, spec: Mapping[str, Any], path: str, place: str, level: int) -> Container:
        is_json = "json" in spec
        if is_json and "container" in spec:
            self._add_problem(place, "has container and json: it is one of them")
        if level > 1 and not is_json and "container" not in spec:
            self._add_problem(place, "needs a container selector")
        if level > MAX_NESTING:
            self._add_problem(place, f"is nested more than {MAX_NESTING} deep")
            return Container(name, path, None, None, None, (), (), False)
        if "script" in spec and (not is_json or level > 1):
            self._add_problem(f"{place}.script", "is for a json container at the top: where in the page the JSON is")
        fields: list[Field] = []
        nested: list[Container] = []
        for inner, inner_spec in spec["fields"].items():
            self._field_count += 1
            inner_place, inner_path = f"{place}.fields.{inner}", f"{path}.{inner}"
            if isinstance(inner_spec, Mapping) and "fields" in inner_spec:
                if ("json" in inner_spec) != is_json:
                    self._add_problem(inner_place, "is inside of a container of the other kind (json)")
                nested.append(self._compile_container(inner, inner_spec, inner_path, inner_place, level + 1))
            else:
                fields.append(self._compile_field(inner, inner_spec, inner_path, inner_place, is_json))
        return Container(
            name,
            path,
            selector=self._compile_selector(name, spec["container"], f"{place}.container")
            if "container" in spec
            else None,
            expression=self._compile_expression(spec["json"], f"{place}.json") if is_json else None,
            script=self._compile_selector(name, spec["script"], f"{place}.script") if "script" in spec else None,
            fields=tuple(fields),
            nested=tuple(nested),
            is_required=bool(spec.get("required", False)),
        )

    def _compile_field(self, name: str, spec: Any, path: str, place: str, is_json: bool) -> Field:
        source_key = "json" if is_json else "selector"
        options: Mapping[str, Any] = {source_key: spec} if isinstance(spec, str) else spec
        kind = options.get("type", "text")
        for option in ("currency", "decimal", "day_first"):
            if option in options and option not in OPTIONS.get(kind, ()):
                self._add_problem(f"{place}.{option}", f"means nothing for type {kind}")
        if is_json:
            for option in ("selector", "attribute"):
                if option in options:
                    self._add_problem(f"{place}.{option}", "is for HTML, and the container is json")
            if "json" not in options:
                self._add_problem(place, "needs json: where the value is, a JMESPath expression")
        elif "json" in options:
            self._add_problem(f"{place}.json", "is for a container that is json")
        expression = (
            self._compile_expression(options["json"], f"{place}.json") if is_json and "json" in options else None
        )
        has_selector = not is_json and "selector" in options
        return Field(
            name,
            path,
            selector=self._compile_selector(name, options["selector"], f"{place}.selector", True)
            if has_selector
            else None,
            expression=expression,
            attribute=options.get("attribute", "").lower() or None,
            is_html=kind == "html",
            is_list=bool(options.get("all", False)),
            pattern=self._compile_pattern(options["regex"], f"{place}.regex") if "regex" in options else None,
            # Only text is converted; other values of JSON stay as they are.
            convert=make_converter(kind, options),
            default=options.get("default"),
            is_required=bool(options.get("required", False)),
        )

    def _compile_selector(self, name: str, text: str, place: str, is_inside: bool = False) -> Selector | None:
        try:
            selector = compile_selector(name, text, by_xpath=self._by_xpath, is_inside=is_inside)
        except BadSelector as exc:
            self._add_problem(place, str(exc))
            return None
        self._selectors.append(selector)
        return selector

    def _compile_expression(self, text: str, place: str) -> Expression | None:
        try:
            return parse_expression(text)
        except InvalidExpression as exc:
            self._add_problem(place, str(exc))
            return None

    def _compile_pattern(self, text: str, place: str) -> Any:
        re2_options = re2.Options()
        re2_options.log_errors = False
        re2_options.max_mem = PATTERN_BYTES
        try:
            return re2.compile(text, re2_options)
        except re2.error as exc:
            message = exc.args[0].decode(errors="replace") if exc.args and isinstance(exc.args[0], bytes) else str(exc)
            part = message.rpartition(": ")[2]
            position = f" at position {text.find(part)}" if part and part in text else ""
            self._add_problem(place, f"{text!r} is no pattern that takes linear time: {message}{position}")
            return None

    def _add_problem(self, path: str, detail: str) -> None:
        self._problems.append(Problem(path, detail))


def _iter_selectors(parameters: Mapping[str, Any]) -> Iterator[str]:
    yield from parameters.get("selectors", {}).values()
    pending = list(parameters.get("extract", {}).values())
    while pending:
        spec = pending.pop()
        if isinstance(spec, Mapping):
            yield from (spec[key] for key in ("container", "script", "selector") if key in spec)
            is_json = "json" in spec
            inner = spec.get("fields", {}).values()
            # A field in short form is a selector, or, where the container is JSON, an expression.
            yield from (field_spec for field_spec in inner if isinstance(field_spec, str) and not is_json)
            pending.extend(field_spec for field_spec in inner if isinstance(field_spec, Mapping))
