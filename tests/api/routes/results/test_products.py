"""Products over HTTP: written by executions that live, looked at by people; tasks that are flows of others."""

import json
from typing import Any

import msgspec
import pytest

from crawlfleet.execution.executors.registry import builtin_schemas
from crawlfleet.model.execution import End
from crawlfleet.model.ids import execution_text, task_text
from crawlfleet.wire.products import ProductBody, ProductsUp, ReportDown, ReportUp, UnseenDown, UnseenUp
from crawlfleet.wire.sync import AssignmentBody, OpenDown, OpenUp, OutcomeBody
from tests.api.kit import Answer, Site
from tests.api.remote_node import RemoteNode

PRODUCTS = "/api/v1/products"
TYPES = ("single_product", "batch_products", "search_keywords", "shop_crawl", "full_sync")
SHOP = "http://shop.test/"


class ShopNode(RemoteNode):
    @classmethod
    async def ready(cls, site: Site) -> "ShopNode":
        schemas = builtin_schemas()
        node = await cls.join(site, task_types={name: schemas[name] for name in TYPES})
        assert isinstance(node, ShopNode)
        await node.open()
        await node.sync()
        return node

    async def open(self) -> OpenDown:
        answer = await self.call("open", OpenUp(self.id, self.secret, slots=5, task_types=list(TYPES)))
        assert answer.status == 200, answer.content
        down = msgspec.json.decode(answer.content, type=OpenDown)
        self.session, self.number = down.session, 0
        return down

    async def running(self, **fields: Any) -> AssignmentBody:
        await self.site.submit(task_type="single_product", parameters={"url": SHOP}, **fields)
        return await self.take()

    async def ask(self, one: AssignmentBody, up: Any, about: str = "", **more: Any) -> Answer:
        path = f"/api/v1/executions/{execution_text(one.execution)}/products{about}?task={task_text(one.task)}"
        data = up if isinstance(up, bytes) else msgspec.json.encode(up)
        return await self.site.post(path, data=data, **{"token": self.secret, **more})

    async def end(self, one: AssignmentBody, result: Any, *products: ProductBody) -> None:
        self.held.remove(one.execution)
        raws = [msgspec.Raw(msgspec.json.encode(product)) for product in products]
        said = msgspec.Raw(msgspec.json.encode(result))
        outcome = OutcomeBody(one.task, one.execution, int(End.COMPLETED), result=said, products=raws)
        await self.sync(outcomes=[outcome])


def product(product_id: str, **more: Any) -> ProductBody:
    said = {"title": f"Pot {product_id}", "price": "5", "currency": "EUR", "availability": "in_stock"} | more
    return ProductBody("shop.test", product_id, f"{SHOP}{product_id}", **said)


async def test_products_come_with_an_outcome_and_are_looked_at(site: Site) -> None:
    node = await ShopNode.ready(site)
    one = await node.running(project_id="spring")
    await node.end(one, {}, product("1", attributes={"brand": "Ä"}), product("2"))
    again = await node.running(project_id="spring")
    await node.end(again, {}, product("1", price="6", attributes={"brand": "Ä"}), product("2", is_gone=True))
    found = (await site.get(f"{PRODUCTS}?project_id=spring&shop=SHOP.test&product_id=1", role="viewer")).json
    (first,) = found["products"]
    assert found["next_cursor"] is None
    assert (first["product_id"], first["price"], first["attributes"]) == ("1", "6", {"brand": "Ä"})
    detail = (await site.get(f"{PRODUCTS}/{first['id']}")).json
    assert detail["product"] == first
    assert [(change["kind"], change["fields"]) for change in detail["changes"]] == [
        ("changed", {"price": ["5", "6"]}),
        ("new", {}),
    ]
    assert detail["changes"][0]["execution_id"] == execution_text(again.execution)
    gone = (await site.get(f"{PRODUCTS}?gone=true")).json["products"]
    assert [(one["product_id"], one["gone_at"] is None) for one in gone] == [("2", False)]
    assert len((await site.get(f"{PRODUCTS}?changed_since={first['changed_at']}")).json["products"]) == 2
    assert (await site.get(f"{PRODUCTS}?project_id=other")).json["products"] == []


async def test_products_are_paged_and_exported(site: Site) -> None:
    node = await ShopNode.ready(site)
    one = await node.running()
    some = [product(str(at), title="=1+1" if at == 0 else f"Pot, {at}") for at in range(7)]
    assert (await node.ask(one, ProductsUp(some))).json == {}
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await site.get(f"{PRODUCTS}?limit=3{cursor}")).json
        seen += [found["product_id"] for found in page["products"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert sorted(seen) == [str(at) for at in range(7)]
    lines = (await site.get(f"{PRODUCTS}:export", role="viewer")).content.splitlines()
    assert [json.loads(line)["product_id"] for line in lines] == seen
    answer = await site.get(f"{PRODUCTS}:export?format=csv&guard=true&product_id=0")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="products.csv"'
    head, row = answer.content.decode().splitlines()
    assert head.startswith("id,project_id,shop,product_id,url,title,price")
    assert ",'=1+1,5,EUR,in_stock," in row


QUESTIONS: list[tuple[str, tuple[int, str, str | None]]] = [
    ("?changed_since=yesterday", (422, "invalid_input", "changed_since")),
    ("?gone=perhaps", (422, "invalid_input", "gone")),
    ("?limit=0", (422, "invalid_input", "limit")),
    ("?cursor=task-0123456789abcdef", (422, "invalid_input", "cursor")),
    ("?shopp=x", (422, "invalid_input", "shopp")),
    ("/product-0000000000000001", (404, "not_found", None)),
    ("/kettle", (404, "not_found", None)),
    (":export?format=warc", (422, "invalid_input", "format")),
    (":export?bom=true", (422, "invalid_input", "bom")),
]


async def test_bad_questions(site: Site) -> None:
    for path, told in QUESTIONS:
        assert (await site.get(PRODUCTS + path)).told == told, path


async def test_only_a_live_execution_of_the_node_writes(site: Site) -> None:
    node = await ShopNode.ready(site)
    over = await node.running()
    await node.end(over, {})
    stale = (409, "stale_execution", "execution_id")
    assert (await node.ask(over, ProductsUp([product("1")]))).told == stale
    live = await node.running()
    stranger = await ShopNode.ready(site)
    assert (await stranger.ask(live, ProductsUp([product("1")]))).told == stale
    for about, up in ((":unseen", UnseenUp("shop.test", 0)), (":report", ReportUp("shop.test", 0))):
        assert (await stranger.ask(live, up, about)).told == stale
        assert (await node.ask(live, up, about)).status == 200
        assert (await node.ask(live, up, about, token=site.tokens["admin"])).status == 403
    assert (await site.get(PRODUCTS)).json["products"] == []


BAD_PRODUCTS: list[tuple[Any, str | None]] = [
    (b"{", "body"),
    (b"[[1]]", None),
    (ProductsUp([product("1"), product("2\0")]), "products[1].id"),
    (ProductsUp([product("1", attributes={"a": "x" * 20_000})]), "products[0].attributes"),
    (ProductsUp([product("x" * 201)]), None),
    (ProductsUp([product(str(at)) for at in range(501)]), None),
]


async def test_bad_products_are_refused_whole(site: Site) -> None:
    node = await ShopNode.ready(site)
    one = await node.running()
    for up, field in BAD_PRODUCTS:
        answer = await node.ask(one, up)
        assert answer.told[:2] == (422, "invalid_input")
        assert field is None or answer.told[2] == field
    assert (await site.get(PRODUCTS)).json["products"] == []


async def test_an_outcome_with_products_that_cannot_be_kept_is_a_failure(site: Site) -> None:
    node = await ShopNode.ready(site)
    one = await node.running(retry={"max_retries": 0})
    await node.end(one, {}, product("1"), product("2\0"))
    ended = await site.until_status(task_text(one.task), "failed")
    assert "products[1]: id: has a NUL character" in ended["reason"]
    assert (await site.get(PRODUCTS)).json["products"] == []


async def test_what_was_not_seen_and_what_has_become(site: Site) -> None:
    node = await ShopNode.ready(site)
    one = await node.running()
    await node.ask(one, ProductsUp([product("1"), product("2"), product("3")]))
    before = (await site.get(PRODUCTS)).json["products"][0]["seen_at"]
    since = site.master.clock.now() + 1
    while site.master.clock.now() < since:
        pass
    await node.ask(one, ProductsUp([product("1"), product("2", price="9"), product("4")]))
    answer = await node.ask(one, UnseenUp("shop.test", since), ":unseen")
    unseen = msgspec.json.decode(answer.content, type=UnseenDown).products
    assert [(found.id, found.url) for found in unseen] == [("3", f"{SHOP}3")], before
    answer = await node.ask(one, ReportUp("shop.test", since, "changed"), ":report")
    report = msgspec.json.decode(answer.content, type=ReportDown)
    assert report.counts == [1, 1, 0, 1, 1]
    assert [body.id for _, body in report.products] == ["2"]
    answer = await node.ask(one, ReportUp("shop.test", since, "lost"), ":report")
    assert answer.told == (422, "invalid_input", "kind")


async def test_a_batch_is_a_flow_of_its_children(site: Site) -> None:
    node = await ShopNode.ready(site)
    urls = [f"{SHOP}{at}" for at in range(5)]
    body = {
        "task_type": "batch_products",
        "parameters": {"urls": urls, "batch_size": 3},
        "priority": 7,
        "name": "mine",
        "project_id": "spring",
        "retry": {"max_retries": 0},
    }
    answer = await site.post("/api/v1/tasks", body, headers={"Idempotency-Key": "once"})
    assert (answer.status, answer.json["status"], answer.json["priority"]) == (201, "waiting", 7)
    again = await site.post("/api/v1/tasks", body, headers={"Idempotency-Key": "once"})
    assert (again.json["id"], again.headers["Idempotency-Replayed"]) == (answer.json["id"], "true")
    other = await site.post("/api/v1/tasks", body | {"priority": 6}, headers={"Idempotency-Key": "once"})
    assert other.status == 422
    for count in (3, 2):
        given = await node.take_all(count)
        assert {one.task_type for one in given} == {"single_product"}
        for one in given:
            url = msgspec.json.decode(one.parameters)["url"]
            assert (await site.task(task_text(one.task)))["priority"] == 6
            if url.endswith("/1"):
                await node.finish(one, end=End.FAILED)
            else:
                await node.end(one, {"product_id": url[-1], "url": url, "status": "success"}, product(url[-1]))
    (last,) = await node.take_all(1)
    assert task_text(last.task) == answer.json["id"]
    said = msgspec.json.decode(last.parameters)
    assert said["urls"] == urls
    assert [batch["ids"] for batch in said["children"]] == [["0", None, "2"], ["3", "4"]]
    assert said["children"][0]["reasons"] == {"1": "as told"}
    await node.end(last, {"total": 5})
    assert (await site.until_status(answer.json["id"], "completed"))["result"]["data"] == {"total": 5}
    flow = (await site.get(f"/api/v1/flows/{answer.headers['Flow']}")).json
    assert (flow["status"], flow["name"], flow["project_id"]) == ("completed", "mine", "spring")
    found = (await site.get(f"{PRODUCTS}?project_id=spring")).json["products"]
    assert {one["product_id"] for one in found} == {"0", "2", "3", "4"}


async def test_a_sync_is_a_flow_of_the_others(site: Site) -> None:
    node = await ShopNode.ready(site)
    parameters = {"url": SHOP, "max_pages": 50, "keywords": ["pot"], "search_url": f"{SHOP}?q={{keyword}}"}
    task = await site.submit(task_type="full_sync", parameters=parameters, priority=1)
    given = {one.task_type: one for one in await node.take_all(2)}
    assert msgspec.json.decode(given["shop_crawl"].parameters) == {"url": SHOP, "max_pages": 50}
    assert msgspec.json.decode(given["search_keywords"].parameters)["keywords"] == ["pot"]
    await node.end(given["search_keywords"], {"total": 1})
    await node.end(given["shop_crawl"], {"shop": "shop.test", "products": 1, "complete": True}, product("1"))
    check = await node.take()
    asked = msgspec.json.decode(check.parameters)
    assert (check.task_type, asked["known_only"], asked["shop"]) == ("shop_crawl", True, "shop.test")
    await node.end(check, {"looked_at": 0})
    last = await node.take()
    said = msgspec.json.decode(last.parameters)
    assert (last.task_type, task_text(last.task), said["since"]) == ("full_sync", task, asked["since"])
    assert said["steps"] == {
        "crawl": {"shop": "shop.test", "products": 1, "complete": True},
        "search": {"total": 1},
        "check": {"looked_at": 0},
    }


@pytest.mark.parametrize("way", ["alone", "among others"])
async def test_who_cancels_the_task_that_was_submitted_cancels_all_of_its_flow(site: Site, way: str) -> None:
    node = await ShopNode.ready(site)
    answer = await site.post("/api/v1/tasks", {"task_type": "full_sync", "parameters": {"url": SHOP}})
    task, flow = answer.json["id"], f"/api/v1/flows/{answer.headers['Flow']}"
    crawl = await node.take()
    if way == "alone":
        cancelled = await site.post(f"/api/v1/tasks/{task}:cancel")
        assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
    else:
        other = await site.submit(task_type="single_product", parameters={"url": SHOP})
        done = await site.post("/api/v1/tasks:cancel", {"ids": [task, other]})
        assert (done.json["changed"], done.json["refused"]) == (2, 0)
    steps = {step["key"]: step["status"] for step in (await site.get(flow)).json["steps"]}
    assert (steps["check"], steps["full_sync"]) == ("cancelled", "cancelled")
    assert (await site.task(task_text(crawl.task)))["recall"] is not None, "its node was asked to stop it"
    assert (await site.task(task))["reason"] == "cancelled by request"
    again = await site.post(f"/api/v1/tasks/{task}:cancel")
    assert again.told[:2] == (409, "already_final")


async def test_a_step_of_somebodys_own_flow_is_cancelled_alone(site: Site) -> None:
    await ShopNode.ready(site)
    visit = {"task": {"task_type": "single_product", "parameters": {"url": SHOP}}}
    sync = {"task": {"task_type": "full_sync", "parameters": {"url": SHOP}}, "after": {"visit": "always"}}
    flow = (await site.post("/api/v1/flows", {"steps": {"visit": visit, "sync": sync}})).json["id"]
    steps = {step["key"]: step for step in (await site.get(f"/api/v1/flows/{flow}")).json["steps"]}
    assert (await site.post(f"/api/v1/tasks/{steps['sync']['task_id']}:cancel")).json["status"] == "cancelled"
    assert (await site.task(steps["visit"]["task_id"]))["status"] != "cancelled"


async def test_one_that_is_part_of_something_else_is_one_task(site: Site) -> None:
    await ShopNode.ready(site)
    first = await site.submit(task_type="single_product", parameters={"url": SHOP})
    second = await site.submit(task_type="full_sync", parameters={"url": SHOP}, depends_on=[first])
    assert (await site.task(second))["group_id"] is None
    batch = [{"task_type": "batch_products", "parameters": {"urls": [SHOP]}}]
    answer = await site.post("/api/v1/tasks:batch", {"tasks": batch})
    (stored,) = answer.json["tasks"]
    assert stored["status"] == "pending"


BAD_FLOWS: list[tuple[dict[str, Any], str]] = [
    ({"parameters": {}}, "parameters"),
    ({"parameters": {"urls": [SHOP, "x"]}}, "parameters.urls[1]"),
    ({"parameters": {"urls": ["http://["]}}, "parameters.urls[0]"),
    ({"parameters": {"urls": [SHOP], "batch_size": -1}}, "parameters.batch_size"),
    ({"parameters": {"urls": [f"{SHOP}{at}" for at in range(501)], "batch_size": 1}}, "parameters.batch_size"),
    ({"parameters": {"urls": [SHOP], "selectors": {"price": "b["}}}, "parameters.selectors.price"),
    ({"parameters": {"urls": [SHOP], "wat": 1}}, "parameters"),
    ({"task_type": "full_sync", "parameters": {"url": SHOP, "keywords": ["a"]}}, "parameters.search_url"),
    ({"task_type": "full_sync", "parameters": {"url": SHOP, "depth": -1}}, "parameters.depth"),
]


async def test_bad_flows_are_refused_whole(site: Site) -> None:
    await ShopNode.ready(site)
    for fields, field in BAD_FLOWS:
        answer = await site.post("/api/v1/tasks", {"task_type": "batch_products", **fields})
        assert answer.told == (422, "invalid_input", field)
    assert (await site.get("/api/v1/flows")).json["flows"] == []
    assert (await site.get("/api/v1/tasks")).json["tasks"] == []
