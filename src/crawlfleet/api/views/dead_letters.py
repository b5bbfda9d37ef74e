"""How dead letters are shown."""

from __future__ import annotations

import msgspec

from crawlfleet.api.views.tasks import ErrorView, ExecutionView, TaskView, Time, error_view
from crawlfleet.model.ids import task_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.task import DeadLetter, DeadLetterGroup


class DeadLetterView(msgspec.Struct, frozen=True):
    task_id: str
    round: int
    project_id: str | None
    task_type: str
    cause: str
    error: ErrorView | None
    buried_at: Time


class DeadLetterPageView(msgspec.Struct, frozen=True):
    dead_letters: list[DeadLetterView]
    next_cursor: str | None


class DeadLetterDetail(msgspec.Struct, frozen=True):
    """A dead letter with its whole history."""

    dead_letter: DeadLetterView
    task: TaskView
    executions: list[ExecutionView]


class CauseView(msgspec.Struct, frozen=True):
    cause: str
    count: int
    newest_at: Time
    example: str


class CausesView(msgspec.Struct, frozen=True):
    groups: list[CauseView]


def letter_view(letter: DeadLetter) -> DeadLetterView:
    return DeadLetterView(
        task_text(letter.task),
        letter.round,
        letter.project or None,
        letter.task_type,
        letter.cause,
        error_view(letter.failure),
        to_text(letter.buried_at),
    )


def cause_view(group: DeadLetterGroup) -> CauseView:
    return CauseView(group.cause, group.count, to_text(group.newest_at), task_text(group.example))
