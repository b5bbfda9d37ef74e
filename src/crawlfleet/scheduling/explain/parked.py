"""Explains why a task is parked: what it waits for, until when, and when it is tried again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from crawlfleet.model.execution import ParkCause
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import ParkedTask, TaskRecord
from crawlfleet.scheduling.explain.task import Explanation
from crawlfleet.scheduling.explain.wording import instant_text, span_text, times_text, when_text
from crawlfleet.scheduling.quotas.daily_quota import DailyQuotaViolation


def explain_parked(
    task: TaskRecord, parking: ParkedTask, now: Instant, short: DailyQuotaViolation | None = None
) -> Explanation | None:
    """Why the task is parked; None for one that is not parked any more, or waits for other tasks before anything else.
    `short` is the daily quota of its project of which too little is left now."""
    if task.status is not TaskStatus.WAITING or task.waits:
        return None
    about: dict[str, Any]
    match parking.cause:
        case ParkCause.HOST_BACKOFF:
            about, phrase = {"host": parking.subject}, f"host {parking.subject} in back-off"
        case ParkCause.DAILY_QUOTA:
            return _why_short(task, parking, now, short)
        case ParkCause.LATER:
            about, phrase = {}, f"was parked by its executor ({parking.message})"
        case _:
            assert_never(parking.cause)
    sentence = f"{phrase} until {to_text(parking.until)}" + (
        f", in {span_text(parking.until - now)}"
        if parking.until > now
        else f"; is tried again {when_text(task.due_at, now)}"
    )
    return _why(task, parking, sentence, about)


def _why_short(task: TaskRecord, parking: ParkedTask, now: Instant, short: DailyQuotaViolation | None) -> Explanation:
    about: dict[str, Any]
    if short is None:
        # The quota was raised, or an execution gave back what it did not use: the stager is about to see that too.
        about, sentence = {"project": task.project}, "waited for its project's day, of which there is enough again"
    else:
        about, sentence = short.as_data(), short.sentence
    return _why(task, parking, f"{sentence}; is tried again {when_text(task.due_at, now)} at the latest", about)


def _why(task: TaskRecord, parking: ParkedTask, sentence: str, about: Mapping[str, Any]) -> Explanation:
    if parking.times > 1:
        sentence += f"; parked {times_text(parking.times)} so far"
    data = {
        **about,
        "until": to_text(parking.until),
        "retry_at": instant_text(task.due_at),
        "parked": parking.times,
        "reason": parking.message,
    }
    return Explanation(sentence, {"status": task.status.word, "cause": parking.cause.word, **data})
