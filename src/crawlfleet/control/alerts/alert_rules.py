"""The rules in force: the built-in ones with the thresholds of the settings, and what people changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.alerts.alert import AlertRule
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.ports.alert_store import AlertBook, AlertStore, RuleChange
from crawlfleet.ports.clock import Clock
from crawlfleet.scheduling.alerts.rule_changes import make_rule
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS, default_rules

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RuleReport:
    """A rule in force, with what a person set of it."""

    rule: AlertRule
    change: RuleChange | None


class AlertRules:
    def __init__(self, *, store: AlertStore, clock: Clock, configure: Configure) -> None:
        self._store = store
        self._clock = clock
        self._configure = configure

    async def load_defaults(self) -> dict[str, AlertRule]:
        """Return the built-in rules with the thresholds of the settings, which may be changed at run time."""
        settings = (await self._configure.load_effective_config(DEFAULT_CLUSTER)).settings
        thresholds = {
            "failure_rate": settings.alert_failure_rate,
            "queue_size": settings.alert_queue_size,
            "avg_duration": settings.alert_avg_duration_s,
        }
        return default_rules({name: value for name, value in thresholds.items() if value > 0})

    async def rules_in_force(self, book: AlertBook) -> dict[str, AlertRule]:
        """Return the rules by name: built-in ones first, each as it was changed."""
        defaults = await self.load_defaults()
        rules = dict(defaults)
        for change in book.rules:
            try:
                rules[change.name] = make_rule(change.name, change.values, defaults)
            except InvalidInput as exc:
                # It was valid once: a setting changed below it, or a newer master wrote it.
                log.warning("alert_rule_ignored", rule=change.name, error=str(exc))
        return rules

    async def list_rules(self) -> list[RuleReport]:
        book = await self._store.load_alerts(self._clock.now())
        changes = {change.name: change for change in book.rules}
        rules = await self.rules_in_force(book)
        return [RuleReport(rule, changes.get(name)) for name, rule in rules.items()]

    async def get_rule(self, name: str) -> RuleReport:
        """Raises NotFound."""
        for report in await self.list_rules():
            if report.rule.name == name:
                return report
        raise NotFound(f"no alert rule {name!r}")

    async def change_rule(
        self, name: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any]], by: str
    ) -> RuleReport:
        """Change the values that a person set of a rule, or add a rule. Raises InvalidInput, OverLimit."""
        now = self._clock.now()
        book = await self._store.load_alerts(now)
        before = next((each.values for each in book.rules if each.name == name), {})
        values = {key: value for key, value in change(before).items() if value is not None}
        rule = make_rule(name, values, await self.load_defaults())
        _check_channels(rule.channels, book)
        rule_change = RuleChange(name, values, now, by)
        await self._store.put_rule_change(rule_change)
        return RuleReport(rule, rule_change)

    async def reset_rule(self, name: str) -> None:
        """Give a built-in rule its defaults again, or remove another one. Raises NotFound."""
        if not await self._store.drop_rule_change(name) and name not in RULE_KINDS:
            raise NotFound(f"no alert rule {name!r}")

    async def draft_rule(self, name: str, values: Mapping[str, Any]) -> AlertRule:
        """Return the rule that values would make, over what is stored of it. Raises InvalidInput."""
        book = await self._store.load_alerts(self._clock.now())
        before = next((each.values for each in book.rules if each.name == name), {})
        merged = {key: value for key, value in {**before, **values}.items() if value is not None}
        return make_rule(name, merged, await self.load_defaults())


def _check_channels(channels: Sequence[str], book: AlertBook) -> None:
    unknown = sorted(set(channels) - {channel.name for channel in book.channels})
    if unknown:
        names = ", ".join(channel.name for channel in book.channels) or "there are none yet"
        raise InvalidInput(f"no channel {', '.join(unknown)}; channels: {names}", field="channels")
