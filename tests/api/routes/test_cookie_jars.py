"""Cookie jars over HTTP: changed by live executions, listed without values, removed by operators."""

from typing import Any

import msgspec
import pytest

from crawlfleet.model.ids import execution_text, task_text
from crawlfleet.wire.cookies import CookieBody, CookiesDown, CookiesUp
from crawlfleet.wire.sync import AssignmentBody
from tests.api.kit import Answer, Site
from tests.api.remote_node import RemoteNode

JARS = "/api/v1/cookie-jars"
COOKIE = CookieBody("http://shop.test/", "visitor=secret; Path=/", 5_000)


async def exchange(node: RemoteNode, one: AssignmentBody, up: Any, **more: Any) -> Answer:
    path = f"/api/v1/executions/{execution_text(one.execution)}/cookies?task={task_text(one.task)}"
    data = up if isinstance(up, bytes) else msgspec.json.encode(up)
    return await node.site.post(path, data=data, **{"token": node.secret, **more})


@pytest.fixture
async def node(site: Site) -> RemoteNode:
    return await RemoteNode.online(site)


async def running(node: RemoteNode) -> AssignmentBody:
    await node.site.submit(task_type="echo", project_id="spring")
    return await node.take()


async def test_a_jar_is_kept_for_the_next_execution_and_shown_without_values(node: RemoteNode) -> None:
    one = await running(node)
    answer = await exchange(node, one, CookiesUp("login", [COOKIE]))
    assert answer.status == 200, answer.content
    again = await exchange(node, await running(node), CookiesUp("login"))
    (cookie,) = msgspec.json.decode(again.content, type=CookiesDown).cookies
    assert (cookie.url, cookie.header) == (COOKIE.url, COOKIE.header)
    assert cookie.age_ms >= COOKIE.age_ms
    listed = await node.site.get(JARS, role="viewer")
    assert b"secret" not in listed.content
    (jar,) = listed.json["cookie_jars"]
    assert (jar["project_id"], jar["name"], jar["cookies"], jar["hosts"]) == ("spring", "login", 1, ["shop.test"])
    assert (await node.site.get(f"{JARS}?project_id=other")).json == {"cookie_jars": []}


async def test_a_jar_is_removed_by_operators(node: RemoteNode) -> None:
    site = node.site
    await exchange(node, await running(node), CookiesUp("login", [COOKIE]))
    path = f"{JARS}/login?project_id=spring"
    assert (await site.send("DELETE", path, role="viewer")).status == 403
    assert (await site.send("DELETE", f"{JARS}/login")).status == 404
    assert (await site.send("DELETE", path)).status == 204
    assert (await site.send("DELETE", path)).status == 404
    assert ("cookie_jar.remove", "spring/login") in [(action, target) for _, action, target in await site.audited()]


async def test_what_is_wrong_with_a_call_is_said_and_changes_nothing(node: RemoteNode) -> None:
    one = await running(node)
    other = await RemoteNode.online(node.site, name="other")
    assert (await exchange(other, one, CookiesUp("login", [COOKIE]))).status == 409
    for body in (
        b"[",
        b"{}",
        b'["x", [["", "a=1", 0]]]',
        b'["x", [["http://a/", "a=1", -1]]]',
        b'["' + b"x" * 65 + b'"]',
    ):
        answer = await exchange(node, one, body)
        assert answer.status == 422, body
    zero = CookiesUp("login", [CookieBody("http://a.test/", "a=\x00", 0)])
    assert (await exchange(node, one, zero)).told[:2] == (422, "invalid_input")
    assert (await node.site.get(JARS)).json == {"cookie_jars": []}
    assert (await node.site.get(f"{JARS}?colour=red")).status == 422
