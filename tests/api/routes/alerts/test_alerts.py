"""Alerts and notices over HTTP."""

from crawlfleet.model.alerts.alert import AlertState, AlertStatus
from crawlfleet.model.notice import Notice, NoticeState, Severity
from crawlfleet.ports.alert_store import AlertChanges, NewNotice
from tests.api.kit import Site

ALERTS = "/api/v1/alerts"
SCOPE = "schedule:schedule-0000000000000001"
FIRING = AlertState("no_results", SCOPE, AlertStatus.FIRING, 1_000, 1_000, 0.1, 1_000, "why")
"""Of a rule whose scopes are not measured all at once: a pass of the leader leaves it alone for a while."""


async def write(site: Site, *states: AlertState, notices: tuple[NewNotice, ...] = ()) -> None:
    term = site.master.lead.term
    assert term is not None
    await site.master.store.record_alerts(AlertChanges(states, notices=notices), 2_000, term)


async def test_what_fires_is_listed_and_acknowledged(site: Site) -> None:
    await site.send("PUT", f"{ALERTS}/rules/mine", {"kind": "queue_size", "threshold": 1, "for_s": 0})
    assert (await site.get(ALERTS, role="viewer")).status == 200
    await site.pause("later")
    await site.submit(queue="later")

    async def fires() -> bool:
        return bool((await site.get(f"{ALERTS}?rule=mine&status=firing")).json["firing"])

    await site.until(fires)
    [alert] = (await site.get(f"{ALERTS}?rule=mine")).json["alerts"]
    assert (alert["scope"], alert["severity"], alert["value"], alert["why"]) == ("*", "warning", 1, "1 task waits.")
    muted_why = "no channel receives it"
    assert (alert["threshold"], alert["muted_why"], alert["acknowledgement"]) == (1, muted_why, None)
    body = {"rule": "mine", "scope": "*", "why": "I know"}
    assert (await site.post(f"{ALERTS}:acknowledge", body, role="viewer")).status == 403
    done = await site.post(f"{ALERTS}:acknowledge", body, role="operator")
    assert done.json["acknowledgement"]["why"] == "I know"
    [alert] = (await site.get(f"{ALERTS}?rule=mine")).json["alerts"]
    assert alert["acknowledgement"]["by"] == "the operator"
    assert ("operator", "alert.acknowledge", "mine *") in await site.audited()


async def test_what_does_not_fire_is_not_acknowledged(site: Site) -> None:
    answer = await site.post(f"{ALERTS}:acknowledge", {"rule": "node_down", "scope": "node:x"})
    assert (answer.status, answer.json["detail"]) == (404, "no alert node_down of node:x")
    assert (await site.post(f"{ALERTS}:acknowledge", {"scope": "*"})).status == 422
    assert (await site.get(f"{ALERTS}?status=broken")).status == 422
    assert (await site.get(f"{ALERTS}?colour=red")).status == 422


async def test_notices_are_paged(site: Site) -> None:
    notice = Notice("n", NoticeState.FIRING, "node_down", Severity.WARNING, "node:x", 1_000, why="it is silent")
    new = tuple(NewNotice(number, "gone", notice) for number in (1, 2, 3))
    await write(site, notices=new)
    first = (await site.get("/api/v1/notices?limit=2", role="viewer")).json
    assert [each["id"] for each in first["notices"]] == ["notice-0000000000000003", "notice-0000000000000002"]
    assert (first["notices"][0]["status"], first["notices"][0]["why"]) == ("due", "it is silent")
    rest = (await site.get(f"/api/v1/notices?limit=2&cursor={first['next_cursor']}")).json
    assert ([each["id"] for each in rest["notices"]], rest["next_cursor"]) == (["notice-0000000000000001"], None)
    assert (await site.get("/api/v1/notices?channel=gone&status=delivered")).json["notices"] == []
    for query in ("cursor=x", "status=lost", "limit=0"):
        assert (await site.get(f"/api/v1/notices?{query}")).status == 422
