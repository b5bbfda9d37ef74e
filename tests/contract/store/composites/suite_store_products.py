"""Products: a set per project and shop, upserted by id, written only by executions that live or are just accepted."""

import asyncio
from typing import Any
from unittest.mock import patch

from crawlfleet.model.execution import End, Failure
from crawlfleet.model.product import (
    CHANGES_KEPT,
    ChangeKind,
    Product,
    ProductRecord,
    SyncCounts,
    product_key,
)
from crawlfleet.model.status import ErrorClass, TaskStatus
from crawlfleet.ports.composite_store import ProductBatch, ProductFilter
from crawlfleet.ports.store import Store
from testkit.factories import PROJECT, Kit, Run

SHOP = "shop.test"
DAY_MS = 86_400_000
EVER_MS = 1_000 * DAY_MS
ROUNDS = 10


async def products_come_with_the_outcome_that_is_taken(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    seen = [_product("1", attributes={"brand": "Añil", "images": ["a", "b"]}), _product("2", price=None)]
    applied = await store.complete_executions([kit.outcome(run)._replace(products=seen)], kit.later())
    assert applied.after == {run.task: TaskStatus.COMPLETED}
    one = await _known(kit, "1")
    assert one is not None
    assert (one.product, one.project, one.execution) == (seen[0], PROJECT, run.execution)
    assert (one.first_seen_at, one.listed_at, one.changed_at, one.seen_at, one.gone_at) == (*[kit.now] * 4, None)
    assert [change.kind for change in await kit.second.product_changes(one.key)] == [ChangeKind.NEW]
    assert await _ids(kit) == {"1", "2"}


async def products_of_outcomes_that_are_not_taken_are_not_written(store: Store, kit: Kit) -> None:
    node = await kit.node()
    lost, failed, good = [await kit.run_one(node) for _ in range(3)]
    stale = kit.outcome(lost)._replace(execution=lost.execution + 1, products=[_product("1")])
    broken = kit.outcome(failed, End.FAILED, Failure(ErrorClass.INPUT, "no"))._replace(products=[_product("2")])
    await kit.finish_with(broken)
    applied = await store.complete_executions([stale, kit.outcome(good)._replace(products=[_product("3")])], kit.now)
    assert list(applied.refused) == [lost.task]
    assert await _ids(kit) == {"3"}


async def an_outcome_said_twice_writes_once(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    outcome = kit.outcome(run)._replace(products=[_product("1")])
    await store.complete_executions([outcome], kit.now)
    kit.later()
    async with kit.unchanged():
        assert (await store.complete_executions([outcome], kit.now)).refused


async def outcomes_without_products_cost_nothing(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    with patch("crawlfleet.store.tasks.live_tasks.put_products", side_effect=AssertionError("asked for nothing")):
        assert (await kit.complete(run)).after == {run.task: TaskStatus.COMPLETED}


async def a_live_execution_writes_batches(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    assert await _put(kit, run, _product("1"), _product("2"))
    assert await _put(kit, run, _product("2"), _product("3"))
    assert await _ids(kit) == {"1", "2", "3"}
    assert len(await kit.second.product_changes(_key("2"))) == 1


async def one_that_is_not_live_writes_nothing(store: Store, kit: Kit) -> None:
    run, other = [await kit.run_one(await kit.node()) for _ in range(2)]
    await kit.end(run.node)
    async with kit.unchanged():
        assert not await _put(kit, run, _product("1"))
        assert not await _put(kit, other._replace(execution=other.execution + 1), _product("1"))
        assert not await _put(kit, other._replace(node=run.node), _product("1"))
    assert await _put(kit, other, _product("1"))


async def a_look_says_what_has_changed(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await _put(kit, run, _product("1", attributes={"rating": "4.1", "color": "red"}))
    first = kit.now
    kit.later()
    await _put(kit, run, _product("1", url="http://shop.test/new", attributes={"rating": "4.2", "color": "red"}))
    one = await _known(kit, "1")
    assert one is not None
    assert (one.first_seen_at, one.changed_at, one.seen_at, one.changes) == (first, first, kit.now, 1)
    assert (one.product.url, one.product.attributes["rating"]) == ("http://shop.test/new", "4.2")
    kit.later()
    await _put(kit, run, _product("1", price="6", attributes={"color": "blue"}))
    one = await _known(kit, "1")
    assert one is not None
    assert (one.product.price, one.changed_at, one.changes) == ("6", kit.now, 2)
    changed, _ = await kit.second.product_changes(one.key)
    assert (changed.kind, changed.fields) == (ChangeKind.CHANGED, {"price": ["5", "6"], "color": ["red", "blue"]})


async def a_product_goes_and_comes_back(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await _put(kit, run, _product("1"))
    gone = _product("1")._replace(is_gone=True, title="", price=None)
    kit.later()
    await _put(kit, run, gone, gone._replace(id="nobody's"))
    one = await _known(kit, "1")
    assert one is not None
    assert (one.gone_at, one.product.title, one.product.price) == (kit.now, "Pot", "5")
    assert await _ids(kit) == {"1"}
    kit.later()
    async with kit.unchanged():
        await _put(kit, run, gone)
    await _put(kit, run, _product("1"))
    one = await _known(kit, "1")
    assert one is not None
    assert (one.gone_at, one.listed_at) == (None, kit.now)
    kinds = [change.kind for change in await kit.second.product_changes(one.key)]
    assert kinds == [ChangeKind.BACK, ChangeKind.GONE, ChangeKind.NEW]


async def only_so_many_changes_are_kept(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    for price in range(CHANGES_KEPT + 5):
        await _put(kit, run, _product("1", price=str(price)), _product("2"))
    changes = await kit.second.product_changes(_key("1"))
    assert [change.number for change in changes] == list(range(CHANGES_KEPT + 5, 5, -1))
    assert len(await kit.second.product_changes(_key("2"))) == 1


async def projects_and_shops_have_their_own(store: Store, kit: Kit) -> None:
    node = await kit.node()
    ours, theirs = await kit.run_one(node), await kit.run_one(node, lane=await kit.known_lane(project="other"))
    await _put(kit, ours, _product("1"), _product("1", shop="elsewhere.test"))
    await _put(kit, theirs, _product("1", price="7"))
    found = await kit.second.list_products(ProductFilter(product_id="1"), 10)
    assert {(one.project, one.product.shop, one.product.price) for one in found} == {
        (PROJECT, SHOP, "5"),
        (PROJECT, "elsewhere.test", "5"),
        ("other", SHOP, "7"),
    }
    assert len(await kit.second.list_products(ProductFilter(project="other"), 10)) == 1
    assert len(await kit.second.list_products(ProductFilter(shop=SHOP), 10)) == 2


async def lists_are_filtered_and_paged(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await _put(kit, run, *(_product(str(at)) for at in range(7)))
    since = kit.later()
    await _put(kit, run, _product("0"), _product("1", price="9"), _product("2")._replace(is_gone=True))
    all_of_them = await kit.second.list_products(ProductFilter(), 100)
    assert [one.key for one in all_of_them] == sorted(_key(str(at)) for at in range(7))
    first = await kit.second.list_products(ProductFilter(), 3)
    assert await kit.second.list_products(ProductFilter(), 100, first[-1].key) == all_of_them[3:]
    assert await _ids(kit, changed_since=since) == {"1", "2"}
    assert await _ids(kit, is_gone=True) == {"2"}
    assert len(await _ids(kit, is_gone=False)) == 6
    assert await kit.second.find_product(1) is None


async def a_sync_compares_two_sets(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    assert await kit.second.sync_counts(PROJECT, SHOP, kit.now) == SyncCounts()
    await _put(kit, run, *(_product(str(at)) for at in range(6)), _product("9", shop="elsewhere.test"))
    await _put(kit, run, _gone("5"))
    since = kit.later()
    await _put(kit, run, _product("0"), _product("1", price="9"), _gone("2"), _product("new"), _product("5"))
    await _put(kit, run, _product("short"))
    await _put(kit, run, _gone("short"), _product("1", price="10"))
    counts = await kit.second.sync_counts(PROJECT, SHOP, since)
    # What was gone before is new again; what came and went in between is neither.
    assert counts == SyncCounts(new=2, changed=1, gone=1, unchanged=1, unsure=2)
    for kind, ids in ((ChangeKind.NEW, {"new", "5"}), (ChangeKind.CHANGED, {"1"}), (ChangeKind.GONE, {"2"})):
        found = await kit.second.synced_products(PROJECT, SHOP, since, kind, 0, 10)
        assert {one.product.id for one in found} == ids
    unseen = await kit.second.unseen_products(PROJECT, SHOP, since, 0, 10)
    assert {one.product.id for one in unseen} == {"3", "4"}
    assert await kit.second.unseen_products(PROJECT, SHOP, since, unseen[-1].key, 10) == []
    assert await kit.second.unseen_products("other", SHOP, since, 0, 10) == []


async def many_see_the_same_products_at_once(store: Store, kit: Kit) -> None:
    node = await kit.node()
    runs = [await kit.run_one(node) for _ in range(6)]
    ids = [str(at) for at in range(30)]
    writers = [kit.store, kit.second]
    await asyncio.gather(
        *(
            writers[at % 2].put_products(
                ProductBatch(run.node.id, run.task, run.execution, [_product(one) for one in (ids, ids[::-1])[at % 2]]),
                kit.now,
            )
            for at, run in enumerate(runs)
        )
    )
    assert await _ids(kit) == set(ids)
    for one in ids:
        assert [change.kind for change in await kit.second.product_changes(_key(one))] == [ChangeKind.NEW]


async def products_gone_for_long_go_with_their_changes_a_few_at_a_time(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await _put(kit, run, *(_product(one) for one in ("old 1", "old 2", "old 3", "back", "young", "there")))
    await _put(kit, run, *(_gone(one) for one in ("old 1", "old 2", "old 3", "back")))
    kit.later(DAY_MS)
    await _put(kit, run, _gone("young"), _product("back"))
    kit.later(DAY_MS)
    term = await kit.term()

    async def prune(keep_ms: int | None) -> int:
        kept = await store.prune_rows(term, kit.now, EVER_MS, EVER_MS, 2, keep_gone_ms=keep_ms)
        return kept.rows

    async with kit.unchanged():
        assert [await prune(None), await prune(2 * DAY_MS)] == [0, 0]
    assert [await prune(2 * DAY_MS - 1) for _ in range(3)] == [2, 1, 0]
    assert await _ids(kit) == {"back", "young", "there"}
    assert await kit.second.product_changes(_key("old 1")) == []
    assert len(await kit.second.product_changes(_key("back"))) == 3
    # One that comes back after that is new.
    await _put(kit, run, _product("old 1"))
    assert [change.kind for change in await kit.second.product_changes(_key("old 1"))] == [ChangeKind.NEW]


async def a_product_that_comes_back_at_the_moment_it_would_go_is_there(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    ids = [str(at) for at in range(20)]
    term = await kit.term()
    for _ in range(ROUNDS):
        await _put(kit, run, *map(_product, ids))
        await _put(kit, run, *map(_gone, ids))
        kit.later(DAY_MS)
        batch = ProductBatch(run.node.id, run.task, run.execution, [_product(one) for one in kit.rng.sample(ids, 20)])
        calls = [
            store.prune_rows(term, kit.now, EVER_MS, EVER_MS, 15, keep_gone_ms=1),
            kit.second.put_products(batch, kit.now),
        ]
        await asyncio.gather(*kit.rng.sample(calls, len(calls)))
        assert await _ids(kit, is_gone=False) == set(ids)
        for one in ids:
            changes = await kit.second.product_changes(_key(one))
            record = await _known(kit, one)
            assert record is not None and len(changes) == min(record.changes, CHANGES_KEPT)


def _product(product_id: str, shop: str = SHOP, price: str | None = "5", **more: Any) -> Product:
    said = {"url": f"http://{shop}/{product_id}", "title": "Pot", "currency": "EUR", "availability": "in_stock"} | more
    return Product(shop, product_id, price=price, **said)


def _gone(product_id: str) -> Product:
    return _product(product_id)._replace(is_gone=True)


def _key(product_id: str) -> int:
    return product_key(PROJECT, SHOP, product_id)


async def _put(kit: Kit, run: Run, *products: Product) -> bool:
    return await kit.store.put_products(ProductBatch(run.node.id, run.task, run.execution, products), kit.now)


async def _known(kit: Kit, product_id: str) -> ProductRecord | None:
    return await kit.second.find_product(_key(product_id))


async def _ids(kit: Kit, **where: Any) -> set[str]:
    return {one.product.id for one in await kit.second.list_products(ProductFilter(**where), 100)}
