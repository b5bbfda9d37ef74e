"""Exceptions by which an executor ends a task: as failed, or as parked until later."""

from __future__ import annotations

from crawlfleet.model.status import ErrorClass

ERRORS = tuple(error.word for error in ErrorClass)


class TaskError(Exception):
    """A failure raised by an executor on purpose; `permanent` means that a retry cannot help."""

    def __init__(self, message: str, error: str = "internal", permanent: bool = False) -> None:
        if error not in ERRORS:
            raise ValueError(f"error: {error!r} is none of {', '.join(ERRORS)}")
        super().__init__(message)
        self.error = error
        self.permanent = permanent


class TryLater(Exception):
    """The task cannot be done now, through no fault of its own: it is parked for `after_s`, which costs no retry."""

    def __init__(self, message: str, after_s: float) -> None:
        if not 0 <= after_s < float("inf"):
            raise ValueError(f"after_s: {after_s!r} is no span of time")
        super().__init__(message)
        self.after_s = after_s
