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

from crawlfleet.execution.crawl.parse.extract.limits import FIELDS_MOST, NESTING_MOST
from crawlfleet.execution.crawl.parse.extract.selectors import BadSelector, Selector, SelectorSet, is_xpath, made
from crawlfleet.execution.crawl.parse.extract.values import OPTIONS, Convert, converter
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


def plan_of(parameters: Mapping[str, Any]) -> ExtractionPlan:
    """Compile the plan of a task. Raises BadPlan. Unknown parameters are ignored."""
    return compiled(msgspec.json.encode({name: parameters[name] for name in EXTRACTION if name in parameters}))


@lru_cache(maxsize=64)
def compiled(source: bytes) -> ExtractionPlan:
    asked = msgspec.json.decode(source)
    # The schema that the submission was checked against may come from a node of another version.
    if wrong := [Problem(_path(error), _said(error.message)) for error in _shape().iter_errors(asked)]:
        raise BadPlan(wrong)
    return _Compiler(asked).plan(source)


@cache
def _shape() -> jsonschema_rs.Validator:
    properties = {"selectors": SELECTORS, "extract": EXTRACT, "page": PAGE}
    return jsonschema_rs.validator_for({"properties": properties, "$defs": DEFS})


def _said(message: str) -> str:
    """Shorten a message in its middle: it begins with the value, and ends with what is wrong with it."""
    return message if len(message) <= 300 else f"{message[:100]}...{message[-200:]}"


def _path(error: jsonschema_rs.ValidationError) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)[1:]


def problems_of(parameters: Mapping[str, Any]) -> list[Problem]:
    """Return the problems that the schema cannot express, for the check at submission."""
    try:
        plan_of(parameters)
    except BadPlan as exc:
        return exc.problems
    return []


class _Compiler:
    def __init__(self, asked: Mapping[str, Any]) -> None:
        self._asked = asked
        self._problems: list[Problem] = []
        self._selectors: list[Selector] = []
        self._fields = 0
        self._by_xpath = any(is_xpath(text) for text in _selectors_in(asked))

    def plan(self, source: bytes) -> ExtractionPlan:
        flat = [
            selector
            for name, text in self._asked.get("selectors", {}).items()
            if (selector := self._selector(name, text, f"selectors.{name}")) is not None
        ]
        containers = [self._container(name, asked, name, f"extract.{name}", 1) for name, asked in self._extract()]
        page = frozenset(self._asked.get("page", []))
        if page:
            for at in ("selectors.page", "extract.pages"):
                parameter, _, name = at.partition(".")
                if name in self._asked.get(parameter, {}):
                    self._wrong(at, "is the key of the pages themselves in the result (page)")
        if self._fields > FIELDS_MOST:
            self._wrong("extract", f"{self._fields} fields; at most {FIELDS_MOST} are taken")
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
            has_json=any(one.expression is not None and one.script is None for one in containers),
        )

    def _extract(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for name, asked in self._asked.get("extract", {}).items():
            if name in {f"{flat}s" for flat in self._asked.get("selectors", {})}:
                self._wrong(f"extract.{name}", "is the key of a selector in the result already")
            yield name, asked

    def _container(self, name: str, asked: Mapping[str, Any], path: str, at: str, level: int) -> Container:
        is_json = "json" in asked
        if is_json and "container" in asked:
            self._wrong(at, "has container and json: it is one of them")
        if level > 1 and not is_json and "container" not in asked:
            self._wrong(at, "needs a container selector")
        if level > NESTING_MOST:
            self._wrong(at, f"is nested more than {NESTING_MOST} deep")
            return Container(name, path, None, None, None, (), (), False)
        if "script" in asked and (not is_json or level > 1):
            self._wrong(f"{at}.script", "is for a json container at the top: where in the page the JSON is")
        fields: list[Field] = []
        nested: list[Container] = []
        for inner, inner_spec in asked["fields"].items():
            self._fields += 1
            inner_place, inner_path = f"{at}.fields.{inner}", f"{path}.{inner}"
            if isinstance(inner_spec, Mapping) and "fields" in inner_spec:
                if ("json" in inner_spec) != is_json:
                    self._wrong(inner_place, "is inside of a container of the other kind (json)")
                nested.append(self._container(inner, inner_spec, inner_path, inner_place, level + 1))
            else:
                fields.append(self._field(inner, inner_spec, inner_path, inner_place, is_json))
        return Container(
            name,
            path,
            selector=self._selector(name, asked["container"], f"{at}.container") if "container" in asked else None,
            expression=self._expression(asked["json"], f"{at}.json") if is_json else None,
            script=self._selector(name, asked["script"], f"{at}.script") if "script" in asked else None,
            fields=tuple(fields),
            nested=tuple(nested),
            is_required=bool(asked.get("required", False)),
        )

    def _field(self, name: str, spec: Any, path: str, at: str, is_json: bool) -> Field:
        way = "json" if is_json else "selector"
        asked: Mapping[str, Any] = {way: spec} if isinstance(spec, str) else spec
        kind = asked.get("type", "text")
        for option in ("currency", "decimal", "day_first"):
            if option in asked and option not in OPTIONS.get(kind, ()):
                self._wrong(f"{at}.{option}", f"means nothing for type {kind}")
        if is_json:
            for option in ("selector", "attribute"):
                if option in asked:
                    self._wrong(f"{at}.{option}", "is for HTML, and the container is json")
            if "json" not in asked:
                self._wrong(at, "needs json: where the value is, a JMESPath expression")
        elif "json" in asked:
            self._wrong(f"{at}.json", "is for a container that is json")
        expression = self._expression(asked["json"], f"{at}.json") if is_json and "json" in asked else None
        has_selector = not is_json and "selector" in asked
        return Field(
            name,
            path,
            selector=self._selector(name, asked["selector"], f"{at}.selector", True) if has_selector else None,
            expression=expression,
            attribute=asked.get("attribute", "").lower() or None,
            is_html=kind == "html",
            is_list=bool(asked.get("all", False)),
            pattern=self._pattern(asked["regex"], f"{at}.regex") if "regex" in asked else None,
            # Only text is converted; other values of JSON stay as they are.
            convert=converter(kind, asked),
            default=asked.get("default"),
            is_required=bool(asked.get("required", False)),
        )

    def _selector(self, name: str, text: str, at: str, is_inside: bool = False) -> Selector | None:
        try:
            selector = made(name, text, by_xpath=self._by_xpath, is_inside=is_inside)
        except BadSelector as exc:
            self._wrong(at, str(exc))
            return None
        self._selectors.append(selector)
        return selector

    def _expression(self, text: str, at: str) -> Expression | None:
        try:
            return parse_expression(text)
        except InvalidExpression as exc:
            self._wrong(at, str(exc))
            return None

    def _pattern(self, text: str, at: str) -> Any:
        options = re2.Options()
        options.log_errors = False
        options.max_mem = PATTERN_BYTES
        try:
            return re2.compile(text, options)
        except re2.error as exc:
            said = exc.args[0].decode(errors="replace") if exc.args and isinstance(exc.args[0], bytes) else str(exc)
            part = said.rpartition(": ")[2]
            where = f" at position {text.find(part)}" if part and part in text else ""
            self._wrong(at, f"{text!r} is no pattern that takes linear time: {said}{where}")
            return None

    def _wrong(self, path: str, detail: str) -> None:
        self._problems.append(Problem(path, detail))


def _selectors_in(asked: Mapping[str, Any]) -> Iterator[str]:
    yield from asked.get("selectors", {}).values()
    level = list(asked.get("extract", {}).values())
    while level:
        spec = level.pop()
        if isinstance(spec, Mapping):
            yield from (spec[key] for key in ("container", "script", "selector") if key in spec)
            is_json = "json" in spec
            inner = spec.get("fields", {}).values()
            # A field in short form is a selector, or, where the container is JSON, an expression.
            yield from (one for one in inner if isinstance(one, str) and not is_json)
            level.extend(one for one in inner if isinstance(one, Mapping))
