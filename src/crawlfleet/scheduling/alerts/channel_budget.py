"""The rate of a channel: a sliding window of sent notices, and the digest that replaces what exceeds it.

Chat services bar a robot for minutes when it sends too much, so that our bound is below theirs. Nothing is dropped:
the notices beyond the bound are merged into one digest, which takes the last free place of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import NOTICE_ITEMS, Notice, NoticeItem, NoticeState, Severity

DIGEST = "digest"
"""The rule of a digest over several rules."""
_URGENCY = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class ChannelBudget:
    """The sliding window of one channel: at most `max_notices` in any `window_ms`."""

    max_notices: int
    window_ms: int
    sent_at: tuple[Instant, ...] = ()
    """When the notices of the current window were sent, in order."""

    def free_places(self, now: Instant) -> int:
        """Return how many notices may be sent now."""
        return max(0, self.max_notices - len(self._in_window(now)))

    def next_free_at(self, now: Instant) -> Instant:
        """Return the first instant, `now` at the earliest, at which a notice may be sent."""
        recent = self._in_window(now)
        if len(recent) < self.max_notices:
            return now
        return recent[-self.max_notices] + self.window_ms

    def record_sent(self, now: Instant) -> ChannelBudget:
        """Return the budget after one more attempt: an attempt that was refused counts as well."""
        return replace(self, sent_at=(*self._in_window(now), now))

    def _in_window(self, now: Instant) -> tuple[Instant, ...]:
        # A clock that was set far back leaves instants of the future; those would block the channel for as long.
        return tuple(sorted(sent for sent in self.sent_at if now - self.window_ms < sent <= now + self.window_ms))


@dataclass(frozen=True, slots=True)
class SendPlan:
    """Which of the due notices of a channel are sent by themselves, and which go into one digest."""

    single: tuple[Notice, ...] = ()
    merged: tuple[Notice, ...] = ()
    """The notices of the digest; none, or at least two."""


def plan_sending(due: Sequence[Notice], budget: ChannelBudget, now: Instant) -> SendPlan:
    """Decide what to send now of the due notices, given in the order in which they became due.

    The plan never exceeds the free places. Without a free place it is empty: all wait. Tests are never merged, because
    a person waits for the answer of the service.
    """
    free = budget.free_places(now)
    if len(due) <= free:
        return SendPlan(single=tuple(due))
    tests = [notice for notice in due if notice.state is NoticeState.TEST][:free]
    rest = [notice for notice in due if notice.state is not NoticeState.TEST]
    free -= len(tests)
    if len(rest) <= free:
        return SendPlan(single=(*tests, *rest))
    if free == 0:
        return SendPlan(single=tuple(tests))
    urgent_first = sorted(rest, key=lambda notice: _URGENCY[notice.severity])
    alone = {notice.id for notice in urgent_first[: free - 1]}
    return SendPlan(
        single=(*tests, *(notice for notice in rest if notice.id in alone)),
        merged=tuple(notice for notice in rest if notice.id not in alone),
    )


def merge_notices(notice_id: str, notices: Sequence[Notice], now: Instant) -> Notice:
    """Return the digest of several notices: the alerts of all, the most urgent first, and how many there are."""
    items = sorted((item for notice in notices for item in _items(notice)), key=lambda item: _URGENCY[item.severity])
    rules = {(notice.rule, notice.kind) for notice in notices}
    rule, kind = rules.pop() if len(rules) == 1 else (DIGEST, "")
    scopes = {notice.scope for notice in notices}
    links = {notice.link for notice in notices}
    return Notice(
        id=notice_id,
        state=NoticeState.DIGEST,
        rule=rule,
        kind=kind,
        severity=min((notice.severity for notice in notices), key=_URGENCY.__getitem__),
        scope=scopes.pop() if len(scopes) == 1 else "*",
        created_at=now,
        since=min((notice.since for notice in notices if notice.since is not None), default=None),
        link=links.pop() if len(links) == 1 else "",
        installation=notices[0].installation,
        count=sum(notice.count for notice in notices),
        items=tuple(items[:NOTICE_ITEMS]),
    )


def _items(notice: Notice) -> tuple[NoticeItem, ...]:
    if notice.items:
        return notice.items
    return (
        NoticeItem(
            rule=notice.rule,
            state=notice.state,
            severity=notice.severity,
            scope=notice.scope,
            value=notice.value,
            threshold=notice.threshold,
            since=notice.since,
            why=notice.why,
            kind=notice.kind,
        ),
    )
