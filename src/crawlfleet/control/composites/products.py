"""Products: writes what executions saw of them, and answers executions and people about their changes."""

from __future__ import annotations

from crawlfleet.control.results.result_collection import Speaker, StaleExecution
from crawlfleet.control.tasks.finish import is_storable
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.ids import execution_text, task_text
from crawlfleet.model.product import (
    ChangeKind,
    ProductChange,
    ProductKey,
    ProductRecord,
    SyncCounts,
    product_text,
)
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.composite_store import ProductBatch, ProductFilter
from crawlfleet.ports.record_page import RecordPage
from crawlfleet.ports.store import CompositeStore
from crawlfleet.wire.products import ANSWER_PRODUCTS, ProductsUp, ReportUp, UnseenUp, product_from_body

_KINDS = {kind.word: kind for kind in (ChangeKind.NEW, ChangeKind.CHANGED, ChangeKind.GONE)}


class Products:
    def __init__(self, *, store: CompositeStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def put_products(self, speaker: Speaker, up: ProductsUp) -> None:
        """Write the products of an execution. Raises StaleExecution, and InvalidInput that names the wrong product:
        then none is written."""
        products = []
        for index, body in enumerate(up.products):
            try:
                products.append(product_from_body(body))
            except ValueError as exc:
                field, _, detail = str(exc).partition(": ")
                raise InvalidInput(detail, field=f"products[{index}].{field}") from exc
        if not is_storable(speaker.task, speaker.execution):
            raise _stale_error(speaker)
        if not await self._store.put_products(ProductBatch(*speaker, products), self._clock.now()):
            raise _stale_error(speaker)

    async def list_unseen(self, speaker: Speaker, up: UnseenUp) -> list[ProductRecord]:
        project = await self._find_project(speaker)
        return await self._store.unseen_products(project, up.shop, up.since, up.after, ANSWER_PRODUCTS)

    async def get_sync_report(self, speaker: Speaker, up: ReportUp) -> tuple[SyncCounts, list[ProductRecord]]:
        if up.kind and up.kind not in _KINDS:
            raise InvalidInput(f"one of {', '.join(_KINDS)}", field="kind")
        project = await self._find_project(speaker)
        counts = await self._store.sync_counts(project, up.shop, up.since)
        if not up.kind:
            return counts, []
        kind = _KINDS[up.kind]
        return counts, await self._store.synced_products(project, up.shop, up.since, kind, up.after, ANSWER_PRODUCTS)

    async def list_products(
        self, where: ProductFilter, limit: int, after: ProductKey | None
    ) -> RecordPage[ProductRecord]:
        return await self._store.list_products(where, limit, after)

    async def get_product(self, key: ProductKey) -> tuple[ProductRecord, list[ProductChange]]:
        record = await self._store.find_product(key)
        if record is None:
            raise NotFound(f"no product {product_text(key)}")
        return record, await self._store.product_changes(key)

    async def _find_project(self, speaker: Speaker) -> str:
        """Return the project of the execution, whose products it may query."""
        rows = await self._store.live_tasks([speaker.task]) if is_storable(speaker.task, speaker.execution) else {}
        row = rows.get(speaker.task)
        if row is None or (row.node, row.execution) != (speaker.node, speaker.execution):
            raise _stale_error(speaker)
        record = (await self._store.load_tasks([speaker.task])).get(speaker.task)
        if record is None:
            raise _stale_error(speaker)
        return record.project


def _stale_error(speaker: Speaker) -> StaleExecution:
    what = f"{execution_text(speaker.execution)} of {task_text(speaker.task)}"
    return StaleExecution(f"{what} is not a live execution of this node")
