"""Why a page was not crawled.

`error` is a class of errors that retries are decided by. `kind` says more closely what happened, for people and for
counts: dns, connect, tls, closed, cut, protocol, timeout, status, blocked, rate_limited, too_large, decode, policy,
redirects, proxy.
"""

from __future__ import annotations

BLOCKED = frozenset({403, 429})
PASSING = frozenset({408, 425, 429})
"""Answers of the 4xx kind that another try may change."""


BY_STATUS = frozenset({"status", "blocked", "rate_limited"})
"""Kinds that say what was answered; the others, that there was no answer, or none that can be read."""


SILENT = frozenset({"dns", "connect", "closed", "cut", "timeout", "proxy"})
"""Kinds that may be the host's failing as well as the page's: there was no connection, or it did not last."""
FOR_ANOTHER = frozenset({502, 503, 504})
"""What whoever stands before a site answers while the site is away; or a page that breaks it."""


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
        """Whose it is, where a page of a known wall came."""
        self.failed_url = failed_url
        """The URL whose connection failed, which redirects may have led to."""
        self.permanent = permanent
        self.status = status
        self.retry_after_s = retry_after_s
        """How long the site asks us to stay away; 0 when it does not say."""

    @property
    def is_block_page(self) -> bool:
        """The site does not want us, however slowly we come."""
        return self.kind == "blocked"

    @property
    def may_be_host_outage(self) -> bool:
        """Whether it is for others to say if the page failed or its host; a wait that the site asks for is neither."""
        return self.kind in SILENT or (self.status in FOR_ANOTHER and not self.is_block_page and not self.asks_to_wait)

    @property
    def asks_to_wait(self) -> bool:
        """The site is there, and asks to come back; a 503 that does not say so may be a broken page."""
        return not self.is_block_page and (self.status == 429 or (self.status == 503 and self.retry_after_s > 0))


class PageSkipped(Exception):
    """Nothing went wrong: the page is known already, belongs to another site, or is not of a kind that is read."""

    size = 0
    """Bytes that were read of it all the same."""


class PageKnown(PageSkipped):
    """It redirects to a page that is visited as itself, or names it as canonical."""


class PageMoved(Exception):
    """It redirects to a page that was not known, or names it as canonical: that is visited in its place."""

    size = 0


def refused_by_site(url: str, status: int, retry_after_s: float, block_product: str | None = None) -> PageFailed:
    """What an answer of 4xx or 5xx means, or any with the page of a `wall`."""
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
