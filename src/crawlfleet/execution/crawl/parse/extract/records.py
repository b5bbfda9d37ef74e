"""Records: containers with fields are extracted from the DOM of a page.

Every CSS selector runs once over the whole page, and each match belongs to the nearest container around it (or that it
is). Where there is only one container, a simple selector is matched only inside of it. An XPath is evaluated on every
container, as it may look anywhere from there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from crawlfleet.execution.crawl.parse.extract.dates import Ambiguous
from crawlfleet.execution.crawl.parse.extract.dom import Nearest, Tree, tidy
from crawlfleet.execution.crawl.parse.extract.extraction_plan import Container, Field
from crawlfleet.execution.crawl.parse.extract.field_counts import (
    AMBIGUOUS,
    DROPPED,
    FILLED,
    MATCHES,
    RECORDS,
    TYPE_ERRORS,
    Columns,
    column,
)

RECORDS_MOST = 10_000
"""Limit on records of one container on one page."""
LIST_MOST = 1_000
"""Limit on values of one field of a record."""
AMBIGUITIES = "_ambiguous"
_WHOLE_PAGE: Hashable = object()

Record = dict[str, Any]


def records(tree: Tree, container: Container, base: str, counts: Columns) -> list[Record]:
    return [record for _, record in _Reading(tree, base, counts).read(container)]


class _Reading:
    def __init__(self, tree: Tree, base: str, counts: Columns) -> None:
        self._tree = tree
        self._base = base
        self._counts = counts

    def read(self, container: Container) -> Iterator[tuple[Any, Record]]:
        """Yield each record with its element, None for the page."""
        tree = self._tree
        elements: dict[Hashable, Any] = {_WHOLE_PAGE: None}
        if container.selector is not None:
            found = [match for match in tree.select(container.selector) if not isinstance(match, str)]
            elements = {tree.key(element): element for element in found[:RECORDS_MOST]}
        counted = column(self._counts, container.path)
        counted[MATCHES] += len(elements)
        made: dict[Hashable, Record] = {key: {} for key in elements}
        nearest = Nearest(tree, elements)
        for field in container.fields:
            counted_field = column(self._counts, field.path)
            # Without a container there are no values: most pages of a site have none, and their fields are not matched.
            values = self._values(field, elements, nearest, counted_field) if elements else {}
            fill(field, made.items(), values, self._base, counted_field)
        for inner in container.nested:
            self._nest(inner, made, nearest)
        kept = [(elements[key], record) for key, record in made.items() if is_complete(container, record)]
        counted[RECORDS] += len(made)
        counted[FILLED] += len(kept)
        counted[DROPPED] += len(made) - len(kept)
        yield from kept

    def _nest(self, inner: Container, made: dict[Hashable, Record], nearest: Nearest) -> None:
        for record in made.values():
            record[inner.name] = []
        for element, record in self.read(inner):
            owner = self._owner(nearest, self._tree.parent(element), made)
            if owner is not None and len(made[owner][inner.name]) < LIST_MOST:
                made[owner][inner.name].append(record)

    def _values(
        self, field: Field, elements: dict[Hashable, Any], nearest: Nearest, counted: list[int]
    ) -> dict[Hashable, list[str]]:
        values: dict[Hashable, list[str]] = {}
        most = LIST_MOST if field.is_list else 1
        found = 0
        for owner, match in self._matches(field, elements, nearest):
            found += 1
            its = values.get(owner)
            if its is None:
                its = values[owner] = []
            if len(its) < most and (text := self._text(field, match)) is not None:
                its.append(text)
        counted[MATCHES] += found
        return values

    def _matches(self, field: Field, elements: dict[Hashable, Any], nearest: Nearest) -> Iterable[tuple[Hashable, Any]]:
        tree, selector = self._tree, field.selector
        if selector is None:
            top = tree.first("html")
            return [(key, top if element is None else element) for key, element in elements.items()]
        if selector.is_xpath:
            return ((key, match) for key, element in elements.items() for match in tree.select_in(selector, element))
        if len(elements) == 1 and selector.is_simple:
            ((key, element),) = elements.items()
            return [(key, match) for match in tree.select_in(selector, element)]
        found = tree.select(selector)
        if _WHOLE_PAGE in elements:
            return [(_WHOLE_PAGE, match) for match in found]
        of = nearest.key
        return [(owner, match) for match in found if (owner := of(match)) is not None]

    def _text(self, field: Field, match: Any) -> str | None:
        if isinstance(match, str):
            return tidy(match)
        if field.attribute is not None:
            found = self._tree.attribute(match, field.attribute)
            return None if found is None else tidy(found)
        if field.is_html:
            return self._tree.html(match).replace("\0", "")
        return tidy(self._tree.raw_text(match))

    @staticmethod
    def _owner(nearest: Nearest, element: Any, made: dict[Hashable, Record]) -> Hashable | None:
        return _WHOLE_PAGE if _WHOLE_PAGE in made else nearest.key(element)


def fill(
    field: Field,
    made: Iterable[tuple[Hashable, Record]],
    values: Mapping[Hashable, list[Any]],
    base: str,
    counted: list[int],
) -> None:
    """Set a field of each record to its converted values, and count the results."""
    for key, record in made:
        counted[RECORDS] += 1
        converted = []
        for raw in values.get(key, ()):
            value = _value(field, raw, base)
            if value is None:
                counted[TYPE_ERRORS] += 1
            elif value != "":
                converted.append(value)
        if not converted:
            record[field.name] = field.default if field.default is not None or not field.is_list else []
            continue
        counted[FILLED] += 1
        record[field.name] = converted if field.is_list else converted[0]
        # Only values with a type can be ambiguous.
        if field.convert is not None and any(isinstance(value, Ambiguous) for value in converted):
            counted[AMBIGUOUS] += 1
            record.setdefault(AMBIGUITIES, []).append(field.name)
            record[field.name] = [str(value) for value in converted] if field.is_list else str(converted[0])


def is_complete(container: Container, record: Record) -> bool:
    for field in container.fields:
        if field.is_required and record[field.name] in (None, []):
            return False
    return not any(inner.is_required and not record[inner.name] for inner in container.nested)


def _value(field: Field, raw: Any, base: str) -> Any:
    """Return the converted value; None for one that is not of the type, an empty text for one that is absent."""
    if not isinstance(raw, str):
        return raw
    if field.pattern is not None:
        found = field.pattern.search(raw)
        if found is None:
            return ""
        raw = next((group for group in found.groups() if group is not None), found.group())
    if not raw or field.convert is None:
        return raw
    return field.convert(raw, base)
