"""Measures the rules that are due: each kind by its sampler, each at its own pace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import structlog

from crawlfleet.errors import Unavailable
from crawlfleet.model.alerts.alert import AlertRule
from crawlfleet.model.instants import Instant
from crawlfleet.ports.alert_store import AlertBook
from crawlfleet.ports.clock import Clock
from crawlfleet.scheduling.alerts.evaluation import Measurements
from crawlfleet.scheduling.alerts.rule_kinds import scope_applies

log = structlog.get_logger()


class SampleRequest(NamedTuple):
    """A rule that is due to be measured."""

    rule: AlertRule
    book: AlertBook
    now: Instant

    @property
    def active_scopes(self) -> list[str]:
        """The scopes for which the rule fires now."""
        states = self.book.states.values()
        return [state.scope for state in states if state.rule == self.rule.name and state.status.is_active]


class Sampler(Protocol):
    """Measures the rules of some kinds."""

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of rules that it measures."""
        ...

    @property
    def every_s(self) -> float:
        """The span between two measurements of a rule; 0 for every pass."""
        ...

    async def measure(self, request: SampleRequest) -> Measurements:
        """Return the samples of a rule; those of scopes that the rule does not cover are left out later."""
        ...


class AlertSampling:
    def __init__(self, samplers: Sequence[Sampler], clock: Clock) -> None:
        self._samplers = {kind: sampler for sampler in samplers for kind in sampler.kinds}
        self._clock = clock
        self._measured_at: dict[str, float] = {}

    @property
    def kinds(self) -> set[str]:
        """The kinds of rules that are measured."""
        return set(self._samplers)

    async def measure(self, rules: Mapping[str, AlertRule], book: AlertBook, now: Instant) -> dict[str, Measurements]:
        """Measure the enabled rules that are due. A rule whose sampler fails is left out: its alerts stay as they are.

        Raises Unavailable when the store does not answer.
        """
        measured: dict[str, Measurements] = {}
        now_mono = self._clock.monotonic()
        for name, rule in rules.items():
            sampler = self._samplers.get(rule.kind)
            if sampler is None or not rule.is_enabled:
                continue
            last = self._measured_at.get(name)
            if last is not None and now_mono - last < sampler.every_s:
                continue
            self._measured_at[name] = now_mono
            try:
                measurements = await sampler.measure(SampleRequest(rule, book, now))
            except Unavailable:
                raise
            except Exception:
                # A bug in one sampler must not silence the other rules.
                log.exception("alert_rule_unmeasured", rule=name)
                continue
            samples = {
                scope: sample for scope, sample in measurements.samples.items() if scope_applies(rule.scope, scope)
            }
            measured[name] = measurements._replace(samples=samples)
        self._measured_at = {name: last for name, last in self._measured_at.items() if name in rules}
        return measured
