"""The channels that notices go to: set, listed without their secrets, tried out, removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from crawlfleet.control.alerts.alert_options import AlertOptions
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.alerts.alert import INSTALLATION_SCOPE, AlertChannel
from crawlfleet.model.ids import IdFactory
from crawlfleet.model.notice import Language, Notice, NoticeState, Severity
from crawlfleet.ports.alert_store import AlertStore
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.notice_channel import ChannelFactory, ChannelKind, Delivery
from crawlfleet.scheduling.alerts.rule_changes import check_name

HIDDEN = "********"
"""What is shown in place of a secret. Sent back, it leaves the secret as it is."""


class AlertChannels:
    def __init__(
        self,
        *,
        store: AlertStore,
        clock: Clock,
        id_factory: IdFactory,
        options: AlertOptions,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = id_factory
        self._factory = options.factory
        self._options = options

    @property
    def kinds(self) -> Mapping[str, ChannelKind]:
        return {} if self._factory is None else self._factory.kinds

    async def list_channels(self) -> list[AlertChannel]:
        """Return the channels by name, with their secrets hidden."""
        return [self.hide_secrets(channel) for channel in await self._load_channels()]

    async def get_channel(self, name: str) -> AlertChannel:
        """Return a channel with its secrets hidden. Raises NotFound."""
        return self.hide_secrets(await self._find_channel(name))

    async def put_channel(
        self, name: str, kind: str, fields: Mapping[str, str], language: Language, is_enabled: bool, by: str
    ) -> AlertChannel:
        """Add a channel, or replace it; a secret given as hidden stays as it was. Raises InvalidInput, OverLimit."""
        check_name(name)
        before = next((channel for channel in await self._load_channels() if channel.name == name), None)
        given = dict(fields)
        for field, value in fields.items():
            if value == HIDDEN:
                if before is None or before.kind != kind or field not in before.fields:
                    raise InvalidInput("there is no stored value to keep: give the value itself", field=field)
                given[field] = before.fields[field]
        checked = self._require_factory().check_fields(kind, given)
        channel = AlertChannel(name, kind, checked, language, is_enabled, changed_at=self._clock.now(), changed_by=by)
        await self._store.put_channel(channel)
        return self.hide_secrets(channel)

    async def remove_channel(self, name: str) -> None:
        """Remove a channel. Raises NotFound, or InvalidInput while a rule names it."""
        book = await self._store.load_alerts(self._clock.now())
        if naming := [rule.name for rule in book.rules if name in rule.values.get("channels", ())]:
            raise InvalidInput(f"the rules {', '.join(naming)} name it: change them first", field="name")
        if not await self._store.drop_channel(name):
            raise NotFound(f"no channel {name!r}")

    async def test_channel(self, name: str, by: str) -> Delivery:
        """Send a test notice now and return the service's own words. Raises NotFound."""
        channel = await self._find_channel(name)
        now = self._clock.now()
        notice = Notice(
            id=f"test-{self._ids.new_id():016x}",
            state=NoticeState.TEST,
            rule="test",
            severity=Severity.INFO,
            scope=INSTALLATION_SCOPE,
            created_at=now,
            why=f"{by} tries out the channel {name}.",
            link=self._options.public_url,
            installation=self._options.installation,
        )
        opened = self._require_factory().open_channel(channel.kind, channel.fields, channel.language)
        try:
            return await opened.send(notice, now)
        finally:
            await opened.close()

    def hide_secrets(self, channel: AlertChannel) -> AlertChannel:
        kind = self.kinds.get(channel.kind)
        secret = {field.name for field in kind.fields if field.is_secret} if kind else set(channel.fields)
        fields = {name: HIDDEN if name in secret else value for name, value in channel.fields.items()}
        return replace(channel, fields=fields)

    async def _load_channels(self) -> list[AlertChannel]:
        return list((await self._store.load_alerts(self._clock.now())).channels)

    async def _find_channel(self, name: str) -> AlertChannel:
        for channel in await self._load_channels():
            if channel.name == name:
                return channel
        raise NotFound(f"no channel {name!r}")

    def _require_factory(self) -> ChannelFactory:
        if self._factory is None:
            raise InvalidInput("this master has no channels", field="kind")
        return self._factory
