"""Submits tasks: they are checked, stored, answered and hinted, in that order. A task that was answered is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import NamedTuple, Protocol

import msgspec

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.projects import Projects
from crawlfleet.control.support.batching import Batcher
from crawlfleet.control.support.broker_hints import publish_ready
from crawlfleet.control.tasks.admission import RETRY_AFTER_S, AdmissionControl, AdmissionTicket
from crawlfleet.control.tasks.lane_cache import LaneCache
from crawlfleet.control.tasks.task_content import first_parameter_host
from crawlfleet.control.tasks.task_types import KnownTypes
from crawlfleet.errors import InvalidInput, OverLimit
from crawlfleet.model import ids, instants, limits
from crawlfleet.model.evidence import Subject
from crawlfleet.model.ids import IdFactory
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER, Cluster
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.event_store import EvidenceStore
from crawlfleet.ports.task_store import Accepted, Claim, NewGroup, NewTask, Submission, SubmissionAnswer, TaskStore
from crawlfleet.scheduling.placement.evidence_subjects import HostClasses, strategy_subjects
from crawlfleet.scheduling.placement.strategies import BY_SUBJECT
from crawlfleet.wire.schema_errors import shorten_text
from crawlfleet.wire.tasks import RETRY_UNSET, RetryBody, RetryWanted, SpecBody, TaskBody, storage_problem

_MAX_BATCH = 4_000
_TYPES_FRESH_S = 5.0
_LOOK_FOR_TYPE_S = 1.0
"""Minimum time in seconds between two reads of the store for a type that this master does not know."""
_encode = msgspec.json.Encoder().encode
_UNSET = msgspec.UNSET
_KEPT_RETRY = RetryBody()
"""The retry settings that the store assumes for a task without a spec."""
_SPEC_FIELDS = tuple(field for field in SpecBody.__struct_fields__ if field != "retry")


class _TaskDefaults(NamedTuple):
    """Defaults, from the configuration of their cluster, for tasks that do not set these values."""

    timeout_s: int
    retry: RetryBody
    strategy: str


class _Store(TaskStore, EvidenceStore, Protocol):
    async def list_clusters(self) -> list[Cluster]: ...


class Submit:
    def __init__(
        self,
        *,
        store: _Store,
        broker: Broker,
        id_factory: IdFactory,
        clock: Clock,
        known_types: KnownTypes,
        waiting: AdmissionControl,
        configure: Configure,
        projects: Projects,
    ) -> None:
        self._store = store
        self._broker = broker
        self._ids = id_factory
        self._clock = clock
        self._known_types = known_types
        self._types = known_types.types
        self._waiting = waiting
        self._configure = configure
        self._projects = projects
        self._defaults: dict[str | None, _TaskDefaults] = {}
        self._clusters: frozenset[str] = frozenset()
        self._defaults_read = -1
        """Number of the reading of the configuration that the defaults were made from."""
        self._lanes = LaneCache(store=store, clock=clock)
        self._hosts = HostClasses()
        self._has_subjects = self._is_learning = False
        # Weighed by tasks, not by callers: one transaction must not be so long that leases wait behind it.
        self._batcher: Batcher[Submission, SubmissionAnswer] = Batcher(
            self._flush_submissions, max_weight=_MAX_BATCH, weigh=lambda submission: len(submission.items)
        )

    async def submit_tasks(
        self,
        bodies: Sequence[TaskBody | Refusal],
        *,
        is_atomic: bool = False,
        scope: str = "",
        key: str | None = None,
        group: NewGroup | None = None,
        traceparent: str = "",
    ) -> SubmissionAnswer:
        """Submit tasks, and return one answer per body, in order. With a `key`, a repeated call gets the first answer
        again.

        `traceparent` is the context of the span of this call, which is kept with each task; empty for none.

        With a `group` the group is created too, and the tasks are its members; it may begin without any.

        Raises OverLimit when too many tasks wait already, in the installation or in a project by its quotas: then none
        of these is stored.
        """
        if not (0 if group is not None else 1) <= len(bodies) <= limits.BATCH_TASKS:
            raise InvalidInput(f"a batch has 1 to {limits.BATCH_TASKS} tasks", field="tasks")
        now = self._clock.now()
        items = await self._make_new_tasks(bodies, self._ids.new_ids(len(bodies)), now)
        if is_atomic and any(isinstance(item, Refusal) for item in items):
            spared = Refusal(Code.BATCH_REFUSED, "another task of this batch was refused")
            return SubmissionAnswer([item if isinstance(item, Refusal) else spared for item in items])
        if group is not None:
            items = [item._replace(group=group.id) if isinstance(item, NewTask) else item for item in items]
        if traceparent:
            items = [with_traceparent(item, traceparent) if isinstance(item, NewTask) else item for item in items]
        claim = _make_claim(bodies, is_atomic, scope, key, now, group) if key is not None else None
        try:
            ticket = await self._waiting.admit_tasks(items)
        except OverLimit:
            # The tasks of a repeated call may be among those that wait: then it only needs the answer that was lost.
            answer = None if claim is None else await self._store.stored_answer(claim, len(items), now)
            if answer is None:
                raise
            return answer
        is_stored = False
        try:
            if self._lanes.has_new:
                await self._lanes.store_new()
            if self._has_subjects and not self._is_learning:
                # Before the first of them is stored: from then on evidence is collected of how such tasks end.
                await self._store.want_evidence()
                self._is_learning = True
            submission = Submission(
                items, is_atomic, claim, group=group, limited=await self.find_limited_projects(items)
            )
            (answer,) = await self._batcher.put_items([submission])
            is_stored = not answer.is_replay and any(isinstance(item, Accepted) for item in answer.items)
        finally:
            self._waiting.settle_ticket(ticket, is_stored=is_stored)
        if answer.over_quota is not None:
            again_s = RETRY_AFTER_S if answer.renews_at is None else (answer.renews_at - now) / 1000
            raise OverLimit(answer.over_quota, retry_after_s=again_s)
        return answer

    async def find_limited_projects(self, items: Sequence[NewTask | Refusal]) -> Collection[str]:
        """Return the projects of these tasks that may refuse them: the store counts the waiting tasks when it adds
        them."""
        limited = await self._projects.load_limited_projects()
        return limited and limited.intersection(item.project for item in items if isinstance(item, NewTask))

    async def prepare_tasks(
        self, bodies: Sequence[TaskBody | Refusal], numbers: Sequence[int], templates: Collection[int] = ()
    ) -> list[NewTask | Refusal]:
        """Prepare tasks that the caller stores: checked like all others, under these ids, their lanes known to the
        store.

        The parameters of `templates` have references in them, which are filled later.
        """
        items = await self._make_new_tasks(bodies, numbers, self._clock.now(), templates)
        if self._lanes.has_new:
            await self._lanes.store_new()
        return items

    @asynccontextmanager
    async def hold_admission(self, items: Sequence[NewTask | Refusal]) -> AsyncIterator[None]:
        """Hold an admission ticket for tasks that are stored inside the context. Raises OverLimit when too many tasks
        wait already."""
        ticket = await self._waiting.admit_tasks(items)
        is_stored = False
        try:
            yield
            is_stored = True
        finally:
            self._waiting.settle_ticket(ticket, is_stored=is_stored)

    async def check_task(self, body: TaskBody) -> TaskBody | Refusal:
        """Return the same body if it could be submitted now; its lane is known from then on."""
        (item,) = await self.prepare_tasks([body], self._ids.new_ids(1))
        return item if isinstance(item, Refusal) else body

    @asynccontextmanager
    async def prepare_admitted(self, bodies: Sequence[TaskBody | Refusal]) -> AsyncIterator[list[NewTask | Refusal]]:
        """Yield tasks that the caller stores beside rows of its own: checked like all others, with known lanes, and
        admitted until the context is left. Tasks that admission control does not admit are refused."""
        items = await self.prepare_tasks(bodies, self._ids.new_ids(len(bodies)))
        tickets: list[AdmissionTicket] = []
        is_stored = False
        try:
            for project in {item.project for item in items if isinstance(item, NewTask)}:
                own = [
                    index for index, item in enumerate(items) if isinstance(item, NewTask) and item.project == project
                ]
                try:
                    tickets.append(await self._waiting.admit_tasks([items[index] for index in own]))
                except OverLimit as exc:
                    for index in own:
                        items[index] = Refusal(Code.OVER_LIMIT, str(exc))
            yield items
            is_stored = True
        finally:
            for ticket in tickets:
                self._waiting.settle_ticket(ticket, is_stored=is_stored)

    async def _make_new_tasks(
        self,
        bodies: Sequence[TaskBody | Refusal],
        numbers: Sequence[int],
        now: Instant,
        templates: Collection[int] = (),
    ) -> list[NewTask | Refusal]:
        if not self._known_types.is_fresh(_TYPES_FRESH_S):
            await self._known_types.refresh(_TYPES_FRESH_S)
        if not self._configure.is_fresh():
            await self._configure.refresh()
        if self._defaults_read != self._configure.reads:
            self._defaults, self._defaults_read = {}, self._configure.reads
            self._clusters = frozenset()
        named = {body.cluster for body in bodies if isinstance(body, TaskBody) and body.cluster is not None}
        if not named <= self._clusters:
            self._clusters = frozenset(cluster.name for cluster in await self._store.list_clusters())
        self._lanes.expire()
        misses = self._types.misses
        items = self._convert_bodies(bodies, numbers, now, templates)
        # A node may have just registered the type with another master.
        if self._types.misses != misses and await self._known_types.refresh(_LOOK_FOR_TYPE_S):
            items = self._convert_bodies(bodies, numbers, now, templates)
        return items

    def _convert_bodies(
        self, bodies: Sequence[TaskBody | Refusal], numbers: Sequence[int], now: Instant, templates: Collection[int]
    ) -> list[NewTask | Refusal]:
        return [
            body if isinstance(body, Refusal) else self._convert_body(body, task, now, is_template=task in templates)
            for body, task in zip(bodies, numbers, strict=True)
        ]

    async def _flush_submissions(self, submissions: list[Submission]) -> Sequence[SubmissionAnswer]:
        added = await self._store.add_tasks(submissions, self._clock.now())
        await publish_ready(self._broker, added.ready)
        return added.answers

    def _convert_body(self, body: TaskBody, task: int, now: Instant, *, is_template: bool = False) -> NewTask | Refusal:
        parameters = bytes(body.parameters)
        if refusal := self._types.find_refusal(body.task_type, parameters, is_template=is_template):
            return refusal
        if refusal := self._refuse_unknown_names(body):
            return refusal
        due_at: Instant | None = None
        parents: tuple[int, ...] = ()
        group: int | None = None
        try:
            if body.run_at is not None:
                due_at = _parse_run_at(body.run_at)
            if body.depends_on:
                parents = _parse_parents(body.depends_on)
            if body.group_id is not None:
                group = ids.parse_id(body.group_id, "group", field="group_id")
            if body.node_id is not None:
                ids.parse_id(body.node_id, "node", field="node_id")
        except InvalidInput as exc:
            return Refusal(Code.INVALID_INPUT, exc.detail, exc.field)
        defaults = self._defaults.get(body.cluster) or self._load_defaults(body.cluster)
        strategy = body.schedule_strategy or defaults.strategy
        subjects = self._find_subjects(body, strategy) if strategy in BY_SUBJECT else ()
        if subjects or body.content_features:
            self._has_subjects = True
        has_requirement = bool(
            body.min_resources
            or body.capabilities
            or body.cluster
            or body.node_type
            or body.schedule_strategy
            or body.target_region
            or body.require_region
            or body.preemptible
            or subjects
            or body.categories
            or body.node_id
        )
        lane = self._lanes.find_lane(body, subjects, has_requirement=has_requirement)
        timeout_s = defaults.timeout_s if body.timeout_s is _UNSET else body.timeout_s
        retry = defaults.retry if body.retry is RETRY_UNSET else _merge_retry(body.retry, defaults.retry)
        if isinstance(retry, Refusal):
            return retry
        return NewTask(
            task,
            lane.project,
            body.workflow_id,
            body.name,
            now,
            parameters,
            _encode_spec(body, has_requirement, retry),
            lane.id,
            body.priority,
            timeout_s,
            due_at,
            parents,
            group,
        )

    def _refuse_unknown_names(self, body: TaskBody) -> Refusal | None:
        """Refuse unknown names: a misspelt strategy would be ignored, and a misspelt cluster waited for in vain."""
        strategy, cluster = body.schedule_strategy, body.cluster
        if strategy is not None and strategy not in self._configure.strategy_names:
            names = ", ".join(sorted(self._configure.strategy_names))
            return Refusal(Code.INVALID_INPUT, f"no strategy of this name; there are {names}", "schedule_strategy")
        if cluster is not None and cluster not in self._clusters:
            names = ", ".join(sorted(self._clusters)[: limits.LABELS])
            return Refusal(Code.INVALID_INPUT, f"no cluster of this name; there are {names}", "cluster")
        return None

    def _load_defaults(self, cluster: str | None) -> _TaskDefaults:
        """Return the defaults of a cluster; a task that names no cluster has those of the default one."""
        settings = self._configure.cached_config(cluster or DEFAULT_CLUSTER).settings
        retry = _make_retry(settings.max_retries, settings.retry_base_delay_s, settings.retry_max_delay_s)
        defaults = _TaskDefaults(settings.task_timeout_s, retry, settings.strategy)
        self._defaults[cluster] = defaults
        return defaults

    def _find_subjects(self, body: TaskBody, strategy: str) -> tuple[Subject, ...]:
        return strategy_subjects(
            strategy, body.content_features, first_parameter_host(bytes(body.parameters)), self._hosts
        )


def _parse_run_at(text: str) -> Instant:
    try:
        return instants.from_text(text)
    except (ValueError, OverflowError) as exc:
        raise InvalidInput(shorten_text(str(exc)), field="run_at") from exc


def _parse_parents(texts: Sequence[str]) -> tuple[int, ...]:
    return tuple(ids.parse_id(text, "task", field=f"depends_on[{index}]") for index, text in enumerate(texts))


def _merge_retry(wanted: RetryWanted, defaults: RetryBody) -> RetryBody | Refusal:
    max_retries = defaults.max_retries if wanted.max_retries is _UNSET else wanted.max_retries
    base_delay_s = defaults.base_delay_s if wanted.base_delay_s is _UNSET else wanted.base_delay_s
    max_delay_s = defaults.max_delay_s if wanted.max_delay_s is _UNSET else wanted.max_delay_s
    if base_delay_s > max_delay_s and not (wanted.base_delay_s is _UNSET and wanted.max_delay_s is _UNSET):
        detail = f"{base_delay_s:g} is longer than retry.max_delay_s, which is {max_delay_s:g}"
        return Refusal(Code.INVALID_INPUT, detail, "retry.base_delay_s")
    return _make_retry(max_retries, base_delay_s, max_delay_s)


def _make_retry(max_retries: int, base_delay_s: float, max_delay_s: float) -> RetryBody:
    # The encoder leaves a default out only where it is the same object.
    return RetryBody(
        max_retries,
        _KEPT_RETRY.base_delay_s if base_delay_s == _KEPT_RETRY.base_delay_s else base_delay_s,
        _KEPT_RETRY.max_delay_s if max_delay_s == _KEPT_RETRY.max_delay_s else max_delay_s,
    )


def _encode_spec(body: TaskBody, has_requirement: bool, retry: RetryBody) -> bytes | None:
    has_more = body.depends_on or body.content_features or body.run_at or retry != _KEPT_RETRY
    if not has_requirement and not has_more:
        return None
    return _encode(SpecBody(**{field: getattr(body, field) for field in _SPEC_FIELDS}, retry=retry))


def with_traceparent(task: NewTask, traceparent: str) -> NewTask:
    """Return the task with the context of the span that submitted it in its spec."""
    field = b'{"traceparent":' + _encode(traceparent)
    spec = task.spec
    return task._replace(spec=field + (b"}" if spec in (None, b"{}") else b"," + (spec or b"")[1:]))


def _make_claim(
    bodies: Sequence[TaskBody | Refusal], is_atomic: bool, scope: str, key: str, now: Instant, group: NewGroup | None
) -> Claim:
    if not 0 < len(key) <= limits.IDEMPOTENCY_KEY_CHARS or storage_problem(key):
        raise InvalidInput(f"1 to {limits.IDEMPOTENCY_KEY_CHARS} characters, no NUL", field="Idempotency-Key")
    digest = blake2b(digest_size=16)
    digest.update(b"atomic" if is_atomic else b"each")
    if group is not None:
        # The id is a different one each time.
        digest.update(_encode(("group", *group[1:])))
    for body in bodies:
        digest.update(_encode(body) if isinstance(body, TaskBody) else repr(body).encode())
    return Claim(scope, key, digest.digest(), now + limits.IDEMPOTENCY_KEEP_MS)
