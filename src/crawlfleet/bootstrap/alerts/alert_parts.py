"""The parts of alerts in a master: rules, samplers, loops, and the services of people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.figures import Figures
from crawlfleet.control.alerts.alert_channels import AlertChannels
from crawlfleet.control.alerts.alert_options import AlertOptions
from crawlfleet.control.alerts.alert_reader import Alerts
from crawlfleet.control.alerts.alert_rules import AlertRules
from crawlfleet.control.alerts.alert_sampling import AlertSampling, Sampler
from crawlfleet.control.alerts.notice_maker import NoticeMaker
from crawlfleet.control.alerts.rule_preview import RulePreviews
from crawlfleet.control.alerts.samplers.figures import FigureSampler
from crawlfleet.control.alerts.samplers.hosts import HostSampler
from crawlfleet.control.alerts.samplers.masters import MasterSampler
from crawlfleet.control.alerts.samplers.nodes import NodeSampler
from crawlfleet.control.alerts.samplers.quotas import QuotaSampler
from crawlfleet.control.alerts.samplers.schedules import MissedTickSampler, RunSampler
from crawlfleet.control.alerts.samplers.tasks import TaskSampler
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.alert_evaluator import AlertEvaluator
from crawlfleet.control.loops.base import Loop
from crawlfleet.control.loops.leader_watcher import LeaderWatcher
from crawlfleet.control.loops.notifier import Notifier
from crawlfleet.control.loops.watchdog_pinger import WatchdogPinger
from crawlfleet.model.ids import IdFactory
from crawlfleet.model.requirement import Requirement
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import Store


class AlertInputs(NamedTuple):
    """The parts of a master that all parts of alerts share."""

    store: Store
    broker: Broker
    clock: Clock
    leadership: LeadershipState
    id_factory: IdFactory
    configure: Configure
    options: AlertOptions


class AlertParts:
    def __init__(self, inputs: AlertInputs, figures: Figures, blocked: Callable[[], Collection[Requirement]]) -> None:
        """Make the parts; `blocked` returns the requirements that no node can meet, as the dispatcher sees it."""
        store, broker, clock, leadership, id_factory, configure, options = inputs
        self.rules = AlertRules(store=store, clock=clock, configure=configure)
        self.alerts = Alerts(store=store, clock=clock, id_factory=id_factory, rules=self.rules)
        self.channels = AlertChannels(store=store, clock=clock, id_factory=id_factory, options=options)
        self.previews = RulePreviews(rules=self.rules, figures=figures, clock=clock)
        maker = NoticeMaker(id_factory=id_factory, options=options)
        samplers: Sequence[Sampler] = (
            NodeSampler(store=store, clock=clock),
            HostSampler(store=store),
            FigureSampler(figures=figures),
            TaskSampler(store=store, figures=figures, blocked=blocked),
            MissedTickSampler(store=store),
            RunSampler(store=store),
            QuotaSampler(store=store),
            MasterSampler(
                store=store,
                broker=broker,
                clock=clock,
                leadership=leadership,
                certificates=options.certificates,
            ),
        )
        self.sampling = AlertSampling(samplers, clock)
        self.evaluator = AlertEvaluator(
            store=store,
            broker=broker,
            clock=clock,
            leadership=leadership,
            rules=self.rules,
            sampling=self.sampling,
            maker=maker,
        )
        self.notifier = Notifier(
            store=store,
            broker=broker,
            clock=clock,
            leadership=leadership,
            maker=maker,
            factory=options.factory,
        )
        self.leader_watcher = LeaderWatcher(
            store=store,
            broker=broker,
            clock=clock,
            leadership=leadership,
            rules=self.rules,
            maker=maker,
            options=options,
        )
        self.watchdog = WatchdogPinger(clock=clock, leadership=leadership, ping=options.ping)

    @property
    def loops(self) -> list[Loop]:
        return [self.evaluator, self.notifier, self.leader_watcher, self.watchdog]
