"""Calls for alerts: what fires, rules, channels, silences and notices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawlfleet.client._generated.models import (
    AcknowledgedView,
    AlertList,
    ChannelList,
    ChannelView,
    DeliveryView,
    NoticePage,
    PreviewView,
    RuleList,
    RuleView,
    SilenceList,
    SilenceView,
)
from crawlfleet.client.nouns.base import Calls, quote_segment


class AlertCalls(Calls):
    async def alerts(self, *, rule: str | None = None, status: str | None = None) -> AlertList:
        """Those that are not ok: `status` is pending, firing or recovering."""
        return await self._transport.get(AlertList, "/alerts", {"rule": rule, "status": status})

    async def acknowledge_alert(self, rule: str, scope: str = "*", *, why: str = "") -> AcknowledgedView:
        """No more notices of it until it recovers."""
        body = {"rule": rule, "scope": scope, "why": why}
        return await self._transport.change(AcknowledgedView, "POST", "/alerts:acknowledge", body, is_repeatable=True)

    async def alert_rules(self) -> Sequence[RuleView]:
        return (await self._transport.get(RuleList, "/alerts/rules")).rules

    async def alert_rule(self, name: str) -> RuleView:
        return await self._transport.get(RuleView, f"/alerts/rules/{quote_segment(name)}")

    async def put_alert_rule(self, name: str, **fields: Any) -> RuleView:
        """Set its threshold, clear, for_s, keep_s, severity, channels, hours, least_samples, scope or is_enabled; None
        is the default again. A rule of one's own needs a kind."""
        return await self._transport.change(
            RuleView, "PUT", f"/alerts/rules/{quote_segment(name)}", fields, is_repeatable=True
        )

    async def preview_alert_rule(self, name: str, *, scope: str | None = None, **fields: Any) -> PreviewView:
        """When it would have fired in the last six hours, with these values in place of its own."""
        path = f"/alerts/rules/{quote_segment(name)}:preview"
        return await self._transport.change(
            PreviewView, "POST", path, fields, params={"scope": scope}, is_repeatable=True
        )

    async def reset_alert_rule(self, name: str) -> None:
        """It has its defaults again; a rule of one's own is removed."""
        return await self._transport.change(
            type(None), "DELETE", f"/alerts/rules/{quote_segment(name)}", is_repeatable=True
        )

    async def alert_channels(self) -> ChannelList:
        """The channels, and the kinds that there are with their fields."""
        return await self._transport.get(ChannelList, "/alerts/channels")

    async def put_alert_channel(
        self, name: str, kind: str, fields: Mapping[str, str], *, language: str = "en", is_enabled: bool = True
    ) -> ChannelView:
        body = {"kind": kind, "fields": dict(fields), "language": language, "is_enabled": is_enabled}
        return await self._transport.change(
            ChannelView, "PUT", f"/alerts/channels/{quote_segment(name)}", body, is_repeatable=True
        )

    async def remove_alert_channel(self, name: str) -> None:
        return await self._transport.change(
            type(None), "DELETE", f"/alerts/channels/{quote_segment(name)}", is_repeatable=True
        )

    async def test_alert_channel(self, name: str) -> DeliveryView:
        """Send a test notice now; the answer has the service's own words."""
        return await self._transport.change(DeliveryView, "POST", f"/alerts/channels/{quote_segment(name)}:test")

    async def silences(self, *, limit: int = 100) -> Sequence[SilenceView]:
        """Newest first, also those that are over."""
        return (await self._transport.get(SilenceList, "/silences", {"limit": limit})).silences

    async def add_silence(
        self,
        matchers: Mapping[str, str],
        why: str,
        *,
        lasts: str | None = None,
        until_at: str | None = None,
        starts_at: str | None = None,
    ) -> SilenceView:
        """Alerts that all matchers match send nothing until `until_at`, or for as long as `lasts` says: 2h, 7d."""
        fields = {"lasts": lasts, "until_at": until_at, "starts_at": starts_at}
        body = {"matchers": dict(matchers), "why": why, **{key: value for key, value in fields.items() if value}}
        return await self._transport.change(SilenceView, "POST", "/silences", body)

    async def end_silence(self, silence_id: str) -> SilenceView:
        return await self._transport.change(
            SilenceView, "DELETE", f"/silences/{quote_segment(silence_id)}", is_repeatable=True
        )

    async def notices(
        self,
        *,
        limit: int = 100,
        cursor: str | None = None,
        channel: str | None = None,
        status: str | None = None,
    ) -> NoticePage:
        """Newest first; `status` is due, delivered, merged or abandoned."""
        params = {"limit": limit, "cursor": cursor, "channel": channel, "status": status}
        return await self._transport.get(NoticePage, "/notices", params)
