"""Silences over HTTP."""

from typing import Any

import pytest

from tests.api.kit import Site

SILENCES = "/api/v1/silences"


async def test_a_silence_is_added_listed_and_ended(site: Site) -> None:
    body = {"matchers": {"rule": "node_*"}, "lasts": "2h", "why": "new racks"}
    assert (await site.post(SILENCES, body, role="viewer")).status == 403
    made = await site.post(SILENCES, body, role="operator")
    assert (made.status, made.json["is_in_force"], made.json["created_by"]) == (201, True, "the operator")
    silence_id = made.json["id"]
    assert [each["id"] for each in (await site.get(SILENCES, role="viewer")).json["silences"]] == [silence_id]
    ended = await site.send("DELETE", f"{SILENCES}/{silence_id}")
    assert (ended.status, ended.json["is_in_force"]) == (200, False)
    assert (await site.send("DELETE", f"{SILENCES}/{silence_id}")).json == ended.json
    audited = [action for _, action, _ in await site.audited()]
    assert {"silence.add", "silence.end"} <= set(audited)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"matchers": {}, "lasts": "2h", "why": "x"}, "matchers"),
        ({"matchers": {"colour": "red"}, "lasts": "2h", "why": "x"}, "matchers"),
        ({"matchers": {"rule": "*"}, "why": "x"}, "until_at"),
        ({"matchers": {"rule": "*"}, "lasts": "2h", "until_at": "2099-01-01T00:00:00Z", "why": "x"}, "until_at"),
        ({"matchers": {"rule": "*"}, "until_at": "2020-01-01T00:00:00Z", "why": "x"}, "until_at"),
        ({"matchers": {"rule": "*"}, "until_at": "2099-01-01T00:00:00Z", "why": "x"}, "until_at"),
        ({"matchers": {"rule": "*"}, "until_at": "soon", "why": "x"}, "until_at"),
        ({"matchers": {"rule": "*"}, "lasts": "long", "why": "x"}, "lasts"),
        ({"matchers": {"rule": "*"}, "lasts": "2h", "why": ""}, "why"),
    ],
)
async def test_a_bad_silence_is_refused(site: Site, body: dict[str, Any], field: str) -> None:
    answer = await site.post(SILENCES, body)
    assert (answer.status, field in str(answer.json)) == (422, True)
    assert (await site.get(SILENCES)).json["silences"] == []


async def test_an_unknown_silence_is_not_found(site: Site) -> None:
    for name in ("silence-0000000000000001", "nonsense"):
        assert (await site.send("DELETE", f"{SILENCES}/{name}")).status == 404
