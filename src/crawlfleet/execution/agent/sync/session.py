"""Opening a session: the saved outcomes go up first, and nothing of an older session is held any more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from crawlfleet.errors import CrawlfleetError, NotAllowed, NotFound
from crawlfleet.execution.agent.config import Config
from crawlfleet.execution.agent.drain import Drain
from crawlfleet.execution.agent.events import AgentEvent, OnEvent
from crawlfleet.execution.agent.sync.masters import Masters
from crawlfleet.execution.agent.work.lease_guard import LeaseGuard
from crawlfleet.execution.agent.work.outcomes import Outcomes
from crawlfleet.execution.agent.work.runner import Runner
from crawlfleet.execution.agent.work.slots import Slots
from crawlfleet.execution.budget.host_grants import HostGrants
from crawlfleet.execution.master_calls.rejections import Rejections
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.transport import MessageTooLarge
from crawlfleet.wire.sync import HANDS_OVER_ONLY, OpenDown, OpenUp

OPEN_S = 10.0
"""How long a call may take: it carries a whole batch of saved outcomes."""
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.1, 3.0
BETWEEN_SESSIONS_S = 1.0
"""Two agents under one id end each other's sessions; they must not do it as fast as they can."""


@dataclass(frozen=True, slots=True)
class Session:
    number: int


@dataclass(frozen=True, slots=True)
class Credentials:
    node: int
    secret: str
    task_types: Sequence[str]


class NodeRemoved(Exception):
    """No master knows this node any more, or its secret is revoked: said for a while, by all that answer."""


class LeavingUnopened(Exception):
    """The agent was asked to leave, has no session (perhaps because its goodbye was heard) and nothing to report."""


class SessionOpener:
    def __init__(
        self,
        credentials: Credentials,
        masters: Masters,
        *,
        runner: Runner,
        slots: Slots,
        outcomes: Outcomes,
        guard: LeaseGuard,
        drain: Drain,
        config: Config,
        grants: HostGrants,
        rejections: Rejections,
        clock: Clock,
        on_event: OnEvent,
    ) -> None:
        self._credentials = credentials
        self._masters = masters
        self._runner = runner
        self._slots = slots
        self._outcomes = outcomes
        self._guard = guard
        self._drain = drain
        self._config = config
        self._grants = grants
        self._rejections = rejections
        self._clock = clock
        self._on_event = on_event
        self._not_before = clock.monotonic()
        self._newest = 0

    async def open(self) -> Session:
        """Tries one master after the other until one opens it. Raises NodeRemoved or LeavingUnopened."""
        self._guard.end()
        self._runner.abandon_all()
        self._grants.begin()
        failures = 0
        reported: list[int] = []
        while True:
            await self._pause()
            place, sent_at = self._masters.current, self._clock.monotonic()
            self._not_before = sent_at + self._masters.spread(BETWEEN_SESSIONS_S)
            self._outcomes.save()
            up = self._up()
            try:
                async with asyncio.timeout(OPEN_S):
                    down = await self._masters[place].open(up)
            except (NotAllowed, NotFound) as exc:
                self._rejections.note()
                if self._rejections.are_believed:
                    raise NodeRemoved(str(exc)) from exc
                self._on_event(AgentEvent.CALL_FAILED, {"call": "open", "master": place, "error": repr(exc)})
                self._masters.move_on(place)
                self._not_before = self._clock.monotonic() + self._masters.spread(self._rejections.pause_s)
            except (CrawlfleetError, TimeoutError) as exc:
                if isinstance(exc, MessageTooLarge):
                    self._outcomes.send_less(up.outcomes, refusal=exc)
                elif isinstance(exc, TimeoutError):
                    self._outcomes.send_less(up.outcomes)
                failures += 1
                self._on_event(AgentEvent.CALL_FAILED, {"call": "open", "master": place, "error": repr(exc)})
                self._masters.move_on(place)
                backoff_s = self._masters.backoff_s(failures, FIRST_BACKOFF_S, LONGEST_BACKOFF_S)
                self._not_before = self._clock.monotonic() + backoff_s
            else:
                self._rejections.clear()
                self._newest = down.session
                reported += self._outcomes.drop(down.acknowledged)
                failures = 0
                if down.is_open:
                    return self._opened(reported, down, sent_at)
                # More outcomes wait, or there are sessions we did not know of: an earlier start's, or one whose answer
                # was lost.
                self._not_before = self._clock.monotonic()

    async def _pause(self) -> None:
        """Until the next try is due; a wish to leave is heard meanwhile."""
        if not self._drain.is_leaving:
            try:
                async with asyncio.timeout(max(0.0, self._not_before - self._clock.monotonic())):
                    await self._drain.leaving.wait()
            except TimeoutError:
                return
        if not len(self._outcomes):
            raise LeavingUnopened
        await asyncio.sleep(max(0.0, self._not_before - self._clock.monotonic()))

    def _up(self) -> OpenUp:
        """With the last of the outcomes the session is opened: what its node still held by then is taken from it."""
        batch = self._outcomes.batch()
        return OpenUp(
            node=self._credentials.node,
            secret=self._credentials.secret,
            outcomes=batch.outcomes,
            slots=self._slots.declared,
            task_types=list(self._credentials.task_types),
            after=HANDS_OVER_ONLY if batch.left else self._newest,
            is_departing=self._drain.is_leaving,
        )

    def _opened(self, reported: list[int], down: OpenDown, sent_at: float) -> Session:
        lease_s = down.lease_ms / 1000
        self._guard.begin(lease_s, sent_at)
        self._config.begin(down.sync_ms / 1000, lease_s)
        self._runner.session = down.session
        data: dict[str, object] = {"session": down.session, "lease_s": lease_s, "reported": reported}
        self._on_event(AgentEvent.SESSION_OPENED, data)
        return Session(down.session)
