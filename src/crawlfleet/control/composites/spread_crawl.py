"""Makes a crawl over many nodes from one task: its seeds, and as many members as were requested."""

from __future__ import annotations

from typing import Any

import msgspec

from crawlfleet.control.tasks.task_types import TaskTypes
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.ports.built_in_types import CrawlEngine
from crawlfleet.ports.task_store import NewCrawl
from crawlfleet.wire.groups import CrawlBody
from crawlfleet.wire.tasks import TaskBody

_FIELD = "task.parameters"


class SpreadCrawl:
    def __init__(self, *, engine: CrawlEngine) -> None:
        self._engine = engine
        self._types = TaskTypes({engine.task_type: engine.schema}, {engine.task_type: engine.problems})
        """Task type of this master's own engine, which reads the parameters because it makes the seeds from them."""

    def spread_task(self, template: TaskBody, crawl: CrawlBody) -> tuple[list[TaskBody], NewCrawl]:
        """Return the members, which are all alike, and the crawl. Raises InvalidInput for what cannot be crawled over
        many nodes."""
        if template.task_type != self._engine.task_type:
            raise InvalidInput(f"only {self._engine.task_type} runs over many nodes", field="task.task_type")
        if (refusal := self._types.find_refusal(template.task_type, bytes(template.parameters))) is not None:
            raise InvalidInput(refusal.detail, field=f"task.{refusal.field}")
        parameters: dict[str, Any] = msgspec.json.decode(template.parameters)
        try:
            seeds = self._engine.seeds(parameters, crawl.members)
        except InvalidInput as exc:
            raise InvalidInput(exc.detail, field=f"{_FIELD}.{exc.field}") from exc
        encoded = msgspec.json.encode(seeds.parameters)
        if len(encoded) > limits.PARAMETERS_BYTES:
            size = len(encoded)
            detail = f"start URLs of too many sites: {size} bytes; at most {limits.PARAMETERS_BYTES} are taken"
            raise InvalidInput(detail, field=f"{_FIELD}.urls")
        member = msgspec.structs.replace(template, parameters=msgspec.Raw(encoded))
        return [member] * crawl.members, NewCrawl(seeds.limits, seeds.urls)
