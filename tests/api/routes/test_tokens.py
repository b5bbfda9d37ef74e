"""Tokens, the audit log and task types over HTTP."""

import asyncio
from typing import Any

import pytest

from crawlfleet.api.routes.tokens import parse_span_ms
from tests.api.kit import Answer, Site
from tests.api.remote_node import RemoteNode

TOKENS = "/api/v1/tokens"


async def created(site: Site, **fields: Any) -> Any:
    answer = await site.post(TOKENS, {"role": "viewer", **fields})
    assert answer.status == 201, answer.content
    return answer.json


async def looking(site: Site, token: str) -> Answer:
    return await site.get("/api/v1/tasks", token=token)


async def test_a_token_is_told_once_and_works_at_once(site: Site) -> None:
    answer = await site.post(TOKENS, {"role": "operator", "name": "ops"})
    made = answer.json
    assert answer.headers["Location"] == f"{TOKENS}/{made['id']}"
    assert len(made["token"]) == 64
    assert (made["role"], made["name"], made["expires_at"], made["uses_left"]) == ("operator", "ops", None, None)
    assert (await looking(site, made["token"])).status == 200
    listed = await site.get(TOKENS)
    assert made["token"].encode() not in listed.content
    (shown,) = [one for one in listed.json["tokens"] if one["id"] == made["id"]]
    assert (shown["name"], shown["role"], shown["is_usable"], shown["created_by"]) == (
        "ops",
        "operator",
        True,
        "the admin",
    )


async def test_a_revoked_token_is_over_and_revoking_again_is_fine(site: Site) -> None:
    made = await created(site)
    for _ in range(2):
        assert (await site.send("DELETE", f"{TOKENS}/{made['id']}")).status == 204
    assert (await looking(site, made["token"])).told[:2] == (401, "not_authenticated")
    (shown,) = [one for one in (await site.get(TOKENS)).json["tokens"] if one["id"] == made["id"]]
    assert not shown["is_usable"]
    assert shown["revoked_at"].endswith("Z")


async def test_a_rotated_token_has_another_secret(site: Site) -> None:
    made = await created(site)
    turned = (await site.post(f"{TOKENS}/{made['id']}:rotate")).json
    assert turned["id"] == made["id"]
    assert turned["token"] != made["token"]
    assert (await looking(site, made["token"])).status == 401
    assert (await looking(site, turned["token"])).status == 200


async def test_an_enrol_token_has_uses_and_an_end(site: Site) -> None:
    made = await created(site, role="enrol", uses=2, expires_in="24h")
    assert made["uses_left"] == 2
    assert made["expires_at"].endswith("Z")
    assert (await site.post("/api/v1/nodes:register", {"name": "a"}, token=made["token"])).status == 201
    (shown,) = [one for one in (await site.get(TOKENS)).json["tokens"] if one["id"] == made["id"]]
    assert shown["uses_left"] == 1


async def test_a_lost_answer_makes_no_second_token(site: Site) -> None:
    key = {"Idempotency-Key": "k"}
    body = {"role": "operator", "name": "ops", "expires_in": "1h"}
    made = (await site.post(TOKENS, body, headers=key)).json
    answer = await site.post(TOKENS, body, headers=key)
    assert answer.told == (409, "token_already_made", None)
    assert answer.json["token_id"] == made["id"]
    assert answer.headers["Location"] == f"{TOKENS}/{made['id']}"
    assert made["token"].encode() not in answer.content
    assert [one["name"] for one in (await site.get(TOKENS)).json["tokens"]].count("ops") == 1
    other = await site.post(TOKENS, body | {"role": "admin"}, headers=key)
    assert other.told == (422, "idempotency_mismatch", "Idempotency-Key")
    # What was refused binds no key; and every admin has keys of their own.
    bad = await site.post(TOKENS, {"role": "viewer", "uses": 1}, headers={"Idempotency-Key": "second"})
    assert bad.status == 422
    assert (await site.post(TOKENS, body, headers={"Idempotency-Key": "second"})).status == 201
    boss = await created(site, role="admin")
    assert (await site.post(TOKENS, body, headers=key, token=boss["token"])).status == 201


async def test_of_many_at_once_under_one_key_one_makes_a_token(site: Site) -> None:
    calls = [site.post(TOKENS, {"role": "viewer"}, headers={"Idempotency-Key": "k"}) for _ in range(10)]
    answers = sorted(answer.status for answer in await asyncio.gather(*calls))
    assert answers == [201] + [409] * 9


@pytest.mark.parametrize("key", ["", "k" * 201])
async def test_a_bad_key_is_refused(site: Site, key: str) -> None:
    answer = await site.post(TOKENS, {"role": "viewer"}, headers={"Idempotency-Key": key})
    assert answer.told == (422, "invalid_input", "Idempotency-Key")


async def test_an_expired_token_is_over(site: Site) -> None:
    made = await created(site, expires_in="1s")

    async def is_over() -> bool:
        return (await looking(site, made["token"])).status == 401

    assert not await is_over()
    await site.until(is_over)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "role"),
        ({"role": "king"}, "role"),
        ({"role": "node"}, "role"),
        ({"role": "viewer", "name": ""}, "name"),
        ({"role": "viewer", "uses": 1}, "uses"),
        ({"role": "enrol", "uses": 0}, "uses"),
        ({"role": "enrol", "uses": "3"}, "uses"),
        ({"role": "viewer", "expires_in": "soon"}, "expires_in"),
        ({"role": "viewer", "expires_in": "0h"}, "expires_in"),
        ({"role": "viewer", "expires_in": "999999d"}, "expires_in"),
        ({"role": "viewer", "expires_in": 24}, "expires_in"),
        ({"role": "viewer", "secret": "mine"}, "secret"),
    ],
)
async def test_a_bad_token_is_told_what_is_wrong(site: Site, body: dict[str, Any], field: str) -> None:
    before = len((await site.get(TOKENS)).json["tokens"])
    assert (await site.post(TOKENS, body)).told == (422, "invalid_input", field)
    assert len((await site.get(TOKENS)).json["tokens"]) == before


async def test_unknown_tokens_are_not_found(site: Site) -> None:
    assert (await site.send("DELETE", f"{TOKENS}/99999")).told[:2] == (404, "not_found")
    assert (await site.post(f"{TOKENS}/99999:rotate")).told[:2] == (404, "not_found")
    assert (await site.send("DELETE", f"{TOKENS}/first")).told[:2] == (404, "not_found")
    assert (await site.send("DELETE", f"{TOKENS}/{1 << 80}")).told == (422, "invalid_input", "token_id")


async def test_only_admins_see_tokens_and_the_audit_log(site: Site) -> None:
    node = await RemoteNode.join(site)
    for token in (*(site.tokens[role] for role in ("operator", "viewer", "enrol")), node.secret):
        for method, path in [
            ("GET", TOKENS),
            ("POST", TOKENS),
            ("DELETE", f"{TOKENS}/1"),
            ("POST", f"{TOKENS}/1:rotate"),
            ("GET", "/api/v1/audit"),
        ]:
            body = {"role": "admin"} if (method, path) == ("POST", TOKENS) else None
            assert (await site.send(method, path, body, token=token)).told == (403, "not_allowed", "Authorization")


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("24h", 86_400), ("7d", 604_800)])
def test_spans_are_read(text: str, seconds: int) -> None:
    assert parse_span_ms(text, field="expires_in") == seconds * 1000


# -- audit


async def test_changes_are_in_the_audit_log_newest_first_and_in_pages(site: Site) -> None:
    made = [await created(site, name=f"t{n}") for n in range(3)]
    page = (await site.get("/api/v1/audit?limit=2")).json
    assert [entry["target"] for entry in page["entries"]] == [str(made[2]["id"]), str(made[1]["id"])]
    first = page["entries"][0]
    assert (first["action"], first["role"], first["name"], first["address"]) == (
        "token.create",
        "admin",
        "the admin",
        "127.0.0.1",
    )
    assert first["details"]["name"] == "t2"
    assert first["at"].endswith("Z")
    rest = (await site.get(f"/api/v1/audit?limit=2&before={page['next_before']}")).json
    assert [entry["target"] for entry in rest["entries"]] == [str(made[0]["id"])]
    assert rest["next_before"] is None
    for one in made:
        assert one["token"] not in str(page) + str(rest)


@pytest.mark.parametrize(("query", "field"), [("limit=0", "limit"), ("before=x", "before"), ("who=me", "who")])
async def test_a_bad_question_to_the_log_is_told(site: Site, query: str, field: str) -> None:
    assert (await site.get(f"/api/v1/audit?{query}")).told == (422, "invalid_input", field)


# -- task types


async def test_task_types_are_listed_with_their_schemas(site: Site) -> None:
    schema = {"type": "object", "required": ["url"]}
    await RemoteNode.online(site, task_types={"mine": schema, "echo": {"type": "object"}})
    listed = (await site.get("/api/v1/task-types", role="viewer")).json["task_types"]
    found = {one["name"]: one for one in listed}
    assert [one["name"] for one in listed] == sorted(found)
    assert (found["mine"]["schema"], found["mine"]["version"]) == (schema, 1)
    assert found["echo"]["nodes"] == 1
    assert found.keys() >= {"echo", "web_crawl", "mine"}
