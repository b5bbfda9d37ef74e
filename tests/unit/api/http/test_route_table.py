"""One decorator declares a route: how it is served, and what the OpenAPI document says of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.responses import Response

from crawlfleet.api.http import openapi
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import JSON_MESSAGE, RouteTable, describe_parameter


class Cat(msgspec.Struct):
    name: str


class NewCat(msgspec.Struct):
    name: str
    mother: Cat | None = None


class Refusal(msgspec.Struct):
    reason: str


CAT = {"$ref": "#/components/schemas/Cat"}


@pytest.fixture
def table() -> RouteTable:
    return RouteTable("big-cats", "/zoo")


def document(table: RouteTable) -> dict[str, Any]:
    app = FastAPI(generate_unique_id_function=openapi.route_operation_id)
    app.include_router(table.router)
    openapi.install_document(app, [table])
    return app.openapi()


def test_a_route_names_its_answer_once(table: RouteTable) -> None:
    @table.get("/cats/{name}", Cat)
    async def show_cat(name: str) -> Response:
        return json_response(Cat(name))

    found = document(table)
    operation = found["paths"]["/zoo/cats/{name}"]["get"]
    assert (operation["operationId"], operation["tags"]) == ("big_cats_show_cat", ["big-cats"])
    assert operation["responses"]["200"] == {
        "description": "As asked.",
        "content": {"application/json": {"schema": CAT}},
    }
    assert found["components"]["schemas"]["Cat"]["required"] == ["name"]


@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete"])
def test_each_method_has_a_decorator(table: RouteTable, method: str) -> None:
    getattr(table, method)("/cats", Cat)(_answer_nothing)
    (route,) = table.router.routes
    assert isinstance(route, APIRoute)
    assert route.methods == {method.upper()}


def test_statuses_headers_and_other_responses_are_described(table: RouteTable) -> None:
    @table.post(
        "/cats",
        ResponseSpec(Cat, "Made.", {"Location": "Where it is."}),
        status=201,
        body=NewCat,
        other_responses={
            202: ResponseSpec({"text/plain": {"type": "string"}}, "Later."),
            409: ResponseSpec(Refusal, "Full."),
        },
        name="create",
    )
    async def create_cat() -> Response:
        return json_response(Cat("Tom"), 201)

    found = document(table)
    operation = found["paths"]["/zoo/cats"]["post"]
    assert operation["operationId"] == "big_cats_create"
    assert operation["summary"] == "Create"
    assert operation["responses"]["201"]["headers"] == {
        "Location": {"description": "Where it is.", "schema": {"type": "string"}}
    }
    assert operation["responses"]["202"]["content"] == {"text/plain": {"schema": {"type": "string"}}}
    assert operation["requestBody"]["content"] == {
        "application/json": {"schema": {"$ref": "#/components/schemas/NewCat"}}
    }
    assert {"Cat", "NewCat", "Refusal"} <= set(found["components"]["schemas"])


def test_an_answer_without_a_body_has_no_content(table: RouteTable) -> None:
    @table.delete("/cats", status=204)
    async def remove_cats() -> Response:
        return Response(status_code=204)

    assert "content" not in document(table)["paths"]["/zoo/cats"]["delete"]["responses"]["204"]
    assert ResponseSpec(None, "Gone.").describe() == {"description": "Gone."}


def test_a_plain_route_is_served_and_described_by_the_same_decorator(table: RouteTable) -> None:
    @table.plain(
        "PUT",
        "/cats/{number}",
        ResponseSpec(JSON_MESSAGE, "Fed."),
        summary="Feed a cat",
        description="With fish.",
        parameters=[describe_parameter("number", "path", "Which."), describe_parameter("fish", "query", "How much.")],
        body={"application/json": NewCat, "text/plain": {"type": "string"}},
        body_limit=100,
        schemas=(Refusal,),
        tag="keepers",
    )
    async def feed_cat(request: object) -> Response:
        return json_response([])

    (route,) = table.plain_routes
    assert (route.path, route.methods, route.endpoint) == ("/zoo/cats/{number}", {"PUT"}, feed_cat)
    assert table.body_limits == {"/zoo/cats/{number}": 100}
    found = document(table)
    operation = found["paths"]["/zoo/cats/{number}"]["put"]
    assert (operation["operationId"], operation["summary"]) == ("keepers_feed_cat", "Feed a cat")
    assert operation["security"] == [{"bearer": []}, {"api_key": []}]
    assert [(said["name"], said["required"]) for said in operation["parameters"]] == [("number", True), ("fish", False)]
    assert set(operation["requestBody"]["content"]) == {"application/json", "text/plain"}
    assert operation["responses"]["200"]["content"] == {"application/json": {"schema": {"type": "array", "items": {}}}}
    assert {"NewCat", "Refusal", "Cat"} <= set(found["components"]["schemas"])


def test_schemas_stand_by_name_whatever_the_order_of_the_routes(table: RouteTable) -> None:
    for path, struct in (("/b", Refusal), ("/a", Cat), ("/c", NewCat)):
        table.get(path, struct, name=path[1:])(_answer_nothing)
    names = list(document(table)["components"]["schemas"])
    assert names == sorted(names)


async def _answer_nothing() -> Response:
    return Response()
