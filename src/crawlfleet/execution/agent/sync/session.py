"""Opening a session: the saved outcomes are sent first, and all executions of an older session are abandoned."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from crawlfleet.errors import CrawlfleetError, NotAllowed, NotFound
from crawlfleet.execution.agent.config import Config
from crawlfleet.execution.agent.drain import NodeDrain
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
"""Timeout of an open call, which carries a whole batch of saved outcomes."""
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.1, 3.0
BETWEEN_SESSIONS_S = 1.0
"""Least time between two sessions: two agents with one id end each other's, and must not do so in a tight loop."""


@dataclass(frozen=True, slots=True)
class Session:
    """An open session of the node."""

    number: int


@dataclass(frozen=True, slots=True)
class Credentials:
    """Id, secret and task types with which the node opens a session."""

    node: int
    secret: str
    task_types: Sequence[str]


class NodeRemoved(Exception):
    """The node was removed, or its secret revoked: every master that answered has rejected it for a while."""


class LeavingUnopened(Exception):
    """The agent was asked to leave, has no session (perhaps because its last sync arrived) and nothing to report."""


class SessionOpener:
    """Opens sessions: at the start of the agent, and after each one that ended."""

    def __init__(
        self,
        credentials: Credentials,
        masters: Masters,
        *,
        runner: Runner,
        slots: Slots,
        outcomes: Outcomes,
        guard: LeaseGuard,
        drain: NodeDrain,
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
        self._newest_session = 0

    async def open_session(self) -> Session:
        """Try one master after the other until one opens a session. Raises NodeRemoved or LeavingUnopened."""
        self._guard.end_lease()
        self._runner.abandon_all()
        self._grants.start_session()
        failures = 0
        reported: list[int] = []
        while True:
            await self._wait_for_next_try()
            master, sent_at = self._masters.current, self._clock.monotonic()
            self._not_before = sent_at + self._masters.add_jitter(BETWEEN_SESSIONS_S)
            self._outcomes.save()
            request = self._build_request()
            try:
                async with asyncio.timeout(OPEN_S):
                    answer = await self._masters.transport(master).open(request)
            except (NotAllowed, NotFound) as exc:
                self._rejections.record_rejection()
                if self._rejections.are_believed:
                    raise NodeRemoved(str(exc)) from exc
                self._on_event(AgentEvent.CALL_FAILED, {"call": "open", "master": master, "error": repr(exc)})
                self._masters.move_on(master)
                self._not_before = self._clock.monotonic() + self._masters.add_jitter(self._rejections.pause_s)
            except (CrawlfleetError, TimeoutError) as exc:
                if isinstance(exc, MessageTooLarge):
                    self._outcomes.shrink_batches(request.outcomes, refusal=exc)
                elif isinstance(exc, TimeoutError):
                    self._outcomes.shrink_batches(request.outcomes)
                failures += 1
                self._on_event(AgentEvent.CALL_FAILED, {"call": "open", "master": master, "error": repr(exc)})
                self._masters.move_on(master)
                backoff_s = self._masters.backoff_s(failures, FIRST_BACKOFF_S, LONGEST_BACKOFF_S)
                self._not_before = self._clock.monotonic() + backoff_s
            else:
                self._rejections.clear()
                self._newest_session = answer.session
                self._masters.apply_list(answer.masters)
                reported += self._outcomes.drop(answer.acknowledged)
                failures = 0
                if answer.is_open:
                    return self._start_session(reported, answer, sent_at)
                # More outcomes wait, or there are unknown sessions: an earlier start's, or one whose answer
                # was lost.
                self._not_before = self._clock.monotonic()

    async def _wait_for_next_try(self) -> None:
        """Wait until the next try is due, or return earlier when the agent is asked to leave."""
        if not self._drain.is_leaving:
            try:
                async with asyncio.timeout(max(0.0, self._not_before - self._clock.monotonic())):
                    await self._drain.leaving.wait()
            except TimeoutError:
                return
        if not len(self._outcomes):
            raise LeavingUnopened
        await asyncio.sleep(max(0.0, self._not_before - self._clock.monotonic()))

    def _build_request(self) -> OpenUp:
        """The open request. The one with the last outcomes opens the session, which ends what the node still held."""
        batch = self._outcomes.next_batch()
        return OpenUp(
            node=self._credentials.node,
            secret=self._credentials.secret,
            outcomes=batch.outcomes,
            slots=self._slots.declared,
            task_types=list(self._credentials.task_types),
            after=HANDS_OVER_ONLY if batch.remaining else self._newest_session,
            is_departing=self._drain.is_leaving,
        )

    def _start_session(self, reported: list[int], answer: OpenDown, sent_at: float) -> Session:
        lease_s = answer.lease_ms / 1000
        self._guard.start_lease(lease_s, sent_at)
        self._config.start_session(answer.sync_ms / 1000, lease_s)
        self._runner.session = answer.session
        data: dict[str, object] = {"session": answer.session, "lease_s": lease_s, "reported": reported}
        self._on_event(AgentEvent.SESSION_OPENED, data)
        return Session(answer.session)
