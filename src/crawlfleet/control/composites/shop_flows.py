"""Shop flows: tasks of the shop family that become a flow when they are submitted.

The task that is submitted is the last step. It waits for the others, as any step does, and runs only briefly to combine
their results: no slot is held to wait for children.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from crawlfleet.control.composites.flows import Flows, StepRequest
from crawlfleet.control.tasks.changes import CANCELLED, TaskChanges
from crawlfleet.control.tasks.task_types import TaskTypes
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.flow import StepKey
from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.task import TaskRecord
from crawlfleet.ports.built_in_types import ShopTypes
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.task_store import Accepted, Applied, Claim, TaskReadStore
from crawlfleet.wire.tasks import TaskBody, storage_problem

BATCHES_MAX = 500
_LAST_ONLY = frozenset({"children", "steps"})
"""Parameters by which a last step receives the results of the other steps."""
WHOLE_AT_ONCE = 10
"""Maximum number of tasks that are read at once with their parameters, each of which may have a megabyte."""
_OF_STEP = re.compile(r"^steps(\.[^.]+\.task)?\.?")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class SubmittedFlow(NamedTuple):
    task: Accepted
    flow: GroupId
    is_replay: bool


class _ShopFlow(NamedTuple):
    steps: Mapping[StepKey, StepRequest]
    last: StepKey
    """Key of the step that is the submitted task."""


class ShopFlows:
    def __init__(
        self,
        *,
        store: TaskReadStore,
        clock: Clock,
        flows: Flows,
        task_changes: TaskChanges,
        task_types: TaskTypes,
        shop_types: ShopTypes,
    ) -> None:
        self._store = store
        self._clock = clock
        self._flows = flows
        self._task_changes = task_changes
        self._task_types = task_types
        self._shop_types = shop_types
        self._makers: Mapping[str, Callable[[TaskBody, dict[str, Any], Instant], _ShopFlow]] = {
            shop_types.batch_products: self._batch_flow,
            shop_types.full_sync: self._sync_flow,
        }

    def may_be_flow(self, body: TaskBody) -> bool:
        """Return whether a flow may be made of the task. A task that waits for others or is in a group becomes no flow:
        it does all of its work itself."""
        return body.task_type in self._makers and not (body.depends_on or body.group_id or body.run_at)

    async def submit_flow(self, body: TaskBody, scope: str, key: str | None) -> SubmittedFlow | None:
        """Submit a task that may be a flow; None for one that is to be submitted as any other.

        `scope` and `key` are those of the idempotency key. Raises InvalidInput with the field of the task that was
        submitted; OverLimit as a submit does.
        """
        refusal = self._task_types.find_refusal(body.task_type, bytes(body.parameters))
        if refusal is not None or (flow := self._make_flow(body)) is None:
            return None
        claim = None if key is None else _make_claim(scope, key, body, self._clock.now())
        try:
            added = await self._flows.submit_flow(body.name, body.project_id, flow.steps, claim)
        except InvalidInput as exc:
            raise InvalidInput(exc.detail, field=_OF_STEP.sub("", exc.field or "") or None) from exc
        steps = {step.key: step for step in (await self._flows.get_flow(added.id)).steps}
        last = steps[flow.last]
        accepted = Accepted(last.task, last.status, last.created_at, body.priority)
        return SubmittedFlow(accepted, added.id, added.is_replay)

    async def cancel_tasks(self, tasks: Sequence[TaskId]) -> Applied:
        """Cancel tasks. For the last step of a shop flow, which is the task that was submitted, the whole flow is
        cancelled: the steps before it are what takes time."""
        flows = await self._flows_of_last_steps(tasks)
        applied = await self._task_changes.cancel_tasks([task for task in tasks if task not in flows])
        for task, flow in flows.items():
            whole = await self._flows.cancel_flow(flow, CANCELLED)
            if task not in whole.after:
                # The task had ended already, which is reported as for any other task.
                whole = await self._task_changes.cancel_tasks([task])
            applied.after.update({step: status for step, status in whole.after.items() if step == task})
            applied.refused.update({step: refusal for step, refusal in whole.refused.items() if step == task})
        return applied

    async def _flows_of_last_steps(self, tasks: Sequence[TaskId]) -> dict[TaskId, GroupId]:
        records = await self._store.load_tasks(tasks, with_parameters=False)
        steps = [
            task for task, record in records.items() if record.group is not None and record.task_type in self._makers
        ]
        flows: dict[TaskId, GroupId] = {}
        for start in range(0, len(steps), WHOLE_AT_ONCE):
            whole = await self._store.load_tasks(steps[start : start + WHOLE_AT_ONCE])
            flows.update(
                {
                    task: record.group
                    for task, record in whole.items()
                    if record.group is not None and self._is_last(record)
                }
            )
        return flows

    def _is_last(self, record: TaskRecord) -> bool:
        """Return whether the task is the last step of a shop flow. As a step of a flow that a user wrote, it does all
        of its work itself and has neither of these parameters."""
        return record.task_type in self._makers and not _LAST_ONLY.isdisjoint(_decode(record.parameters))

    def _make_flow(self, body: TaskBody) -> _ShopFlow | None:
        """Make the flow from parameters that were checked. Returns None for those of a last step. Raises
        InvalidInput."""
        parameters = _decode(body.parameters)
        if not _LAST_ONLY.isdisjoint(parameters):
            return None
        return self._makers[body.task_type](body, parameters, self._clock.now())

    def _batch_flow(self, body: TaskBody, parameters: dict[str, Any], _: Instant) -> _ShopFlow:
        urls, size = parameters["urls"], parameters.get("batch_size", self._shop_types.default_batch_size)
        count = -(-len(urls) // size)
        if count > BATCHES_MAX:
            detail = f"makes {count} batches of {len(urls)} URLs; at most {BATCHES_MAX} are taken"
            raise InvalidInput(detail, field="parameters.batch_size")
        visits = {name: parameters[name] for name in self._shop_types.visit_parameters if name in parameters}
        child = msgspec.structs.replace(
            _derive_task(body, self._shop_types.single_product, {**visits, "url": {"$from": "item"}}),
            priority=max(limits.PRIORITY_MIN, body.priority - 1),
        )
        steps: dict[StepKey, StepRequest] = {}
        for number in range(count):
            urls_of_it = urls[number * size : (number + 1) * size]
            after = {f"batch_{number - 1}": "always"} if number else {}
            steps[f"batch_{number}"] = StepRequest(child, after, None, urls_of_it, len(urls_of_it), allow_failures=True)
        ended = [
            {
                "ids": {"$from": f"map(&product_id, steps.batch_{number}.results)", "default": []},
                "reasons": {"$from": f"steps.batch_{number}.result.reasons", "default": {}},
            }
            for number in range(count)
        ]
        last = _derive_task(body, body.task_type, {"urls": urls, "batch_size": size, "children": ended})
        steps[body.task_type] = StepRequest(last, {f"batch_{count - 1}": "always"})
        return _ShopFlow(steps, body.task_type)

    def _sync_flow(self, body: TaskBody, parameters: dict[str, Any], now: Instant) -> _ShopFlow:
        crawls = {
            name: parameters[name]
            for name in (*self._shop_types.visit_parameters, *self._shop_types.crawl_parameters)
            if name in parameters
        }
        url, since = parameters["url"], parameters.get("since", now)
        steps = {"crawl": StepRequest(_derive_task(body, self._shop_types.shop_crawl, {**crawls, "url": url}), {})}
        before = {"crawl": "success"}
        if "keywords" in parameters:
            words = {**crawls, "url": parameters["search_url"], "keywords": parameters["keywords"]}
            for name in ("depth", "max_pages", "sitemaps"):
                # Parameters of the crawl: a search is a page and what it links to.
                words.pop(name, None)
            steps["search"] = StepRequest(_derive_task(body, self._shop_types.search_keywords, words), {})
            before["search"] = "always"
        check = {**crawls, "url": url, "known_only": True, "since": since, "shop": {"$from": "steps.crawl.result.shop"}}
        steps["check"] = StepRequest(_derive_task(body, self._shop_types.shop_crawl, check), before)
        given = {name: {"$from": f"steps.{name}.result", "default": {}} for name in steps}
        last = _derive_task(body, body.task_type, {"url": url, "since": since, "steps": given})
        steps[body.task_type] = StepRequest(last, {"crawl": "success", "check": "always"})
        return _ShopFlow(steps, body.task_type)


def _make_claim(scope: str, key: str, body: TaskBody, now: Instant) -> Claim:
    if not 0 < len(key) <= limits.IDEMPOTENCY_KEY_CHARS or storage_problem(key):
        raise InvalidInput(f"1 to {limits.IDEMPOTENCY_KEY_CHARS} characters, no NUL", field="Idempotency-Key")
    digest = blake2b(b"flow" + msgspec.json.encode(body), digest_size=16).digest()
    return Claim(scope, key, digest, now + limits.IDEMPOTENCY_KEEP_MS)


def _derive_task(body: TaskBody, task_type: str, parameters: Mapping[str, Any]) -> TaskBody:
    encoded = msgspec.json.encode(parameters)
    if len(encoded) > limits.PARAMETERS_BYTES:
        detail = f"{len(encoded)} bytes as a flow; at most {limits.PARAMETERS_BYTES} are taken"
        raise InvalidInput(detail, field="parameters")
    return msgspec.structs.replace(body, task_type=task_type, parameters=msgspec.Raw(encoded), name=body.name)
