"""Failures of pages: why a page was not crawled.

`error` is the class of errors that decides about retries. `kind` is what happened in more detail, for people and for
counts: dns, connect, tls, closed, cut, protocol, timeout, status, blocked, rate_limited, too_large, decode, policy,
redirects, proxy.
"""

from __future__ import annotations

BLOCKED = frozenset({403, 429})
PASSING = frozenset({408, 425, 429})
"""Statuses of the 4xx kind that another try may change."""


BY_STATUS = frozenset({"status", "blocked", "rate_limited"})
"""Kinds of failures by the status of an answer; with the others there was no answer, or none that can be read."""


SILENT = frozenset({"dns", "connect", "closed", "cut", "timeout", "proxy"})
"""Kinds that may be a failure of the host as well as of the page: there was no connection, or it did not last."""
FOR_ANOTHER = frozenset({502, 503, 504})
"""Statuses that a gateway in front of a site answers while the site is away, or for a page that breaks it."""


class PageFailed(Exception):
    def __init__(
        self,
        error: str,
        message: str,
        *,
        permanent: bool = False,
        status: int = 0,
        retry_after_s: float = 0.0,
        kind: str = "",
        block_product: str | None = None,
        failed_url: str = "",
    ) -> None:
        super().__init__(message)
        self.error = error
        self.kind = kind or error
        self.block_product = block_product
        """Product that made the block page, where it is recognised."""
        self.failed_url = failed_url
        """URL whose connection failed, which redirects may have led to."""
        self.permanent = permanent
        self.status = status
        self.retry_after_s = retry_after_s
        """Seconds for which the site asks us to stay away; 0 when it names none."""

    @property
    def is_block_page(self) -> bool:
        """Whether the site refuses us, however slowly we send requests."""
        return self.kind == "blocked"

    @property
    def may_be_host_outage(self) -> bool:
        """Whether the host may have failed, not the page; a wait that the site asks for is neither."""
        return self.kind in SILENT or (self.status in FOR_ANOTHER and not self.is_block_page and not self.asks_to_wait)

    @property
    def asks_to_wait(self) -> bool:
        """Whether the site is there and asks to come back later; a 503 without Retry-After may be a broken page."""
        return not self.is_block_page and (self.status == 429 or (self.status == 503 and self.retry_after_s > 0))


class PageSkipped(Exception):
    """Raised without a failure: the page is known already, belongs to another site, or is of no kind that is read."""

    size = 0
    """Number of bytes that were read of the page all the same."""


class PageKnown(PageSkipped):
    """Raised when a page redirects to one that is visited as itself, or names it as canonical."""


class PageMoved(Exception):
    """Raised when a page redirects to one that was not known, or names it as canonical: that is visited instead."""

    size = 0


def refused_by_site(url: str, status: int, retry_after_s: float, block_product: str | None = None) -> PageFailed:
    """Return the failure for an answer of 4xx or 5xx, or for any answer with the block page of `block_product`."""
    if block_product is not None:
        message = f"{url} answers {status} with a block ({block_product})"
        return PageFailed(
            "blocked", message, status=status, retry_after_s=retry_after_s, kind="blocked", block_product=block_product
        )
    error = "blocked" if status in BLOCKED else "http"
    is_client_error = 400 <= status < 500 and status not in PASSING and status not in BLOCKED
    permanent = is_client_error or status >= 600
    kind = {403: "blocked", 429: "rate_limited"}.get(status, "status")
    return PageFailed(
        error, f"{url} answers {status}", permanent=permanent, status=status, retry_after_s=retry_after_s, kind=kind
    )
