"""Submit, up to the store: what is checked, what is asked of placement, and how callers share a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.projects import Projects
from crawlfleet.control.tasks.admission import AdmissionControl, WaitingLimit
from crawlfleet.control.tasks.submit import Submit, with_traceparent
from crawlfleet.control.tasks.task_types import KnownTypes, TaskTypes
from crawlfleet.errors import InvalidInput, OverLimit, StoreUnavailable
from crawlfleet.model import limits
from crawlfleet.model.ids import IdFactory, task_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Cluster
from crawlfleet.model.project import Project, Quotas
from crawlfleet.model.queue import Lane, LaneId
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.admin_store import MASTERS, ClusterConfig, TypeRecord
from crawlfleet.ports.maintenance_store import LANE_FRESH_S
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Accepted, Added, NewTask, Submission, SubmissionAnswer
from crawlfleet.scheduling.placement.evidence_subjects import HOST_BUCKETS, MAX_NAMED_HOSTS
from crawlfleet.wire.tasks import RetryBody, SpecBody, TaskBody, task_body
from testkit.clock import EPOCH, FakeClock


class NotingStore:
    """Takes everything, and notes in which order it was given."""

    def __init__(self) -> None:
        self.lanes: dict[LaneId, Lane] = {}
        self.lane_calls = 0
        self.evidence_calls = 0
        self.batches: list[Sequence[Submission]] = []
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self.is_away = False
        self.types: list[TypeRecord] = []
        self.type_looks = 0
        self.configured: list[ClusterConfig] = []
        self.config_looks = 0
        self.described: list[Project] = []
        self.looks: list[str | None] = []
        self.waiting: dict[str | None, int] = {}
        """How many wait, in all and by project, as the counters say."""

    async def task_types(self) -> list[TypeRecord]:
        self.type_looks += 1
        await asyncio.sleep(0)
        return self.types

    async def cluster_configs(self) -> list[ClusterConfig]:
        self.config_looks += 1
        await asyncio.sleep(0)
        return self.configured

    async def list_clusters(self) -> list[Cluster]:
        return [Cluster(name) for name in ("default", "eu", "us", "other")]

    async def list_projects(self) -> list[Project]:
        return self.described

    async def task_totals(self, project: str | None = None) -> dict[TaskStatus, int]:
        self.looks.append(project)
        await asyncio.sleep(0)
        if self.is_away:
            raise StoreUnavailable("away")
        third, rest = divmod(self.waiting.get(project, 0), 3)
        return {
            TaskStatus.PENDING: third,
            TaskStatus.WAITING: third,
            TaskStatus.RETRYING: third + rest,
            TaskStatus.PROCESSING: 1_000_000,
            TaskStatus.COMPLETED: 1_000_000,
        }

    async def ensure_lanes(self, lanes: Sequence[Lane]) -> None:
        self.lane_calls += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise StoreUnavailable("away")
        self.lanes |= {lane.id: lane for lane in lanes}

    async def want_evidence(self) -> None:
        self.evidence_calls += 1

    async def add_tasks(self, submissions: Sequence[Submission], now: Instant) -> Added:
        self.batches.append(submissions)
        self.is_asked.set()
        ready: dict[LaneId, list[int]] = {}
        for task in self.tasks_of(submissions):
            assert task.lane in self.lanes, "a task ran ahead of its lane"
            ready.setdefault(task.lane, []).append(task.id)
        await asyncio.sleep(0)
        await self.may_answer.wait()
        return Added([self._answer(submission) for submission in submissions], ready)

    @property
    def tasks(self) -> list[NewTask]:
        return [task for batch in self.batches for task in self.tasks_of(batch)]

    @staticmethod
    def tasks_of(submissions: Sequence[Submission]) -> list[NewTask]:
        return [item for submission in submissions for item in submission.items if isinstance(item, NewTask)]

    @staticmethod
    def _answer(submission: Submission) -> SubmissionAnswer:
        return SubmissionAnswer(
            [
                item if isinstance(item, Refusal) else Accepted(item.id, TaskStatus.PENDING, 0, item.priority)
                for item in submission.items
            ]
        )


class Desk:
    def __init__(self, limit: WaitingLimit | None = None) -> None:
        self.store = NotingStore()
        self.broker = MemoryBroker()
        self.clock = FakeClock()
        store = cast("Store", self.store)
        types = TaskTypes({"echo": {}, "strict": {"required": ["url"]}})
        self.service = Submit(
            store=store,
            broker=self.broker,
            id_factory=IdFactory(1, self.clock.now),
            clock=self.clock,
            known_types=KnownTypes(types, store=store, clock=self.clock),
            waiting=AdmissionControl(store=store, clock=self.clock, limit=limit),
            configure=Configure(store=store, clock=self.clock, defaults={"task_timeout_s": 500}),
            projects=Projects(
                store=store,
                broker=self.broker,
                clock=self.clock,
                id_factory=IdFactory(1, lambda: 0),
                placing=asyncio.Lock(),
            ),
        )

    async def submit(self, *bodies: TaskBody | Refusal, **how: Any) -> SubmissionAnswer:
        return await self.service.submit_tasks(bodies, **how)

    async def lane_of(self, **fields: Any) -> Lane:
        await self.submit(echo(**fields))
        return self.store.lanes[self.store.tasks[-1].lane]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def echo(**fields: Any) -> TaskBody:
    body = task_body({"task_type": "echo", **fields})
    assert isinstance(body, TaskBody), body
    return body


def only(answer: SubmissionAnswer) -> Refusal:
    (item,) = answer.items
    assert isinstance(item, Refusal), item
    return item


# -- what is stored


async def test_a_task_is_stored_as_it_was_said(desk: Desk) -> None:
    fields = {"project_id": "shop", "workflow_id": "w", "name": "n", "priority": 8, "queue": "q", "timeout_s": 30}
    await desk.submit(echo(**fields, parameters={"url": "http://a"}, run_at="2026-01-01T01:00:00+01:00"))
    (task,) = desk.store.tasks
    lane = desk.store.lanes[task.lane]
    assert (task.project, task.workflow, task.name, task.priority, task.timeout_s) == ("shop", "w", "n", 8, 30)
    assert (lane.queue, lane.project, lane.priority, lane.requirement.task_type) == ("q", "shop", 8, "echo")
    assert (msgspec.json.decode(task.parameters), task.due_at) == ({"url": "http://a"}, EPOCH)
    assert msgspec.json.decode(task.spec or b"") == {"retry": {}, "run_at": "2026-01-01T01:00:00+01:00"}
    assert task.created_at == desk.clock.now()


async def test_what_is_beside_the_columns_is_kept_and_defaults_are_not(desk: Desk) -> None:
    await desk.submit(
        echo(retry={"max_retries": 9}, categories=["a"], content_features={"js": True}, min_resources={"cpu": 2})
    )
    (task,) = desk.store.tasks
    assert task.spec is not None
    assert msgspec.json.decode(task.spec) == {
        "retry": {"max_retries": 9},
        "categories": ["a"],
        "content_features": {"js": True},
        "min_resources": {"cpu": 2},
    }


async def test_what_a_task_does_not_say_is_as_its_cluster_says(desk: Desk) -> None:
    desk.store.configured = [
        ClusterConfig("default", 1, {"max_retries": 1}),
        ClusterConfig("eu", 1, {"max_retries": 7, "task_timeout_s": 60}),
    ]
    retry = {"retry": {"base_delay_s": 9.0}}
    said = {"timeout_s": 3_600, "retry": {"max_retries": 3}}
    await desk.submit(echo(), echo(cluster="eu"), echo(cluster="other"), echo(**retry), echo(**said))
    assert [task.timeout_s for task in desk.store.tasks] == [500, 60, 500, 500, 3_600]
    specs = [msgspec.json.decode(task.spec, type=SpecBody) if task.spec else SpecBody() for task in desk.store.tasks]
    assert [spec.retry for spec in specs] == [RetryBody(1), RetryBody(7), RetryBody(3), RetryBody(1, 9.0), RetryBody(3)]


async def test_delays_that_a_task_does_not_give_are_as_its_cluster_says(desk: Desk) -> None:
    desk.store.configured = [
        ClusterConfig("default", 1, {"retry_base_delay_s": 1, "retry_max_delay_s": 60}),
        ClusterConfig("eu", 1, {"retry_max_delay_s": 5}),
    ]
    await desk.submit(
        echo(),
        echo(cluster="eu"),
        echo(retry={"max_retries": 9}),
        echo(retry={"base_delay_s": 60}),
        echo(retry={"max_delay_s": 1}),
        echo(retry={"base_delay_s": 100, "max_delay_s": 200}),
    )
    specs = [msgspec.json.decode(task.spec, type=SpecBody) for task in desk.store.tasks if task.spec]
    assert [spec.retry for spec in specs] == [
        RetryBody(3, 1, 60),
        RetryBody(3, 2, 5),
        RetryBody(9, 1, 60),
        RetryBody(3, 60, 60),
        RetryBody(3, 1, 1),
        RetryBody(3, 100, 200),
    ]


@pytest.mark.parametrize("retry", [{"base_delay_s": 60.5}, {"max_delay_s": 0.5}])
async def test_a_delay_that_does_not_go_with_the_clusters_is_refused(desk: Desk, retry: dict[str, float]) -> None:
    desk.store.configured = [ClusterConfig("default", 1, {"retry_base_delay_s": 1, "retry_max_delay_s": 60})]
    (refusal,) = (await desk.submit(echo(retry=retry))).items
    assert isinstance(refusal, Refusal)
    assert (refusal.field, desk.store.tasks) == ("retry.base_delay_s", [])


async def test_the_configuration_is_looked_at_once_a_second_however_many_come(desk: Desk) -> None:
    await asyncio.gather(*(desk.submit(echo()) for _ in range(20)))
    assert desk.store.config_looks == 1
    desk.store.configured = [ClusterConfig("default", 1, {"task_timeout_s": 9})]
    desk.clock.advance(1)
    await asyncio.gather(*(desk.submit(echo()) for _ in range(20)))
    assert desk.store.config_looks == 2
    assert [task.timeout_s for task in desk.store.tasks] == [500] * 20 + [9] * 20


async def test_the_leader_is_told_of_what_is_ready(desk: Desk) -> None:
    await desk.submit(echo(), echo(priority=9))
    windows = {window.lane: window.size for window in await desk.broker.ready_index.list_windows()}
    assert windows == {task.lane: 1 for task in desk.store.tasks}
    assert await desk.broker.signals.wait_for_signal("leader", 0)


async def test_ids_ascend_in_the_order_of_the_batch(desk: Desk) -> None:
    await desk.submit(*[echo()] * 50)
    made = [task.id for task in desk.store.tasks]
    assert made == sorted(set(made))


# -- lanes


async def test_equal_asks_share_a_lane_that_is_made_known_once(desk: Desk) -> None:
    for _ in range(3):
        await desk.submit(echo(capabilities={"browser": ["firefox", "chrome"], "gpu": True}), echo())
    assert len(desk.store.lanes) == 2
    assert desk.store.lane_calls == 1


async def test_a_lane_is_made_known_again_before_the_store_has_to_ask_for_it(desk: Desk) -> None:
    for _ in range(7):
        await desk.submit(echo())
        desk.clock.advance(LANE_FRESH_S / 6)
    assert desk.store.lane_calls == 4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"min_resources": {"cpu_cores": 2}}, {"min_resources": {"cpu": 2}}),
        ({"min_resources": {"memory_gb": 1}}, {"min_resources": {"memory_mb": 1024}}),
        ({"min_resources": {"cpu": 1.01}}, {"min_resources": {"cpu": 1.25}}),
        ({"min_resources": {"cpu": 0}}, {}),
        ({"capabilities": {"a": 1, "b": ["x", "y"]}}, {"capabilities": {"b": ["y", "x", "x"], "a": True}}),
        ({"capabilities": {"browser": "chrome"}}, {"capabilities": {"browser": ["chrome"]}}),
        ({"project_id": ""}, {}),
        ({"name": "a", "workflow_id": "b", "timeout_s": 5}, {"categories": []}),
        ({"categories": ["b", "a"]}, {"categories": ["a", "b", "a"]}),
    ],
)
async def test_different_words_for_the_same_ask_are_one_lane(
    desk: Desk, one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert await desk.lane_of(**one) == await desk.lane_of(**other)


@pytest.mark.parametrize(
    "fields",
    [
        {"queue": "other"},
        {"project_id": "p"},
        {"priority": 6},
        {"cluster": "eu"},
        {"node_type": "n"},
        {"schedule_strategy": "round_robin"},
        {"target_region": "eu"},
        {"require_region": True},
        {"capabilities": {"gpu": True}},
        {"min_resources": {"cpu": 1}},
        {"categories": ["news"]},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_whatever_placement_looks_at_makes_a_lane_of_its_own(desk: Desk, fields: dict[str, Any]) -> None:
    plain, asking = await desk.lane_of(), await desk.lane_of(**fields)
    assert plain.id != asking.id
    assert await desk.lane_of() == plain


SHOP = {"parameters": {"url": "http://shop.example/a"}, "content_features": {"technology": "React", "pages": 3}}


@pytest.mark.parametrize(
    ("strategy", "subjects"),
    [
        ("content_based", (("technology", "react"),)),
        ("anti_crawling", (("host", "shop.example"),)),
        ("least_loaded", ()),
        (None, ()),
    ],
)
async def test_only_strategies_that_look_at_it_split_lanes_by_what_tasks_are_about(
    desk: Desk, strategy: str | None, subjects: tuple[tuple[str, str], ...]
) -> None:
    lane = await desk.lane_of(**SHOP, schedule_strategy=strategy)
    assert lane.requirement.subjects == subjects
    assert desk.store.evidence_calls == 1, "what says something of its content is learned from in any case"
    await desk.lane_of(**SHOP, schedule_strategy=strategy)
    assert desk.store.evidence_calls == 1


async def test_a_clusters_strategy_counts_like_one_that_tasks_name(desk: Desk) -> None:
    desk.store.configured = [ClusterConfig("eu", 1, {"strategy": "anti_crawling"})]
    await desk.lane_of(cluster="eu", parameters={"url": "http://shop.example"})
    assert desk.store.tasks[-1].spec is not None
    assert (await desk.lane_of(cluster="eu", parameters={"url": "http://shop.example"})).requirement.subjects
    assert not (await desk.lane_of(cluster="us", parameters={"url": "http://shop.example"})).requirement.subjects


async def test_plain_tasks_are_nothing_to_learn_from(desk: Desk) -> None:
    await desk.lane_of(parameters={"url": "http://shop.example"})
    assert desk.store.evidence_calls == 0


async def test_hosts_make_a_bounded_number_of_lanes(desk: Desk) -> None:
    for number in range(600):
        url = f"http://{number}.example"
        await desk.submit(echo(schedule_strategy="anti_crawling", parameters={"url": url}))
    assert len(desk.store.lanes) <= MAX_NAMED_HOSTS + HOST_BUCKETS


async def test_nobody_runs_ahead_of_a_lane_that_is_being_made_known(desk: Desk) -> None:
    await asyncio.gather(*(desk.submit(echo(queue=f"q{number % 3}")) for number in range(12)))
    assert len(desk.store.lanes) == 3


async def test_a_lane_that_could_not_be_made_known_is_tried_again(desk: Desk) -> None:
    desk.store.is_away = True
    with pytest.raises(StoreUnavailable):
        await desk.submit(echo())
    desk.store.is_away = False
    await desk.submit(echo())
    assert len(desk.store.tasks) == 1


# -- what is refused


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"run_at": "2026-01-31T12:00:00"}, "run_at"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"run_at": ""}, "run_at"),
        ({"run_at": "9999-99-99T00:00:00Z"}, "run_at"),
        ({"depends_on": ["task-1"]}, "depends_on[0]"),
        ({"depends_on": [task_text(5), "node-0000000000000005"]}, "depends_on[1]"),
        ({"depends_on": [task_text(5), task_text(6), "task-00000000000000ZZ"]}, "depends_on[2]"),
        ({"depends_on": ["task-0000000000000000"]}, "depends_on[0]"),
        ({"depends_on": ["TASK-0000000000000005"]}, "depends_on[0]"),
    ],
)
async def test_a_field_that_cannot_be_read_is_refused_by_name(desk: Desk, fields: dict[str, Any], field: str) -> None:
    refusal = only(await desk.submit(echo(**fields)))
    assert (refusal.code, refusal.field) == (Code.INVALID_INPUT, field)
    assert desk.store.tasks == []


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-31T12:00:00+00:00"]
)
async def test_every_moment_with_a_zone_is_answered_one_way_or_the_other(desk: Desk, text: str) -> None:
    (item,) = (await desk.submit(echo(run_at=text))).items
    assert isinstance(item, Accepted) or item.field == "run_at"


@pytest.mark.parametrize(("task_type", "words"), [("ekho", "did you mean echo?"), ("crawl", "there are echo, strict")])
async def test_an_unknown_type_is_refused_with_the_known_ones(desk: Desk, task_type: str, words: str) -> None:
    refusal = only(await desk.submit(echo(task_type=task_type)))
    assert (refusal.code, refusal.field) == (Code.UNKNOWN_TYPE, "task_type")
    assert words in refusal.detail


async def test_an_atomic_batch_with_a_refusal_never_reaches_the_store(desk: Desk) -> None:
    answer = await desk.submit(echo(), Refusal(Code.TOO_LARGE, "x", "name"), echo(run_at="?"), is_atomic=True)
    codes = [item.code if isinstance(item, Refusal) else None for item in answer.items]
    assert codes == [Code.BATCH_REFUSED, Code.TOO_LARGE, Code.INVALID_INPUT]
    assert desk.store.batches == []


@pytest.mark.parametrize("size", [0, limits.BATCH_TASKS + 1])
async def test_a_batch_has_bounds(desk: Desk, size: int) -> None:
    with pytest.raises(InvalidInput) as raised:
        await desk.submit(*[echo()] * size)
    assert raised.value.field == "tasks"


async def test_the_largest_batch_is_taken(desk: Desk) -> None:
    answer = await desk.submit(*[echo()] * limits.BATCH_TASKS)
    assert len(answer.items) == limits.BATCH_TASKS


# -- types that nodes brought to other masters


async def test_a_type_that_another_master_was_told_of_is_looked_for_before_it_is_refused(desk: Desk) -> None:
    await desk.submit(echo())
    desk.store.types = [TypeRecord("new", 1, {"required": ["x"]}, 0)]
    desk.clock.advance(1)
    answer = await desk.submit(echo(task_type="new", parameters={"x": 1}), echo(task_type="new"), echo())
    refused = [item.code if isinstance(item, Refusal) else None for item in answer.items]
    assert refused == [None, Code.INVALID_INPUT, None]


async def test_types_are_looked_for_at_most_once_a_second(desk: Desk) -> None:
    await asyncio.gather(*(desk.submit(echo(task_type="none")) for _ in range(20)))
    assert desk.store.type_looks == 1
    desk.clock.advance(1)
    await asyncio.gather(*(desk.submit(echo(task_type="none"), echo(task_type="nil")) for _ in range(20)))
    assert desk.store.type_looks == 2


async def test_known_types_are_looked_at_every_few_seconds_only(desk: Desk) -> None:
    await desk.submit(echo(parameters={"x": 1}))
    desk.store.types = [TypeRecord("echo", 2, {"required": ["y"]}, 0, MASTERS, 1)]
    desk.clock.advance(4.9)
    await desk.submit(echo(parameters={"x": 1}))
    assert (desk.store.type_looks, len(desk.store.tasks)) == (1, 2)
    desk.clock.advance(0.2)
    assert only(await desk.submit(echo(parameters={"x": 1}))).field == "parameters"


# -- how many may wait


async def test_so_many_may_wait_and_no_more() -> None:
    desk = Desk(WaitingLimit(installation=10))
    desk.store.waiting = {None: 4}
    await desk.submit(*[echo()] * 5)
    with pytest.raises(OverLimit, match="limit of 10") as raised:
        await desk.submit(echo(), echo())
    assert (raised.value.http_status, raised.value.retry_after_s) == (429, 5.0)
    await desk.submit(echo())
    with pytest.raises(OverLimit):
        await desk.submit(echo())
    assert len(desk.store.tasks) == 6


async def test_room_is_seen_a_second_later() -> None:
    desk = Desk(WaitingLimit(installation=10))
    desk.store.waiting = {None: 10}
    for _ in range(2):
        with pytest.raises(OverLimit):
            await desk.submit(echo())
    desk.store.waiting = {None: 7}
    desk.clock.advance(1)
    await desk.submit(*[echo()] * 3)
    with pytest.raises(OverLimit):
        await desk.submit(echo())
    assert desk.store.looks == [None, None]


async def test_many_at_once_do_not_pass_the_limit_together() -> None:
    desk = Desk(WaitingLimit(installation=10))
    answers = await asyncio.gather(*(desk.submit(echo()) for _ in range(25)), return_exceptions=True)
    assert len([answer for answer in answers if isinstance(answer, OverLimit)]) == 15
    assert len(desk.store.tasks) == 10
    assert desk.store.looks == [None]


async def test_what_is_on_its_way_counts_when_the_figure_is_read_anew() -> None:
    desk = Desk(WaitingLimit(installation=10))
    desk.store.may_answer.clear()
    first = asyncio.create_task(desk.submit(*[echo()] * 8))
    await desk.store.is_asked.wait()
    desk.clock.advance(1)
    with pytest.raises(OverLimit):
        await desk.submit(*[echo()] * 3)
    desk.store.may_answer.set()
    await first


async def test_what_could_not_be_stored_takes_no_room() -> None:
    desk = Desk(WaitingLimit(installation=10))
    await desk.submit(echo())
    desk.store.is_away = True
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await desk.submit(*[echo(queue="new")] * 9)
    desk.store.is_away = False
    await desk.submit(*[echo()] * 9)


async def test_what_is_refused_anyway_takes_no_room() -> None:
    desk = Desk(WaitingLimit(installation=2))
    desk.store.waiting = {None: 1}
    answer = await desk.submit(echo(), echo(task_type="none"), echo(run_at="?"))
    assert [isinstance(item, Accepted) for item in answer.items] == [True, False, False]
    assert only(await desk.submit(echo(task_type="none"))).code is Code.UNKNOWN_TYPE


async def test_a_project_has_a_limit_of_its_own() -> None:
    desk = Desk(WaitingLimit(installation=100, project=5))
    desk.store.waiting = {None: 50, "shop": 4}
    await desk.submit(echo(project_id="shop"), *[echo(project_id="news")] * 5)
    for project in ("shop", "news"):
        with pytest.raises(OverLimit, match=project):
            await desk.submit(echo(project_id="other"), echo(project_id=project))
    await desk.submit(*[echo(project_id="other")] * 5)
    assert len(desk.store.tasks) == 11


async def test_projects_are_not_counted_when_their_limit_says_no_more_than_that_of_all(desk: Desk) -> None:
    await desk.submit(echo(project_id="shop"), echo(project_id="news"))
    assert desk.store.looks == [None]


# -- keys


@pytest.mark.parametrize("key", ["", "k" * (limits.IDEMPOTENCY_KEY_CHARS + 1), "a\x00b", "\ud800"])
async def test_a_key_has_bounds(desk: Desk, key: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        await desk.submit(echo(), key=key)
    assert raised.value.field == "Idempotency-Key"
    assert desk.store.tasks == []


async def test_a_key_of_the_full_length_is_taken(desk: Desk) -> None:
    await desk.submit(echo(), key="k" * limits.IDEMPOTENCY_KEY_CHARS)
    assert len(desk.store.tasks) == 1


async def claim_hash(desk: Desk, *bodies: TaskBody | Refusal, **how: Any) -> bytes:
    await desk.submit(*bodies, key="k", **how)
    claim = desk.store.batches[-1][0].claim
    assert claim is not None
    return claim.body_hash


async def test_a_claim_is_the_same_for_the_same_request_only(desk: Desk) -> None:
    bodies = [echo(name="a"), echo(name="b")]
    first = await claim_hash(desk, *bodies)
    desk.clock.advance(60)
    assert await claim_hash(desk, *bodies) == first
    others = [
        await claim_hash(desk, *reversed(bodies)),
        await claim_hash(desk, *bodies, is_atomic=True),
        await claim_hash(desk, echo(name="a")),
        await claim_hash(desk, echo(name="a"), echo(name="b", parameters={"x": 1})),
        await claim_hash(desk, echo(name="a"), Refusal(Code.TOO_LARGE, "x")),
    ]
    assert len({first, *others}) == 1 + len(others)


# -- how callers share a transaction


async def test_callers_that_come_together_share_a_transaction(desk: Desk) -> None:
    await asyncio.gather(*(desk.submit(echo()) for _ in range(30)))
    assert len(desk.store.tasks) == 30
    assert len(desk.store.batches) < 5


async def test_a_transaction_has_a_bound_in_tasks_however_many_callers_come_with_large_batches(desk: Desk) -> None:
    await desk.submit(echo())
    body = echo()
    await asyncio.gather(*(desk.submit(*[body] * 1_500) for _ in range(12)))
    sizes = [len(NotingStore.tasks_of(batch)) for batch in desk.store.batches]
    assert sum(sizes) == 18_001
    assert max(sizes) <= 4_000


# -- quotas of projects


async def test_only_tasks_of_limited_projects_are_counted_by_the_store(desk: Desk) -> None:
    desk.store.described = [Project("tight", quotas=Quotas(waiting=1)), Project("heavy", weight=3.0)]
    await desk.submit(echo(project_id="tight"), echo(project_id="heavy"), echo(project_id="free"), echo())
    await desk.submit(echo(project_id="heavy"))
    (first,), (second,) = desk.store.batches
    assert (set(first.limited), set(second.limited)) == ({"tight"}, set())


@pytest.mark.parametrize("spec", [None, b"{}", b'{"cluster":"eu","retry":{"max_retries":1}}'])
def test_the_context_of_a_submission_stands_in_the_spec(spec: bytes | None) -> None:
    task = NewTask(1, "", None, None, EPOCH, b"{}", spec, 1, 5, 60)
    traced = with_traceparent(task, "00-a-b-01")
    assert traced.spec is not None
    assert msgspec.json.decode(traced.spec) == {"traceparent": "00-a-b-01", **(msgspec.json.decode(spec or b"{}"))}
    assert (
        msgspec.json.decode(traced.spec, type=SpecBody).retry == msgspec.json.decode(spec or b"{}", type=SpecBody).retry
    )
    assert traced._replace(spec=spec) == task
