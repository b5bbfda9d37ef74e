"""Makes the notices of a message: one for each channel of its rule, with the facts that channels put into words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from crawlfleet.control.alerts.alert_options import AlertOptions
from crawlfleet.model.alerts.alert import INSTALLATION_SCOPE, AlertChannel, AlertRule
from crawlfleet.model.ids import IdFactory
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import NOTICE_ITEMS, WHY_CHARS, Notice, NoticeItem
from crawlfleet.ports.alert_store import NewNotice
from crawlfleet.scheduling.alerts.notice_plan import GroupMessage, MessageItem, message_severity


class NoticeMaker:
    def __init__(self, *, id_factory: IdFactory, options: AlertOptions) -> None:
        self._ids = id_factory
        self._options = options

    def make_notices(
        self, messages: Iterable[GroupMessage], channels: Sequence[AlertChannel], now: Instant
    ) -> list[NewNotice]:
        """Return the notices of all messages, for the enabled channels of their rules."""
        return [
            self._make_notice(message, channel.name, now)
            for message in messages
            for channel in channels
            if is_receiver(message.rule, channel) and not _is_about(message, channel)
        ]

    def new_id(self) -> tuple[int, str]:
        """Return the number of a notice and its text, which receivers see."""
        number = self._ids.new_id()
        return number, f"notice-{number:016x}"

    def _make_notice(self, message: GroupMessage, channel: str, now: Instant) -> NewNotice:
        number, text = self.new_id()
        rule, items = message.rule, message.items
        first = items[0].alert
        is_single = len(items) == 1
        # A kind stands for all of its scopes, and the star for the installation.
        scope = first.scope if is_single else message.scope_kind
        notice = Notice(
            id=text,
            state=message.state,
            rule=rule.name,
            severity=message_severity(message),
            scope=scope or INSTALLATION_SCOPE,
            created_at=now,
            value=first.value if is_single else None,
            threshold=rule.threshold,
            since=min((item.alert.fired_at for item in items if item.alert.fired_at is not None), default=None),
            why=first.why[:WHY_CHARS] if is_single else "",
            link=self._link(rule.name),
            installation=self._options.installation,
            reminder=message.reminder,
            count=len(items),
            kind=_other_kind(rule),
            items=() if is_single else tuple(_notice_item(message, item) for item in items[:NOTICE_ITEMS]),
        )
        return NewNotice(number, channel, notice)

    def _link(self, rule: str) -> str:
        if not self._options.public_url:
            return ""
        return f"{self._options.public_url.rstrip('/')}/api/v1/alerts?{urlencode({'rule': rule})}"


def is_receiver(rule: AlertRule, channel: AlertChannel) -> bool:
    """Return whether notices of a rule go to a channel."""
    return channel.is_enabled and (not rule.channels or channel.name in rule.channels)


def unreceived_rules(rules: Iterable[AlertRule], channels: Sequence[AlertChannel]) -> set[str]:
    """Return the names of the rules whose notices go to no channel."""
    return {rule.name for rule in rules if not any(is_receiver(rule, channel) for channel in channels)}


def _is_about(message: GroupMessage, channel: AlertChannel) -> bool:
    """Return whether a message is about this channel alone: that it fails is sent through the others."""
    return {item.alert.scope for item in message.items} == {f"channel:{channel.name}"}


def _notice_item(message: GroupMessage, item: MessageItem) -> NoticeItem:
    return NoticeItem(
        rule=message.rule.name,
        state=item.state,
        severity=message.rule.severity,
        scope=item.alert.scope,
        value=item.alert.value,
        threshold=message.rule.threshold,
        since=item.alert.fired_at,
        why=item.alert.why[:WHY_CHARS],
        kind=_other_kind(message.rule),
    )


def _other_kind(rule: AlertRule) -> str:
    return "" if rule.kind == rule.name else rule.kind
