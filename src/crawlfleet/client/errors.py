"""What a call can end in beside its answer.

CrawlfleetError
├── ApiError           the master answered with an error
├── Unreachable        no master answered, also after the retries
├── NoEndpoint         nobody said which master, or with which token
└── WaitTimeout        tasks were not final in time; they go on
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawlfleet.errors import ConfigError, CrawlfleetError, Unavailable

_PROBLEM_TYPE = "urn:crawlfleet:error:"


class ApiError(CrawlfleetError):
    """An error answer: `code` is stable, `field` names what in the request was wrong."""

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
        """All that was said, with what only some errors say."""

    @property
    def is_foreign(self) -> bool:
        """No master answers like that: another server, or a proxy without a backend, stands at its address."""
        return not str(self.more.get("type", "")).startswith(_PROBLEM_TYPE)

    @classmethod
    def from_problem(cls, status: int, problem: object) -> ApiError:
        """From a problem+json body; another server's answer (a proxy's page) is told by its status."""
        if not isinstance(problem, Mapping):
            hint = "no master answers like that: is the address right, or is there a proxy in front of it?"
            return cls(status, f"http_{status}", f"the server answered {status}", hint=hint)
        said: Mapping[str, Any] = problem
        return cls(
            status,
            str(said.get("code", f"http_{status}")),
            str(said.get("detail") or said.get("title") or f"the server answered {status}"),
            said.get("field"),
            said.get("hint"),
            said,
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
