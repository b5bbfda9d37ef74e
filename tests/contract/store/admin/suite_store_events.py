"""Events: one for every change, numbered after commit without gaps."""

import asyncio
from collections.abc import Awaitable, Callable

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.execution import End
from crawlfleet.model.node import Cluster
from crawlfleet.model.status import ClusterStatus, ErrorClass, Health, NodeStatus, Recall, TaskStatus
from crawlfleet.model.task import RetryPolicy
from crawlfleet.ports.node_store import HealthChange
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Submission
from crawlfleet.scheduling.tasks import task_state_machine
from testkit.factories import EVERYTHING, Kit

ROUNDS = 20


async def every_change_of_a_task_has_its_event(store: Store, kit: Kit) -> None:
    node = await kit.node()
    run = await kit.run_one(node, retry=RetryPolicy(1, 0.0, 0.0))
    await _tells(kit, lambda: kit.start(run), "task.started", run.task)
    await _tells(kit, lambda: kit.fail(run, error=ErrorClass.NETWORK), "task.retrying", run.task)
    await _tells(
        kit,
        lambda: store.change_tasks([run.task], task_state_machine.release_due(kit.later()), kit.now),
        "task.ready",
        run.task,
    )
    await _tells(kit, lambda: kit.assign([run.task], node), "task.assigned", run.task)
    await _tells(kit, lambda: kit.end(node), "task.reassign", run.task)
    (again,) = await kit.assign([run.task], await kit.node())
    await _tells(kit, lambda: kit.finish(again, End.TIMED_OUT), "task.timeout", run.task)
    await _tells(kit, lambda: store.reopen_tasks([run.task], kit.now), "task.reopened", run.task)
    (last,) = await kit.assign([run.task], await kit.node())
    recall = task_state_machine.recall_execution(Recall.MOVE, "move")
    await _tells(kit, lambda: store.change_tasks([run.task], recall, kit.now), "task.recalled", run.task)
    await _tells(kit, lambda: kit.complete(last), "task.completed", run.task)
    await _tells(kit, lambda: store.drop_tasks([run.task], kit.now), "task.dropped", run.task)


async def a_submitted_a_failed_a_cancelled_and_a_moved_task_have_their_events(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await _tells(kit, lambda: kit.fail(run), "task.failed", run.task)
    task = kit.new_task()
    await _tells(kit, lambda: kit.add([task]), "task.submitted", task.id)
    urgent = await kit.known_lane(priority=10)
    move = task_state_machine.change_lane({kit.lane.id: urgent.id})
    await _tells(kit, lambda: store.change_tasks([task.id], move, kit.now), "task.reprioritized", task.id)
    await _tells(kit, lambda: kit.cancel(task.id), "task.cancelled", task.id)
    child = kit.new_task(parents=[task.id])
    await _tells(kit, lambda: kit.add([child]), "task.cancelled", child.id)


async def every_change_of_a_node_has_its_event(store: Store, kit: Kit) -> None:
    term = await kit.term()
    node = await kit.open_session(await kit.join())
    await _tells(kit, kit.join, "node.registered")
    await _tells(kit, lambda: kit.renew(node), "node.online")
    await _tells(kit, lambda: store.set_maintenance(node.id, None, True, kit.now), "node.draining")
    await _tells(kit, lambda: store.set_maintenance(node.id, None, False, kit.now), "node.online")
    health = [HealthChange(node.id, Health.UNKNOWN, Health.DEGRADED, {"cpu": 1.0})]
    await _tells(kit, lambda: store.set_health(health, term, kit.now), "node.health_changed")
    await _tells(kit, lambda: store.set_slots(node.id, 3, kit.now), "node.slots_changed")
    await _tells(kit, lambda: kit.end(node), "node.timeout")
    again = await kit.online(node.id)
    await _tells(kit, lambda: kit.end(again, NodeStatus.OFFLINE), "node.offline")
    await _tells(kit, lambda: store.unregister_node(node.id, kit.now), "node.unregistered")


async def a_node_that_becomes_unavailable_is_told_with_the_reason(store: Store, kit: Kit) -> None:
    term, node = await kit.term(), await kit.node()
    await store.set_maintenance(node.id, None, True, kit.now)
    await store.set_maintenance(node.id, None, False, kit.now)
    await store.set_health([HealthChange(node.id, Health.UNKNOWN, Health.UNHEALTHY, {})], term, kit.now)
    await kit.end(node)
    await kit.end(await kit.online(node.id), NodeStatus.OFFLINE)
    await store.unregister_node(node.id, kit.now)
    told = [event.data for event in await kit.events() if event.kind == "scheduler.node_unavailable"]
    reasons = ("maintenance", "unhealthy", "unresponsive", "offline", "removed")
    assert told == [{"node": node.id, "reason": reason} for reason in reasons]


async def a_cluster_that_changes_has_its_event(store: Store, kit: Kit) -> None:
    cluster = Cluster("eu", ClusterStatus.MAINTENANCE, project="shop")
    await _tells(kit, lambda: store.put_cluster(cluster, kit.now), "cluster.changed")
    told = {"cluster": "eu", "status": "maintenance", "project": "shop"}
    assert (await kit.events())[-1].data == told
    before = await kit.events()
    await store.put_cluster(cluster, kit.later())
    assert await kit.events() == before
    await _tells(kit, lambda: store.put_cluster(Cluster("eu"), kit.now), "cluster.changed")


async def elections_and_paused_queues_have_their_events(store: Store, kit: Kit) -> None:
    await kit.term()
    (elected,) = await kit.events()
    assert (elected.kind, dict(elected.data)) == ("leader.elected", {"term": 1, "master": "test"})
    await _tells(kit, lambda: store.set_queue_paused("night", True, kit.now), "queue.paused")
    await _tells(kit, lambda: store.set_queue_paused("night", False, kit.now), "queue.resumed")


async def an_event_carries_what_happened(store: Store, kit: Kit) -> None:
    await kit.term()
    run = await kit.run_one(await kit.node(), retry=RetryPolicy(3, 1.0, 1.0))
    kit.later()
    await kit.fail(run, "reset by peer", ErrorClass.NETWORK)
    event = (await kit.events())[-1]
    assert (event.kind, event.at) == ("task.retrying", kit.now)
    assert event.data == {
        "task": run.task,
        "round": 1,
        "execution": run.execution,
        "node": run.node.id,
        "status": TaskStatus.RETRYING,
        "retries": 1,
        "reason": "reset by peer",
    }


async def an_event_of_health_carries_old_and_new(store: Store, kit: Kit) -> None:
    node, term = await kit.join(), await kit.term()
    await store.set_health([HealthChange(node, Health.UNKNOWN, Health.HEALTHY, {})], term, kit.now)
    await store.set_health([HealthChange(node, Health.HEALTHY, Health.HEALTHY, {})], term, kit.now)
    await store.set_health([HealthChange(node, Health.HEALTHY, Health.UNHEALTHY, {"cpu": 1.0})], term, kit.now)
    changes = [event.data for event in await kit.events() if event.kind == "node.health_changed"]
    assert changes == [
        {"node": node, "old": "unknown", "new": "healthy", "details": {}},
        {"node": node, "old": "healthy", "new": "unhealthy", "details": {"cpu": 1.0}},
    ]


async def a_renewal_that_changes_nothing_but_the_lease_tells_nothing(store: Store, kit: Kit) -> None:
    node = await kit.node()
    before = await kit.events()
    await kit.renew(node)
    assert await kit.events() == before


async def events_are_numbered_from_one_without_gaps(store: Store, kit: Kit) -> None:
    for _ in range(3):
        await kit.submit(7)
        await kit.cancel(*await kit.submit(2))
        await kit.events()
    events = await kit.events()
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert await kit.second.last_event() == len(events)


async def there_is_no_last_event_at_first(store: Store, kit: Kit) -> None:
    assert await kit.second.last_event() == 0
    assert await kit.second.events_after(0, 10) == []


async def a_relay_numbers_what_is_there_and_nothing_twice(store: Store, kit: Kit) -> None:
    term = await kit.term()
    await kit.events()
    tasks = await kit.submit(3)
    last = await store.relay_events(term, 100)
    assert [event.data["task"] for event in (await kit.events())[-3:]] == tasks
    assert last == await kit.second.last_event()
    assert await store.relay_events(term, 100) == 0


async def a_relay_takes_no_more_rows_than_asked(store: Store, kit: Kit) -> None:
    term = await kit.term()
    await kit.events()
    first, second = await kit.submit(3), await kit.submit(2)
    before = await kit.second.last_event()
    assert await store.relay_events(term, 1) == before + len(first)
    assert await store.relay_events(term, 1) == before + len(first) + len(second)


async def pages_begin_and_end_inside_a_batch(store: Store, kit: Kit) -> None:
    await kit.submit(10)
    await kit.submit(10)
    everything = await kit.events()
    for size in (1, 3, 7, 100):
        paged, last = [], 0
        while page := await kit.second.events_after(last, size):
            assert len(page) <= size
            paged += page
            last = page[-1].number
        assert paged == everything


async def pages_go_on_from_any_number(store: Store, kit: Kit) -> None:
    await kit.submit(5)
    await kit.submit(5)
    everything = await kit.events()
    for number in range(len(everything) + 1):
        assert await kit.second.events_after(number, EVERYTHING) == everything[number:]
    assert await kit.second.events_after(10_000, 10) == []


async def events_of_no_other_transition_can_be_recorded(store: Store, kit: Kit) -> None:
    await kit.events()
    batch = EventBatch(Kind.NODE_UNAVAILABLE, {"node": [1, 2]}, {"reason": "full"})
    await store.record_events([batch], kit.now)
    assert [(event.kind, event.data) for event in (await kit.events())[-2:]] == [
        ("scheduler.node_unavailable", {"node": 1, "reason": "full"}),
        ("scheduler.node_unavailable", {"node": 2, "reason": "full"}),
    ]


async def recording_nothing_holds_up_nobody(store: Store, kit: Kit) -> None:
    before = await kit.events()
    await store.record_events([], kit.now)
    await store.record_events([EventBatch(Kind.NODE_UNAVAILABLE, {"node": []})], kit.now)
    assert await kit.events() == before
    await kit.submit_one()
    assert len(await kit.events()) == len(before) + 1


async def nothing_is_lost_or_doubled_while_others_write_and_the_relay_runs(store: Store, kit: Kit) -> None:
    term = await kit.term()

    async def relay() -> None:
        for _ in range(ROUNDS):
            await store.relay_events(term, 3)

    added = [kit.new_task() for _ in range(4 * ROUNDS)]
    adding = [(store, kit.second)[n % 2].add_tasks([Submission([task])], kit.now) for n, task in enumerate(added)]
    await asyncio.gather(relay(), *adding)
    everything = await kit.events()
    submitted = [event.data["task"] for event in everything if event.kind == "task.submitted"]
    assert sorted(submitted) == [task.id for task in added]
    assert [event.number for event in everything] == list(range(1, len(everything) + 1))


async def two_that_relay_at_once_number_nothing_twice(store: Store, kit: Kit) -> None:
    term = await kit.term()
    await kit.events()
    for _ in range(10):
        tasks = await kit.submit(2)
        await asyncio.gather(store.relay_events(term, 10), kit.second.relay_events(term, 10))
        assert [event.data["task"] for event in (await kit.events())[-2:]] == tasks


async def _tells(kit: Kit, change: Callable[[], Awaitable[object]], kind: str, task: int | None = None) -> None:
    before = len(await kit.events())
    await change()
    told = [event for event in (await kit.events())[before:] if event.kind == kind]
    assert len(told) == 1, kind
    if task is not None:
        assert told[0].data["task"] == task
