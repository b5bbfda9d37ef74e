"""Channels over HTTP: without channels of the process nothing can be set; what is set shows no secret."""

from crawlfleet.model.alerts.alert import AlertChannel
from tests.api.kit import Site

CHANNELS = "/api/v1/alerts/channels"


async def test_a_bad_channel_is_refused(site: Site) -> None:
    for body in (
        {},
        {"kind": 5},
        {"kind": "slack", "fields": {"url": 1}},
        {"kind": "slack", "fields": {"x": "y" * 5_000}},
    ):
        assert (await site.send("PUT", f"{CHANNELS}/ops", body)).status == 422
    answer = await site.send("PUT", f"{CHANNELS}/ops", {"kind": "pigeon", "fields": {}})
    assert (answer.status, "kind" in str(answer.json)) == (422, True)
    assert (await site.send("PUT", f"{CHANNELS}/ops", {"kind": "slack"}, role="operator")).status == 403
    assert (await site.get(CHANNELS, role="viewer")).json["channels"] == []


async def test_a_stored_channel_is_shown_without_secrets_and_removed(site: Site) -> None:
    await site.master.store.put_channel(AlertChannel("ops", "slack", {"url": "s3cret"}, changed_by="ann"))
    shown = await site.get(f"{CHANNELS}/ops", role="viewer")
    assert (shown.status, shown.json["fields"]["url"]) == (200, "********")
    assert "s3cret" not in str((await site.get(CHANNELS)).json)
    assert (await site.send("DELETE", f"{CHANNELS}/ops", role="operator")).status == 403
    assert (await site.send("DELETE", f"{CHANNELS}/ops")).status == 204
    assert ("admin", "alert_channel.delete", "ops") in await site.audited()
    for method, path in (("GET", "ops"), ("DELETE", "ops"), ("POST", "ops:test")):
        assert (await site.send(method, f"{CHANNELS}/{path}")).status == 404
