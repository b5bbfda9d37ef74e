"""Explains why a step of a flow waits, or was never run, by the keys of the steps."""

from __future__ import annotations

from typing import Any

from crawlfleet.model.flow import PlaceInFlow, Unrun
from crawlfleet.model.ids import group_text
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import TaskRecord
from crawlfleet.scheduling.explain.task import Why

_NAMED = 5


def explain_step(task: TaskRecord, place: PlaceInFlow) -> Why | None:
    """Why the step waits or did not run; None where its flow has nothing to do with it."""
    about: dict[str, Any] = {"flow": group_text(place.flow), "step": place.key}
    if task.status is TaskStatus.WAITING and task.waits:
        if place.items is not None:
            sentence = f"waits for {task.waits} of its {place.items} items to end"
            return _why(task, "items", sentence, **about, waits=task.waits, items=place.items)
        named = [f"{key} ({_word(status)}, on {edge.word})" for key, edge, status in place.waits_for[:_NAMED]]
        if len(place.waits_for) > _NAMED:
            named.append(f"{len(place.waits_for) - _NAMED} more")
        sentence = f"waits for {task.waits} step{'' if task.waits == 1 else 's'} to end: {', '.join(named)}"
        shown = {key: {"on": edge.word, "status": _word(status)} for key, edge, status in place.waits_for}
        return _why(task, "steps", sentence, **about, waits=task.waits, steps=shown)
    if task.status is TaskStatus.CANCELLED and place.unrun is not Unrun.NOT:
        phrase = "was skipped" if place.unrun is Unrun.SKIPPED else "could not run"
        return _why(task, place.unrun.word, f"{phrase}: {task.reason}", **about, reason=task.reason)
    return None


def _why(task: TaskRecord, cause: str, sentence: str, **data: Any) -> Why:
    return Why(sentence, {"status": task.status.word, "cause": cause, **data})


def _word(status: TaskStatus | None) -> str:
    return "unknown" if status is None else status.word
