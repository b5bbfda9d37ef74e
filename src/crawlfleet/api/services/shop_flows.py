"""Tasks of the shop family that are flows: what a submit of one becomes.

The task that is submitted is the last step. It waits for the others, as any step does, and runs for a moment to put
together what they gave: nobody holds a slot to wait for children.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from crawlfleet.api.http.services import Services
from crawlfleet.control.composites.flows import StepAsked
from crawlfleet.control.tasks.changes import CANCELLED
from crawlfleet.errors import InvalidInput
from crawlfleet.execution.executors.builtin.batch_products import BatchProducts
from crawlfleet.execution.executors.builtin.full_sync import FullSync
from crawlfleet.execution.executors.builtin.search_keywords import SearchKeywords
from crawlfleet.execution.executors.builtin.shop_crawl import ShopCrawl
from crawlfleet.execution.executors.builtin.single_product import SingleProduct
from crawlfleet.execution.executors.shops.shop_schema import BATCH_USUAL, CRAWL_NAMES, VISIT_NAMES
from crawlfleet.model import limits
from crawlfleet.model.flow import StepKey
from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.task import TaskRecord
from crawlfleet.ports.idempotency import Claim
from crawlfleet.ports.task_store import Accepted, Applied
from crawlfleet.wire.tasks import TaskBody, unstorable

BATCHES_MAX = 500
_LAST_ONLY = frozenset({"children", "steps"})
"""Parameters by which a last step is given what the others gave."""
WHOLE_AT_ONCE = 10
"""Tasks that are read with their parameters, of which each may have a megabyte."""
_OF_STEP = re.compile(r"^steps(\.[^.]+\.task)?\.?")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class SubmittedFlow(NamedTuple):
    task: Accepted
    flow: GroupId
    is_replay: bool


class ShopFlow(NamedTuple):
    steps: Mapping[StepKey, StepAsked]
    last: StepKey
    """The task that was submitted."""


def may_be_flow(body: TaskBody) -> bool:
    """Of one that waits for others or is in a group no flow is made: it does all of its work itself."""
    return body.task_type in _MAKERS and not (body.depends_on or body.group_id or body.run_at)


def flow_of(body: TaskBody, now: Instant) -> ShopFlow | None:
    """Of parameters that were found right. None for those of a last step. Raises InvalidInput."""
    parameters = _decode(body.parameters)
    if not _LAST_ONLY.isdisjoint(parameters):
        return None
    return _MAKERS[body.task_type](body, parameters, now)


async def submit_flow(services: Services, body: TaskBody, flow: ShopFlow, claim: Claim | None) -> SubmittedFlow:
    """Raises InvalidInput with the field of the task that was submitted; OverLimit as a submit does."""
    try:
        added = await services.flows.submit(body.name, body.project_id, flow.steps, claim)
    except InvalidInput as exc:
        raise InvalidInput(exc.detail, field=_OF_STEP.sub("", exc.field or "") or None) from exc
    steps = {step.key: step for step in (await services.flows.show(added.id)).steps}
    last = steps[flow.last]
    return SubmittedFlow(Accepted(last.task, last.status, last.created_at, body.priority), added.id, added.is_replay)


async def cancel_tasks(services: Services, tasks: Sequence[TaskId]) -> Applied:
    """Who cancels the task that was submitted means all of its flow: the steps before it are what takes time."""
    flows = await _flows_of_last_steps(services, tasks)
    applied = await services.cancel.cancel([task for task in tasks if task not in flows])
    for task, flow in flows.items():
        whole = await services.flows.cancel(flow, CANCELLED)
        if task not in whole.after:
            # It had ended already, which is told as of any other task.
            whole = await services.cancel.cancel([task])
        applied.after.update({one: status for one, status in whole.after.items() if one == task})
        applied.refused.update({one: why for one, why in whole.refused.items() if one == task})
    return applied


async def _flows_of_last_steps(services: Services, tasks: Sequence[TaskId]) -> dict[TaskId, GroupId]:
    found = await services.store.tasks(tasks, with_parameters=False)
    steps = [task for task, one in found.items() if one.group is not None and one.task_type in _MAKERS]
    flows: dict[TaskId, GroupId] = {}
    for start in range(0, len(steps), WHOLE_AT_ONCE):
        whole = await services.store.tasks(steps[start : start + WHOLE_AT_ONCE])
        flows.update({task: one.group for task, one in whole.items() if one.group is not None and _is_last(one)})
    return flows


def _is_last(record: TaskRecord) -> bool:
    """As a step of somebody's own flow it does all of its work itself, and has neither of them."""
    return record.task_type in _MAKERS and not _LAST_ONLY.isdisjoint(_decode(record.parameters))


def flow_claim(scope: str, key: str, body: TaskBody, now: Instant) -> Claim:
    if not 0 < len(key) <= limits.IDEMPOTENCY_KEY_CHARS or unstorable(key):
        raise InvalidInput(f"1 to {limits.IDEMPOTENCY_KEY_CHARS} characters, no NUL", field="Idempotency-Key")
    digest = blake2b(b"flow" + msgspec.json.encode(body), digest_size=16).digest()
    return Claim(scope, key, digest, now + limits.IDEMPOTENCY_KEEP_MS)


def _batch(body: TaskBody, parameters: dict[str, Any], _: Instant) -> ShopFlow:
    urls, size = parameters["urls"], parameters.get("batch_size", BATCH_USUAL)
    count = -(-len(urls) // size)
    if count > BATCHES_MAX:
        detail = f"makes {count} batches of {len(urls)} URLs; at most {BATCHES_MAX} are taken"
        raise InvalidInput(detail, field="parameters.batch_size")
    visits = {name: parameters[name] for name in VISIT_NAMES if name in parameters}
    child = msgspec.structs.replace(
        _with(body, SingleProduct.task_type, {**visits, "url": {"$from": "item"}}),
        priority=max(limits.PRIORITY_MIN, body.priority - 1),
    )
    steps: dict[StepKey, StepAsked] = {}
    for number in range(count):
        urls_of_it = urls[number * size : (number + 1) * size]
        after = {f"batch_{number - 1}": "always"} if number else {}
        steps[f"batch_{number}"] = StepAsked(child, after, None, urls_of_it, len(urls_of_it), allow_failures=True)
    ended = [
        {
            "ids": {"$from": f"map(&product_id, steps.batch_{number}.results)", "default": []},
            "reasons": {"$from": f"steps.batch_{number}.result.reasons", "default": {}},
        }
        for number in range(count)
    ]
    last = _with(body, body.task_type, {"urls": urls, "batch_size": size, "children": ended})
    steps[body.task_type] = StepAsked(last, {f"batch_{count - 1}": "always"})
    return ShopFlow(steps, body.task_type)


def _sync(body: TaskBody, parameters: dict[str, Any], now: Instant) -> ShopFlow:
    crawls = {name: parameters[name] for name in (*VISIT_NAMES, *CRAWL_NAMES) if name in parameters}
    url, since = parameters["url"], parameters.get("since", now)
    steps = {"crawl": StepAsked(_with(body, ShopCrawl.task_type, {**crawls, "url": url}), {})}
    before = {"crawl": "success"}
    if "keywords" in parameters:
        words = {**crawls, "url": parameters["search_url"], "keywords": parameters["keywords"]}
        for name in ("depth", "max_pages", "sitemaps"):
            # Of the crawl: a search is a page and what it links to.
            words.pop(name, None)
        steps["search"] = StepAsked(_with(body, SearchKeywords.task_type, words), {})
        before["search"] = "always"
    known = {**crawls, "url": url, "known_only": True, "since": since, "shop": {"$from": "steps.crawl.result.shop"}}
    steps["check"] = StepAsked(_with(body, ShopCrawl.task_type, known), before)
    given = {name: {"$from": f"steps.{name}.result", "default": {}} for name in steps}
    last = _with(body, body.task_type, {"url": url, "since": since, "steps": given})
    steps[body.task_type] = StepAsked(last, {"crawl": "success", "check": "always"})
    return ShopFlow(steps, body.task_type)


def _with(body: TaskBody, task_type: str, parameters: Mapping[str, Any]) -> TaskBody:
    encoded = msgspec.json.encode(parameters)
    if len(encoded) > limits.PARAMETERS_BYTES:
        detail = f"{len(encoded)} bytes as a flow; at most {limits.PARAMETERS_BYTES} are taken"
        raise InvalidInput(detail, field="parameters")
    return msgspec.structs.replace(body, task_type=task_type, parameters=msgspec.Raw(encoded), name=body.name)


_MAKERS: Mapping[str, Callable[[TaskBody, dict[str, Any], Instant], ShopFlow]] = {
    BatchProducts.task_type: _batch,
    FullSync.task_type: _sync,
}
