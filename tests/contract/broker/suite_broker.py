"""What every broker does. Each function is one behaviour, on a broker whose windows hold WINDOW and TOTAL ids."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from crawlfleet.model.node import Measurement
from crawlfleet.ports.broker import LEADER, Broker, Window, node_topic

WINDOW, TOTAL = 8, 20
LANE, OTHER, THIRD = 101, 102, 103

Ids = Callable[[int], list[int]]
"""So many new ids, ascending, later than all before."""


async def offered_ids_come_out_oldest_first(broker: Broker, ids: Ids) -> None:
    first, second, third = ids(3)
    await broker.ready_index.offer_tasks({LANE: [third, first]})
    await broker.ready_index.offer_tasks({LANE: [second]})
    assert await broker.ready_index.list_windows() == [Window(LANE, first, 3, is_deep=False)]
    assert await broker.ready_index.pop_tasks({LANE: 2}) == {LANE: [first, second]}
    assert await broker.ready_index.list_windows() == [Window(LANE, third, 1, is_deep=False)]


async def an_older_id_that_comes_back_stands_at_its_place(broker: Broker, ids: Ids) -> None:
    made = ids(4)
    await broker.ready_index.offer_tasks({LANE: made})
    assert await broker.ready_index.pop_tasks({LANE: 2}) == {LANE: made[:2]}
    await broker.ready_index.offer_tasks({LANE: [made[1]]})
    assert await broker.ready_index.pop_tasks({LANE: 9}) == {LANE: made[1:]}


async def an_id_is_in_a_window_once(broker: Broker, ids: Ids) -> None:
    one, two = ids(2)
    await broker.ready_index.offer_tasks({LANE: [one, one]})
    await broker.ready_index.offer_tasks({LANE: [one, two, two]})
    await broker.ready_index.refill_window(LANE, [one, two], is_deep=False)
    assert await broker.ready_index.pop_tasks({LANE: 9}) == {LANE: [one, two]}


async def lanes_are_apart(broker: Broker, ids: Ids) -> None:
    one, two, three = ids(3)
    await broker.ready_index.offer_tasks({LANE: [one, three], OTHER: [two], THIRD: []})
    assert sorted(await broker.ready_index.list_windows()) == [
        Window(LANE, one, 2, False),
        Window(OTHER, two, 1, False),
    ]
    assert await broker.ready_index.pop_tasks({OTHER: 5, THIRD: 5, LANE: 0}) == {OTHER: [two]}
    assert await broker.ready_index.pop_tasks({LANE: 1, OTHER: 1}) == {LANE: [one]}


async def a_lane_with_nothing_disappears(broker: Broker, ids: Ids) -> None:
    one, two = ids(2)
    await broker.ready_index.offer_tasks({LANE: [one], OTHER: [two]})
    await broker.ready_index.pop_tasks({LANE: 1})
    await broker.ready_index.discard_tasks([(OTHER, two)])
    await broker.ready_index.refill_window(THIRD, [], is_deep=False)
    assert await broker.ready_index.list_windows() == []


async def a_full_window_keeps_the_oldest_and_becomes_deep(broker: Broker, ids: Ids) -> None:
    made = ids(WINDOW + 2)
    await broker.ready_index.offer_tasks({LANE: made[2:]})
    assert await broker.ready_index.list_windows() == [Window(LANE, made[2], WINDOW, is_deep=False)]
    await broker.ready_index.offer_tasks({LANE: made[:2]})
    assert await broker.ready_index.list_windows() == [Window(LANE, made[0], WINDOW, is_deep=True)]
    assert await broker.ready_index.pop_tasks({LANE: 99}) == {LANE: made[:WINDOW]}


async def a_deep_window_stays_to_be_refilled(broker: Broker, ids: Ids) -> None:
    made = ids(WINDOW + 1)
    await broker.ready_index.offer_tasks({LANE: made})
    await broker.ready_index.pop_tasks({LANE: 99})
    assert await broker.ready_index.list_windows() == [Window(LANE, 0, 0, is_deep=True)]
    await broker.ready_index.refill_window(LANE, made[WINDOW:], is_deep=False)
    assert await broker.ready_index.list_windows() == [Window(LANE, made[WINDOW], 1, is_deep=False)]


async def nothing_overtakes_what_a_deep_window_dropped(broker: Broker, ids: Ids) -> None:
    made = ids(WINDOW + 2)
    await broker.ready_index.offer_tasks({LANE: made[: WINDOW + 1]})
    await broker.ready_index.pop_tasks({LANE: 99})
    await broker.ready_index.offer_tasks({LANE: made[WINDOW + 1 :]})
    assert await broker.ready_index.pop_tasks({LANE: 99}) == {}
    await broker.ready_index.refill_window(LANE, made[WINDOW:], is_deep=False)
    assert await broker.ready_index.pop_tasks({LANE: 99}) == {LANE: made[WINDOW:]}


async def a_deep_window_takes_what_belongs_within_it(broker: Broker, ids: Ids) -> None:
    made = ids(WINDOW + 2)
    await broker.ready_index.offer_tasks({LANE: [made[0], *made[2:]]})
    await broker.ready_index.pop_tasks({LANE: 1})
    await broker.ready_index.offer_tasks({LANE: [made[1]]})
    assert await broker.ready_index.pop_tasks({LANE: 1}) == {LANE: [made[1]]}


async def an_id_dropped_while_the_leader_was_reading_is_not_lost(broker: Broker, ids: Ids) -> None:
    """The leader read the whole lane; before it brings what it read, a new task is offered and finds no room."""
    made = ids(WINDOW + 1)
    await broker.ready_index.offer_tasks({LANE: made})
    await broker.ready_index.pop_tasks({LANE: 99})
    read, (late,) = made[WINDOW:], ids(1)
    await broker.ready_index.offer_tasks({LANE: [late]})
    await broker.ready_index.refill_window(LANE, read, is_deep=False)
    assert await broker.ready_index.pop_tasks({LANE: 99}) == {LANE: [*read, late]}


async def a_window_that_dropped_too_many_meanwhile_stays_deep(broker: Broker, ids: Ids) -> None:
    made = ids(WINDOW + 1)
    await broker.ready_index.offer_tasks({LANE: made})
    await broker.ready_index.pop_tasks({LANE: 99})
    await broker.ready_index.discard_tasks([(LANE, made[WINDOW])])
    late = ids(2 * WINDOW)
    await broker.ready_index.offer_tasks({LANE: late})
    await broker.ready_index.refill_window(LANE, [], is_deep=False)
    assert await broker.ready_index.list_windows() == [Window(LANE, late[0], WINDOW, is_deep=True)]


async def more_than_can_be_remembered_at_once_is_not_lost(broker: Broker, ids: Ids) -> None:
    """One fills the window, as many are remembered, and that there is one more is remembered too."""
    made = ids(2 * WINDOW + 1)
    await broker.ready_index.offer_tasks({LANE: made})
    assert await broker.ready_index.pop_tasks({LANE: 99}) == {LANE: made[:WINDOW]}
    await broker.ready_index.refill_window(LANE, [], is_deep=False)
    assert await broker.ready_index.list_windows() == [Window(LANE, made[WINDOW], WINDOW, is_deep=True)]


async def nothing_overtakes_what_was_dropped_and_forgotten(broker: Broker, ids: Ids) -> None:
    """Ids are not commit order: the leader has read a later one than those that were dropped since."""
    made, late, read = ids(WINDOW + 1), ids(2 * WINDOW), ids(1)
    await broker.ready_index.offer_tasks({LANE: made})
    await broker.ready_index.pop_tasks({LANE: 99})
    await broker.ready_index.discard_tasks([(LANE, made[WINDOW])])
    await broker.ready_index.offer_tasks({LANE: late})
    await broker.ready_index.discard_tasks([(LANE, task) for task in late[:5]])
    await broker.ready_index.refill_window(LANE, read, is_deep=False)
    assert await broker.ready_index.list_windows() == [Window(LANE, late[5], WINDOW - 5, is_deep=True)]


async def a_refill_keeps_no_gap(broker: Broker, ids: Ids) -> None:
    """The lane is new to the broker, which has only its newest task; the store has many older ones."""
    made = ids(9)
    await broker.ready_index.offer_tasks({LANE: [made[8]]})
    await broker.ready_index.refill_window(LANE, made[:4], is_deep=True)
    assert await broker.ready_index.list_windows() == [Window(LANE, made[0], 4, is_deep=True)]


async def a_refill_with_more_than_a_window_is_deep(broker: Broker, ids: Ids) -> None:
    made = ids(WINDOW + 3)
    await broker.ready_index.refill_window(LANE, made, is_deep=False)
    assert await broker.ready_index.list_windows() == [Window(LANE, made[0], WINDOW, is_deep=True)]


async def a_refill_does_not_show_what_was_taken_meanwhile(broker: Broker, ids: Ids) -> None:
    made = ids(4)
    await broker.ready_index.offer_tasks({LANE: made[:3]})
    await broker.ready_index.pop_tasks({LANE: 2})
    await broker.ready_index.refill_window(LANE, made, is_deep=False)
    assert await broker.ready_index.pop_tasks({LANE: 9}) == {LANE: made[2:]}
    await broker.ready_index.refill_window(LANE, made, is_deep=False)
    assert await broker.ready_index.list_windows() == []


async def what_was_taken_may_come_back(broker: Broker, ids: Ids) -> None:
    one, two = ids(2)
    await broker.ready_index.offer_tasks({LANE: [one, two]})
    await broker.ready_index.pop_tasks({LANE: 2})
    await broker.ready_index.offer_tasks({LANE: [one]})
    await broker.ready_index.pop_tasks({LANE: 1})
    await broker.ready_index.offer_tasks({OTHER: [one]})
    await broker.ready_index.discard_tasks([(OTHER, one)])
    await broker.ready_index.refill_window(OTHER, [one, two], is_deep=False)
    assert await broker.ready_index.pop_tasks({OTHER: 9}) == {OTHER: [one]}


async def the_total_is_bounded_and_the_fullest_give(broker: Broker, ids: Ids) -> None:
    few, many, more = ids(2), ids(WINDOW), ids(WINDOW)
    await broker.ready_index.offer_tasks({LANE: few, OTHER: many, THIRD: more})
    await broker.ready_index.offer_tasks({104: ids(4)})
    windows = {window.lane: window for window in await broker.ready_index.list_windows()}
    assert sum(window.size for window in windows.values()) == TOTAL
    assert windows[LANE] == Window(LANE, few[0], 2, is_deep=False)
    assert not windows[104].is_deep
    for lane, made in ((OTHER, many), (THIRD, more)):
        assert windows[lane] == Window(lane, made[0], 7, is_deep=True)
    assert await broker.ready_index.pop_tasks({OTHER: 99}) == {OTHER: many[:7]}


async def a_lane_that_gave_nothing_is_not_deep(broker: Broker, ids: Ids) -> None:
    await broker.ready_index.offer_tasks({LANE: ids(7), OTHER: ids(7), THIRD: ids(7)})
    windows = await broker.ready_index.list_windows()
    assert sorted(window.size for window in windows) == [6, 7, 7]
    assert [window.size for window in windows if window.is_deep] == [6]


async def what_is_discarded_is_no_longer_ready(broker: Broker, ids: Ids) -> None:
    made = ids(3)
    await broker.ready_index.offer_tasks({LANE: made})
    await broker.ready_index.discard_tasks([(LANE, made[1]), (LANE, made[1]), (OTHER, made[0]), (LANE, ids(1)[0])])
    assert await broker.ready_index.pop_tasks({LANE: 9}) == {LANE: [made[0], made[2]]}


async def what_was_dropped_and_then_discarded_does_not_come_back(broker: Broker, ids: Ids) -> None:
    made = ids(WINDOW + 2)
    await broker.ready_index.offer_tasks({LANE: made})
    await broker.ready_index.discard_tasks([(LANE, made[-1])])
    await broker.ready_index.pop_tasks({LANE: 99})
    await broker.ready_index.refill_window(LANE, [], is_deep=False)
    assert await broker.ready_index.pop_tasks({LANE: 9}) == {LANE: [made[-2]]}


async def negated_ids_come_out_newest_first(broker: Broker, ids: Ids) -> None:
    made = ids(WINDOW + 3)
    await broker.ready_index.offer_tasks({LANE: [-task for task in made]})
    assert await broker.ready_index.list_windows() == [Window(LANE, -made[-1], WINDOW, is_deep=True)]
    assert await broker.ready_index.pop_tasks({LANE: 2}) == {LANE: [-made[-1], -made[-2]]}
    (late,) = ids(1)
    await broker.ready_index.offer_tasks({LANE: [-late]})
    await broker.ready_index.discard_tasks([(LANE, -made[-3])])
    assert await broker.ready_index.pop_tasks({LANE: 2}) == {LANE: [-late, -made[-4]]}
    await broker.ready_index.refill_window(LANE, [-task for task in reversed(made)], is_deep=False)
    rest = [task for task in reversed(made) if task not in (made[-1], made[-2], made[-4])]
    assert await broker.ready_index.pop_tasks({LANE: 99}) == {LANE: [-task for task in rest]}


async def what_changed_is_told_once(broker: Broker, ids: Ids) -> None:
    one, two, three = ids(3)
    await broker.ready_index.offer_tasks({LANE: [one, two], OTHER: [three]})
    assert sorted(await broker.ready_index.pop_changed_windows()) == [
        Window(LANE, one, 2, False),
        Window(OTHER, three, 1, False),
    ]
    assert await broker.ready_index.pop_changed_windows() == []
    await broker.ready_index.pop_tasks({LANE: 1})
    assert await broker.ready_index.pop_changed_windows() == [Window(LANE, two, 1, False)]
    await broker.ready_index.discard_tasks([(OTHER, three)])
    assert await broker.ready_index.pop_changed_windows() == [Window(OTHER, 0, 0, False)]


async def dropped_lanes_are_forgotten_and_the_others_stay(broker: Broker, ids: Ids) -> None:
    made, other = ids(WINDOW + 2), ids(2)
    await broker.ready_index.offer_tasks({LANE: made, OTHER: other})
    await broker.ready_index.drop_windows([LANE, THIRD])
    assert await broker.ready_index.list_windows() == [Window(OTHER, other[0], 2, is_deep=False)]
    await broker.ready_index.refill_window(LANE, made[:3], is_deep=False)
    assert await broker.ready_index.pop_tasks({LANE: 99, OTHER: 99}) == {LANE: made[:3], OTHER: other}


async def clear_forgets_everything_ready(broker: Broker, ids: Ids) -> None:
    made = ids(WINDOW + 1)
    await broker.ready_index.offer_tasks({LANE: made})
    await broker.ready_index.pop_tasks({LANE: 1})
    await broker.ready_index.clear()
    assert await broker.ready_index.list_windows() == []
    await broker.ready_index.refill_window(LANE, made[:2], is_deep=False)
    assert await broker.ready_index.pop_tasks({LANE: 9}) == {LANE: made[:2]}


async def a_signal_sent_while_nobody_waits_is_kept_once(broker: Broker, ids: Ids) -> None:
    await broker.signals.send_signals([LEADER, LEADER])
    await broker.signals.send_signals([LEADER])
    assert await broker.signals.wait_for_signal(LEADER, 1.0)
    assert not await broker.signals.wait_for_signal(LEADER, 0.01)
    assert not await broker.signals.wait_for_signal(LEADER, 0.0)


async def topics_are_apart(broker: Broker, ids: Ids) -> None:
    one, two = ids(2)
    await broker.signals.send_signals([node_topic(one)])
    assert not await broker.signals.wait_for_signal(node_topic(two), 0.01)
    assert await broker.signals.wait_for_signal(node_topic(one), 0.01)


async def one_signal_wakes_everybody_who_waits(broker: Broker, ids: Ids) -> None:
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(broker.signals.wait_for_signal(LEADER, 10.0)) for _ in range(3)]
        await _until_they_wait()
        await broker.signals.send_signals([LEADER])
    assert [wait.result() for wait in waits] == [True] * 3
    assert not await broker.signals.wait_for_signal(LEADER, 0.01), "it was used up"


async def who_waits_in_vain_is_told(broker: Broker, ids: Ids) -> None:
    assert not await broker.signals.wait_for_signal(LEADER, 0.01)
    await broker.signals.send_signals([LEADER])
    assert await broker.signals.wait_for_signal(LEADER, 0.01), "who gave up does not take it"


async def a_cancelled_wait_takes_no_signal(broker: Broker, ids: Ids) -> None:
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(broker.signals.wait_for_signal(LEADER, 10.0))
        await _until_they_wait()
        wait.cancel()
    await broker.signals.send_signals([LEADER])
    assert await broker.signals.wait_for_signal(LEADER, 0.01)


async def freed_slots_are_told_once(broker: Broker, ids: Ids) -> None:
    node, one, two = ids(3)
    await broker.freed_slots.post_slots([(node, one)])
    await broker.freed_slots.post_slots([(node, two), (node, one)])
    assert await broker.freed_slots.pop_slots() == [(node, one), (node, two), (node, one)]
    assert await broker.freed_slots.pop_slots() == []


async def the_last_announced_event_is_the_highest(broker: Broker, ids: Ids) -> None:
    assert await broker.events.last_announced() == 0
    await broker.events.announce_event(7)
    await broker.events.announce_event(5)
    assert await broker.events.last_announced() == 7


async def the_board_shows_the_newest_of_each_node(broker: Broker, ids: Ids) -> None:
    one, two = ids(2)
    await broker.measurements.put_measurement(one, Measurement(cpu=0.5))
    await broker.measurements.put_measurement(two, Measurement(gpu=0.1, running=3))
    await broker.measurements.put_measurement(one, Measurement(cpu=0.9))
    board = await broker.measurements.load_measurements()
    assert board == {one: Measurement(cpu=0.9), two: Measurement(gpu=0.1, running=3)}


async def progress_shows_the_newest_of_each_execution_asked_for(broker: Broker, ids: Ids) -> None:
    one, two, silent = ids(3)
    await broker.progress.put_progress({one: b'{"pages":1}', two: b'{"pages":7}'})
    await broker.progress.put_progress({})
    await broker.progress.put_progress({one: b'{"pages":2}'})
    assert await broker.progress.load_progress([one, silent]) == {one: b'{"pages":2}'}
    assert await broker.progress.load_progress([two]) == {two: b'{"pages":7}'}
    assert await broker.progress.load_progress([]) == {}


async def the_generation_stays_while_nothing_is_lost(broker: Broker, ids: Ids) -> None:
    generation = await broker.load_generation()
    assert generation
    await broker.ready_index.offer_tasks({LANE: ids(2)})
    await broker.ready_index.clear()
    assert await broker.load_generation() == generation


async def a_broker_without_a_memory_limit_tells_of_none(broker: Broker, ids: Ids) -> None:
    assert await broker.load_memory() is None


async def _until_they_wait() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
