"""The main text of a page, plain or as Markdown, without the parts that surround it on every page."""

from __future__ import annotations

import logging

from crawlfleet.execution.crawl.parse.extract.dom import Dom, tidy_text

MAIN_TEXT_CHARS = 100_000
MAX_HTML_CHARS = 2_000_000
"""Limit on characters of HTML; a larger page is cut, because the time grows faster than the page."""


def extract_main_text(dom: Dom, html: str, url: str, *, as_markdown: bool) -> str:
    """Return the main text; where none is found, all text of the page, and empty for a page without text."""
    # The library is slow to load, and few crawls need it.
    import trafilatura

    # The library logs every page without an article as an error.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    html = html[:MAX_HTML_CHARS].replace("\0", "")
    try:
        # Metadata is left out, because the search for dates would read the clock.
        text = trafilatura.extract(
            html,
            url=url,
            output_format="markdown" if as_markdown else "txt",
            include_links=as_markdown,
            include_tables=True,
            include_comments=False,
            with_metadata=False,
        )
        return (text or trafilatura.html2txt(html) or _body_text(dom))[:MAIN_TEXT_CHARS]
    except (RecursionError, ValueError):
        # The page is nested more deeply than the library can handle: such a page was not written for readers.
        return ""


def _body_text(dom: Dom) -> str:
    """Return the text of a page that is so small that the library takes it for empty."""
    body = dom.select_first("body")
    return "" if body is None or dom.select_first("script, style") is not None else tidy_text(dom.raw_text(body))
