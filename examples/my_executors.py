"""Three executors of your own: an async function, a plain function, and a class.

crawlfleet standalone --executors my_executors --allow-host 127.0.0.1      (in this folder)
crawlfleet task submit word_count --params '{"text": "to be or not to be"}' --result
"""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.request
from typing import Any, ClassVar

from crawlfleet import Executor, TaskContext, TaskError, executor

TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string", "minLength": 1}},
    "required": ["text"],
    "additionalProperties": False,
}
PAGE = {
    "type": "object",
    "properties": {"url": {"type": "string", "pattern": "^https?://"}},
    "required": ["url"],
    "additionalProperties": False,
}


@executor("word_count", schema=TEXT)
async def word_count(context: TaskContext) -> dict[str, int]:
    """Async: it runs in an event loop, and streams its items with `await context.item(...)`."""
    words = context.parameters["text"].split()
    for word in words:
        await context.item({"word": word, "letters": len(word)})
    context.log(f"counted {len(words)} words")
    return {"words": len(words)}


@executor("page_title", schema=PAGE)
def page_title(context: TaskContext) -> dict[str, str]:
    """Plain: it runs in a thread, may block, and streams its items with `context.emit(...)`."""
    url = context.parameters["url"]
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            page = answer.read(1_000_000).decode("utf-8", "replace")
    except urllib.error.HTTPError as exc:
        # Whether a retry can help is for the executor to say.
        raise TaskError(f"{url} answers {exc.code}", error="http", permanent=exc.code == 404) from exc
    found = re.search(r"<title>(.*?)</title>", page, re.IGNORECASE | re.DOTALL)
    if found is None:
        raise TaskError(f"{url} has no title", error="parse", permanent=True)
    context.emit({"url": url, "title": found[1].strip()})
    return {"title": found[1].strip()}


class Countdown(Executor):
    """A class: one object serves one execution."""

    task_type = "countdown"
    schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"from": {"type": "integer", "minimum": 0, "maximum": 1_000}},
        "required": ["from"],
    }

    async def run(self, context: TaskContext) -> dict[str, int]:
        start = context.parameters["from"]
        for left in range(start, 0, -1):
            context.progress(left=left)
            await asyncio.sleep(0.01)
        context.progress(left=0)
        return {"counted": start}
