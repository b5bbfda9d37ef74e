"""Records: containers with fields are extracted from the DOM of a page.

Every CSS selector runs once over the whole page, and each match belongs to the nearest container around it (or that it
is). Where there is only one container, a simple selector is matched only inside of it. An XPath is evaluated on every
container, as it may look anywhere from there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from crawlfleet.execution.crawl.parse.extract.dates import Ambiguous
from crawlfleet.execution.crawl.parse.extract.dom import Dom, NearestElements, tidy_text
from crawlfleet.execution.crawl.parse.extract.extraction_plan import Container, Field
from crawlfleet.execution.crawl.parse.extract.field_counts import (
    AMBIGUOUS,
    DROPPED,
    FILLED,
    MATCHES,
    RECORDS,
    TYPE_ERRORS,
    FieldCounts,
    path_counts,
)

MAX_RECORDS = 10_000
"""Limit on records of one container on one page."""
MAX_VALUES = 1_000
"""Limit on values of one field of a record."""
AMBIGUITIES = "_ambiguous"
_WHOLE_PAGE: Hashable = object()

Record = dict[str, Any]


def extract_records(dom: Dom, container: Container, base: str, counts: FieldCounts) -> list[Record]:
    return [record for _, record in _RecordExtraction(dom, base, counts).extract_container(container)]


class _RecordExtraction:
    def __init__(self, dom: Dom, base: str, counts: FieldCounts) -> None:
        self._dom = dom
        self._base = base
        self._counts = counts

    def extract_container(self, container: Container) -> Iterator[tuple[Any, Record]]:
        """Yield each record with its element, None for the page."""
        dom = self._dom
        elements: dict[Hashable, Any] = {_WHOLE_PAGE: None}
        if container.selector is not None:
            matches = [match for match in dom.select_matches(container.selector) if not isinstance(match, str)]
            elements = {dom.element_key(element): element for element in matches[:MAX_RECORDS]}
        container_counts = path_counts(self._counts, container.path)
        container_counts[MATCHES] += len(elements)
        records: dict[Hashable, Record] = {key: {} for key in elements}
        nearest = NearestElements(dom, elements)
        for field in container.fields:
            field_counts = path_counts(self._counts, field.path)
            # Without a container there are no values: most pages of a site have none, and their fields are not matched.
            values = self._field_values(field, elements, nearest, field_counts) if elements else {}
            fill_field(field, records.items(), values, self._base, field_counts)
        for inner in container.nested:
            self._add_nested(inner, records, nearest)
        complete = [(elements[key], record) for key, record in records.items() if is_complete(container, record)]
        container_counts[RECORDS] += len(records)
        container_counts[FILLED] += len(complete)
        container_counts[DROPPED] += len(records) - len(complete)
        yield from complete

    def _add_nested(self, inner: Container, records: dict[Hashable, Record], nearest: NearestElements) -> None:
        for record in records.values():
            record[inner.name] = []
        for element, record in self.extract_container(inner):
            owner = self._record_key(nearest, self._dom.parent_element(element), records)
            if owner is not None and len(records[owner][inner.name]) < MAX_VALUES:
                records[owner][inner.name].append(record)

    def _field_values(
        self, field: Field, elements: dict[Hashable, Any], nearest: NearestElements, field_counts: list[int]
    ) -> dict[Hashable, list[str]]:
        values: dict[Hashable, list[str]] = {}
        max_values = MAX_VALUES if field.is_list else 1
        match_count = 0
        for owner, match in self._field_matches(field, elements, nearest):
            match_count += 1
            texts = values.get(owner)
            if texts is None:
                texts = values[owner] = []
            if len(texts) < max_values and (text := self._match_text(field, match)) is not None:
                texts.append(text)
        field_counts[MATCHES] += match_count
        return values

    def _field_matches(
        self, field: Field, elements: dict[Hashable, Any], nearest: NearestElements
    ) -> Iterable[tuple[Hashable, Any]]:
        dom, selector = self._dom, field.selector
        if selector is None:
            top = dom.select_first("html")
            return [(key, top if element is None else element) for key, element in elements.items()]
        if selector.is_xpath:
            return ((key, match) for key, element in elements.items() for match in dom.select_in(selector, element))
        if len(elements) == 1 and selector.is_simple:
            ((key, element),) = elements.items()
            return [(key, match) for match in dom.select_in(selector, element)]
        matches = dom.select_matches(selector)
        if _WHOLE_PAGE in elements:
            return [(_WHOLE_PAGE, match) for match in matches]
        nearest_key = nearest.nearest_key
        return [(owner, match) for match in matches if (owner := nearest_key(match)) is not None]

    def _match_text(self, field: Field, match: Any) -> str | None:
        if isinstance(match, str):
            return tidy_text(match)
        if field.attribute is not None:
            value = self._dom.get_attribute(match, field.attribute)
            return None if value is None else tidy_text(value)
        if field.is_html:
            return self._dom.element_html(match).replace("\0", "")
        return tidy_text(self._dom.raw_text(match))

    @staticmethod
    def _record_key(nearest: NearestElements, element: Any, records: dict[Hashable, Record]) -> Hashable | None:
        return _WHOLE_PAGE if _WHOLE_PAGE in records else nearest.nearest_key(element)


def fill_field(
    field: Field,
    records: Iterable[tuple[Hashable, Record]],
    values: Mapping[Hashable, list[Any]],
    base: str,
    field_counts: list[int],
) -> None:
    """Set a field of each record to its converted values, and count the results."""
    for key, record in records:
        field_counts[RECORDS] += 1
        converted = []
        for raw in values.get(key, ()):
            value = _convert_value(field, raw, base)
            if value is None:
                field_counts[TYPE_ERRORS] += 1
            elif value != "":
                converted.append(value)
        if not converted:
            record[field.name] = field.default if field.default is not None or not field.is_list else []
            continue
        field_counts[FILLED] += 1
        record[field.name] = converted if field.is_list else converted[0]
        # Only values with a type can be ambiguous.
        if field.convert is not None and any(isinstance(value, Ambiguous) for value in converted):
            field_counts[AMBIGUOUS] += 1
            record.setdefault(AMBIGUITIES, []).append(field.name)
            record[field.name] = [str(value) for value in converted] if field.is_list else str(converted[0])


def is_complete(container: Container, record: Record) -> bool:
    for field in container.fields:
        if field.is_required and record[field.name] in (None, []):
            return False
    return not any(inner.is_required and not record[inner.name] for inner in container.nested)


def _convert_value(field: Field, raw: Any, base: str) -> Any:
    """Return the converted value; None for one that is not of the type, an empty text for one that is absent."""
    if not isinstance(raw, str):
        return raw
    if field.pattern is not None:
        match = field.pattern.search(raw)
        if match is None:
            return ""
        raw = next((group for group in match.groups() if group is not None), match.group())
    if not raw or field.convert is None:
        return raw
    return field.convert(raw, base)
