"""A page as people read it: its main text, plain or as Markdown, without what is around it on every page."""

from __future__ import annotations

import logging

from crawlfleet.execution.crawl.parse.extract.dom import Tree, tidy

READABLE_CHARS = 100_000
LARGE_CHARS = 2_000_000
"""Of HTML; a larger page is cut, as the time it takes grows faster than the page."""


def readable(tree: Tree, html: str, url: str, *, as_markdown: bool) -> str:
    """Empty for a page without text. Where no main text is found, all of it counts."""
    # Slow to load, and few crawls ask for it.
    import trafilatura

    # It calls every page without an article an error.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    html = html[:LARGE_CHARS].replace("\0", "")
    try:
        # Metadata would look for dates, and for that at the clock.
        found = trafilatura.extract(
            html,
            url=url,
            output_format="markdown" if as_markdown else "txt",
            include_links=as_markdown,
            include_tables=True,
            include_comments=False,
            with_metadata=False,
        )
        return (found or trafilatura.html2txt(html) or _words(tree))[:READABLE_CHARS]
    except (RecursionError, ValueError):
        # Nested beyond what can be understood: such a page was not written for readers.
        return ""


def _words(tree: Tree) -> str:
    """Of a page so small that it is taken for none."""
    body = tree.first("body")
    return "" if body is None or tree.first("script, style") is not None else tidy(tree.raw_text(body))
