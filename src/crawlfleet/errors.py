"""The hierarchy of all errors.

    CrawlfleetError
    ├── UsageError                 the caller can correct it
    │   ├── InvalidInput     422   names the field
    │   ├── NotFound         404
    │   ├── Conflict         409   illegal transition, other body under one idempotency key, ...
    │   │   ├── NotLeader          a write of an older term
    │   │   └── SessionEnded       a node sends a message of a session that is over
    │   ├── NotAllowed       403
    │   └── OverLimit        429   carries the time to wait before a retry
    ├── Unavailable          503   a retry can help
    │   ├── StoreUnavailable       nothing was written
    │   ├── ReadTooLong            a person's search takes longer than it may
    │   └── OutcomeUnknown         the write may or may not have happened: read again before deciding
    ├── ConfigError                names the setting
    │   └── StoreInUse             another master holds the store
    └── InvariantBroken      500   a bug of crawlfleet

Inside a batch a bad item is an answer (`model.refusal.Refusal`), not an exception.
"""

from __future__ import annotations

from typing import ClassVar


class CrawlfleetError(Exception):
    """The root of all errors."""

    code: ClassVar[str] = "error"
    """Stable code of the error, on which clients may branch."""
    http_status: ClassVar[int] = 500
    """HTTP status of the response."""
    may_retry: ClassVar[bool] = False
    """Whether the same call can succeed later."""


class UsageError(CrawlfleetError):
    """An error that the caller can correct."""

    code = "usage"
    http_status = 400


class InvalidInput(UsageError):
    """The input is not valid; `field` names the field, where there is one."""

    code = "invalid_input"
    http_status = 422

    def __init__(self, detail: str, *, field: str | None = None) -> None:
        super().__init__(f"{field}: {detail}" if field else detail)
        self.detail = detail
        self.field = field


class NotFound(UsageError):
    """The named object does not exist."""

    code = "not_found"
    http_status = 404


class Conflict(UsageError):
    """The state of the object does not allow the change."""

    code = "conflict"
    http_status = 409


class NotLeader(Conflict):
    """The write carries an older term than the current leadership."""

    code = "not_leader"

    def __init__(self, term: int) -> None:
        super().__init__(f"term {term} is over")
        self.term = term


class SessionEnded(Conflict):
    """The message belongs to a session of a node that is over."""

    code = "session_ended"


class NotAllowed(UsageError):
    """The caller may not do this."""

    code = "not_allowed"
    http_status = 403


class OverLimit(UsageError):
    """A limit is reached; `retry_after_s` is the span to wait before a retry."""

    code = "over_limit"
    http_status = 429

    def __init__(self, detail: str = "", *, retry_after_s: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class Unavailable(CrawlfleetError):
    """A part that is needed does not answer; a retry can help."""

    code = "unavailable"
    http_status = 503
    may_retry = True

    def __init__(self, detail: str = "", *, told: str = "the store does not answer") -> None:
        super().__init__(detail)
        self.told = told
        """Message for all users; the detail may contain a driver's text, with addresses and names, and is for the log.
        """


class StoreUnavailable(Unavailable):
    """The store does not answer; nothing was written."""

    code = "store_unavailable"


class ReadTooLong(Unavailable):
    """A person's search takes longer than it may."""

    code = "read_too_long"
    may_retry = False

    def __init__(self, detail: str = "") -> None:
        told = "this takes too long to look up: ask for less, by a project, a status, a group or a smaller limit"
        super().__init__(detail or told, told=told)


class OutcomeUnknown(Unavailable):
    """The write may or may not have happened: read again before deciding."""

    code = "outcome_unknown"


class ConfigError(CrawlfleetError):
    """A setting is not usable; the message names it."""

    code = "config"


class StoreInUse(ConfigError):
    """Another master holds the store, and does not share it."""


class InvariantBroken(CrawlfleetError):
    """A bug of crawlfleet: something that cannot be the case is."""

    code = "invariant_broken"
