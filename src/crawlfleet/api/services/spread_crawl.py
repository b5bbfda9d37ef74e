"""One task into a crawl over many nodes: its seeds, and as many members as were asked for."""

from __future__ import annotations

from typing import Any

import msgspec

from crawlfleet.control.tasks.task_types import TaskTypes
from crawlfleet.errors import InvalidInput
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.model import limits
from crawlfleet.ports.crawl_store import NewCrawl
from crawlfleet.wire.groups import CrawlBody
from crawlfleet.wire.tasks import TaskBody

_FIELD = "task.parameters"
_types = TaskTypes({WebCrawl.task_type: WebCrawl.schema}, {WebCrawl.task_type: WebCrawl.problems})
"""As this master's own engine reads parameters: it makes the first URLs of them."""


def spread(template: TaskBody, crawl: CrawlBody) -> tuple[list[TaskBody], NewCrawl]:
    """The members, all alike. Raises InvalidInput for what cannot be crawled so."""
    # Only a master that is asked for a crawl needs the engine.
    from crawlfleet.execution.crawl.shared.shared_crawl_seeds import BadCrawl, seeds_of

    if template.task_type != WebCrawl.task_type:
        raise InvalidInput(f"only {WebCrawl.task_type} runs over many nodes", field="task.task_type")
    if (refusal := _types.refusal(template.task_type, bytes(template.parameters))) is not None:
        raise InvalidInput(refusal.detail, field=f"task.{refusal.field}")
    parameters: dict[str, Any] = msgspec.json.decode(template.parameters)
    try:
        seeds = seeds_of(parameters, crawl.members)
    except BadCrawl as exc:
        raise InvalidInput(exc.detail, field=f"{_FIELD}.{exc.field}") from exc
    said = msgspec.json.encode(seeds.parameters)
    if len(said) > limits.PARAMETERS_BYTES:
        detail = f"start URLs of too many sites: {len(said)} bytes; at most {limits.PARAMETERS_BYTES} are taken"
        raise InvalidInput(detail, field=f"{_FIELD}.urls")
    member = msgspec.structs.replace(template, parameters=msgspec.Raw(said))
    return [member] * crawl.members, NewCrawl(seeds.limits, seeds.urls)
