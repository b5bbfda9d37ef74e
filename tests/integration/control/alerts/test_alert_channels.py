"""Channels: secrets go in and never come out, a test shows the service's own words."""

from __future__ import annotations

import pytest

from crawlfleet.control.alerts.alert_channels import HIDDEN
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.notice import Language, NoticeState
from crawlfleet.store.store import SqlStore
from tests.integration.control.alerts.alerts_kit import REFUSED, AlertFleet

pytestmark = pytest.mark.integration


async def test_a_secret_is_hidden_and_kept_when_it_is_sent_back_hidden(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store)
    channels = fleet.master.alert_parts.channels
    english = Language.ENGLISH
    made = await channels.put_channel("ops", "played", {"name": "ops", "key": "s3cret"}, english, True, "ann")
    assert made.fields == {"name": "ops", "key": HIDDEN}
    await channels.put_channel("ops", "played", {"name": "other", "key": HIDDEN}, english, True, "ann")
    [stored] = (await store.load_alerts(0)).channels
    assert stored.fields == {"name": "other", "key": "s3cret"}
    assert await channels.list_channels() == [await channels.get_channel("ops")]
    for name, kind in (("new", "played"), ("ops", "other")):
        with pytest.raises(InvalidInput, match="key"):
            await channels.put_channel(name, kind, {"name": "x", "key": HIDDEN}, english, True, "ann")


async def test_a_bad_channel_is_refused(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store)
    channels = fleet.master.alert_parts.channels
    for name, kind, fields in (("ops", "pigeon", {}), ("ops", "played", {}), ("Not A Name", "played", {"name": "x"})):
        with pytest.raises(InvalidInput):
            await channels.put_channel(name, kind, fields, Language.ENGLISH, True, "ann")
    assert await channels.list_channels() == []


async def test_a_test_shows_the_words_of_the_service(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    fleet.service.answer("ops", REFUSED)
    assert await fleet.master.alert_parts.channels.test_channel("ops", "ann") == REFUSED
    [notice] = fleet.service.notices()
    assert (notice.state, notice.why) == (NoticeState.TEST, "ann tries out the channel ops.")
    assert fleet.service.closed == 1
    with pytest.raises(NotFound):
        await fleet.master.alert_parts.channels.test_channel("never", "ann")


async def test_a_channel_that_a_rule_names_is_not_removed(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.set_rule("node_down", channels=["ops"])
    channels = fleet.master.alert_parts.channels
    with pytest.raises(InvalidInput, match="node_down"):
        await channels.remove_channel("ops")
    await fleet.set_rule("node_down", channels=None)
    await channels.remove_channel("ops")
    with pytest.raises(NotFound):
        await channels.remove_channel("ops")
    with pytest.raises(NotFound):
        await channels.get_channel("ops")
