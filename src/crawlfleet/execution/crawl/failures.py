"""Why a page was not crawled. The words of `error` are the classes of errors that retries are decided by."""

from __future__ import annotations

BLOCKED = frozenset({403, 429})
PASSING = frozenset({408, 425, 429})
"""Answers of the 4xx kind that another try may change."""


class PageFailed(Exception):
    def __init__(
        self, error: str, message: str, *, permanent: bool = False, status: int = 0, retry_after_s: float = 0.0
    ) -> None:
        super().__init__(message)
        self.error = error
        self.permanent = permanent
        self.status = status
        self.retry_after_s = retry_after_s
        """How long the site asks us to stay away; 0 when it does not say."""


class PageSkipped(Exception):
    """Nothing went wrong: the page is known already, belongs to another site, or is not of a kind that is read."""


class PageKnown(PageSkipped):
    """It redirects to a page that is visited as itself."""


class PageMoved(Exception):
    """It redirects to a page that was not known: that is visited in its place."""


def refused_by_site(url: str, status: int, retry_after_s: float) -> PageFailed:
    """What an answer of 4xx or 5xx means."""
    error = "blocked" if status in BLOCKED else "http"
    permanent = 400 <= status < 500 and status not in PASSING and status not in BLOCKED
    return PageFailed(error, f"{url} answers {status}", permanent=permanent, status=status, retry_after_s=retry_after_s)
