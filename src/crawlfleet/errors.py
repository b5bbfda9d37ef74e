"""The one tree of errors.

    CrawlfleetError
    ├── UsageError                 the caller can mend it
    │   ├── InvalidInput     422   names the field
    │   ├── NotFound         404
    │   ├── Conflict         409   illegal transition, other body under one idempotency key, ...
    │   │   ├── NotLeader          a write of an older term
    │   │   └── SessionEnded       a node speaks for a session that is over
    │   ├── NotAllowed       403
    │   └── OverLimit        429   says when to come again
    ├── Unavailable          503   a retry can help
    │   ├── StoreUnavailable       nothing was written
    │   ├── ReadTooLong            what a person looks for takes longer than it may
    │   └── OutcomeUnknown         the write may or may not have happened: read again before deciding
    ├── ConfigError                names the setting
    └── InvariantBroken      500   a bug of ours

Inside a batch a bad item is an answer (`model.refusal.Refusal`), not an exception.
"""

from __future__ import annotations

from typing import ClassVar


class CrawlfleetError(Exception):
    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500
    may_retry: ClassVar[bool] = False


class UsageError(CrawlfleetError):
    code = "usage"
    http_status = 400


class InvalidInput(UsageError):
    code = "invalid_input"
    http_status = 422

    def __init__(self, detail: str, *, field: str | None = None) -> None:
        super().__init__(f"{field}: {detail}" if field else detail)
        self.detail = detail
        self.field = field


class NotFound(UsageError):
    code = "not_found"
    http_status = 404


class Conflict(UsageError):
    code = "conflict"
    http_status = 409


class NotLeader(Conflict):
    code = "not_leader"

    def __init__(self, term: int) -> None:
        super().__init__(f"term {term} is over")
        self.term = term


class SessionEnded(Conflict):
    code = "session_ended"


class NotAllowed(UsageError):
    code = "not_allowed"
    http_status = 403


class OverLimit(UsageError):
    code = "over_limit"
    http_status = 429

    def __init__(self, detail: str = "", *, retry_after_s: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class Unavailable(CrawlfleetError):
    code = "unavailable"
    http_status = 503
    may_retry = True

    def __init__(self, detail: str = "", *, told: str = "the store does not answer") -> None:
        super().__init__(detail)
        self.told = told
        """For everybody; the detail may hold a driver's words, with addresses and names in them, and is for the log."""


class StoreUnavailable(Unavailable):
    code = "store_unavailable"


class ReadTooLong(Unavailable):
    code = "read_too_long"
    may_retry = False

    def __init__(self, detail: str = "") -> None:
        told = "this takes too long to look up: ask for less, by a project, a status, a group or a smaller limit"
        super().__init__(detail or told, told=told)


class OutcomeUnknown(Unavailable):
    code = "outcome_unknown"


class ConfigError(CrawlfleetError):
    code = "config"


class InvariantBroken(CrawlfleetError):
    code = "invariant_broken"
