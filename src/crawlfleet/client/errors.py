"""The exceptions that a call of the client can raise.

CrawlfleetError
├── ApiError           the master answered with an error
├── Unreachable        no master answered, also after the retries
├── NoEndpoint         no address of a master or no token was given or found
└── WaitTimeout        tasks were not final in time; they go on
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawlfleet.errors import ConfigError, CrawlfleetError, Unavailable

_PROBLEM_TYPE = "urn:crawlfleet:error:"


class ApiError(CrawlfleetError):
    """An error response: `code` is stable, `field` names what in the request was wrong."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        field: str | None = None,
        hint: str | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{field}: {detail}" if field and not detail.startswith(field) else detail)
        self.status = status
        self.error_code = code
        self.detail = detail
        self.field = field
        self.hint = hint
        self.more = more or {}
        """Complete content of the error response, with the members that only some errors have."""

    @property
    def is_foreign(self) -> bool:
        """Whether the response cannot come from a master: another server, or a proxy without a backend, is at its
        address."""
        return not str(self.more.get("type", "")).startswith(_PROBLEM_TYPE)

    @classmethod
    def from_problem(cls, status: int, problem: object) -> ApiError:
        """Make an error from a problem+json body; for another server's response (a proxy's page) it has only the
        status."""
        if not isinstance(problem, Mapping):
            hint = "no master answers like that: is the address right, or is there a proxy in front of it?"
            return cls(status, f"http_{status}", f"the server answered {status}", hint=hint)
        members: Mapping[str, Any] = problem
        return cls(
            status,
            str(members.get("code", f"http_{status}")),
            str(members.get("detail") or members.get("title") or f"the server answered {status}"),
            members.get("field"),
            members.get("hint"),
            members,
        )


class Unreachable(Unavailable):
    code = "unreachable"

    def __init__(self, url: str, cause: BaseException) -> None:
        # aiohttp's own text for a refused connection names host, port and TLS, and hides the reason at the end.
        reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        super().__init__(f"no master answers at {url}: {reason}")
        self.url = url


class NoEndpoint(ConfigError):
    def __init__(self, detail: str, hint: str) -> None:
        super().__init__(detail)
        self.hint = hint


class WaitTimeout(CrawlfleetError):
    code = "wait_timeout"

    def __init__(self, open_ids: Sequence[str], timeout_s: float, what: str | None = None) -> None:
        super().__init__(f"{what or f'{len(open_ids)} of the tasks are not final'} after {timeout_s:g} s")
        self.open_ids = tuple(open_ids)
