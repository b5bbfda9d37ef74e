"""Task figures: written with the change itself, folded once, kept in bounded series and spans."""

import asyncio
from collections.abc import Sequence

from crawlfleet.model.execution import End
from crawlfleet.model.figures import task_figures as figures
from crawlfleet.model.ids import node_text
from crawlfleet.ports.store import Store
from testkit.factories import Kit
from testkit.figure_recount import stored_figures

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def _named(row: Sequence[int]) -> dict[str, int]:
    return {name: row[place] for name, place in figures.FIELDS.items() if row[place] and not name.endswith("_ms")}


async def figures_say_what_happened_to_tasks(store: Store, kit: Kit) -> None:
    node = await kit.node()
    tasks = await kit.submit(4)
    kit.later(300)
    runs = await kit.assign(tasks[:3], node)
    kit.later(40)
    await kit.start(runs[0])
    kit.later(2_000)
    await kit.complete(runs[0], runs[1])
    await kit.fail(runs[2])
    await kit.cancel(tasks[3])
    row = await stored_figures(kit.second)
    assert _named(row) == {
        "submitted": 4,
        "assigned": 3,
        "started": 1,
        "completed": 2,
        "failed": 1,
        "error_input": 1,
        "tasks_completed": 2,
        "tasks_failed": 1,
        "tasks_cancelled": 1,
    }
    # From ready to assigned, each of three; the second and third never said when they started.
    assert row[figures.WAIT_MS] == 3 * 300
    assert row[figures.RAN_MS] == 2_000 + 2 * 2_040


async def a_wait_begins_when_a_task_is_ready_again(store: Store, kit: Kit) -> None:
    node = await kit.node()
    (run,) = await kit.assign(await kit.submit(1), node)
    kit.later(5_000)
    await kit.finish(run, End.RETURNED)
    kit.later(70)
    (again,) = await kit.assign([run.task], node)
    kit.later(1_000)
    await kit.complete(again)
    row = await stored_figures(kit.second)
    assert (row[figures.WAIT_MS], row[figures.RAN_MS], row[figures.RETURNED]) == (70, 1_000, 1)


async def each_kind_of_series_has_its_part(store: Store, kit: Kit) -> None:
    lane = await kit.known_lane("books", queue="slow", priority=8, task_type="book")
    first, second = await kit.node(), await kit.node()
    (run,) = await kit.run(first, 1)
    (other,) = await kit.run(second, 1, lane=lane)
    await kit.complete(run, other)
    await store.fold_counters(await kit.term())
    totals = await kit.second.figure_totals()
    for series in ("type:book", "queue:slow", "project:books", "priority:8", f"node:{node_text(second.id)}"):
        assert totals[series].figures[figures.COMPLETED] == 1, series
    assert totals["cluster:default"].figures[figures.COMPLETED] == 2
    assert totals["*"].figures[figures.SUBMITTED] == 2
    assert totals[f"node:{node_text(first.id)}"].figures[figures.SUBMITTED] == 0
    assert set(await kit.second.figure_totals("type")) == {"type:echo", "type:book"}
    assert set(await kit.second.figure_totals("*")) == {"*"}


async def a_change_without_its_figures_does_not_exist(store: Store, kit: Kit) -> None:
    """Whoever is refused counts nothing: the delta is part of the transaction."""
    run = await kit.run_one(await kit.node())
    await kit.complete(run)
    before = await stored_figures(kit.second)
    await kit.complete(run)
    await kit.cancel(run.task)
    assert await stored_figures(kit.second) == before


async def two_folds_at_once_add_each_delta_once(store: Store, kit: Kit) -> None:
    term = await kit.term()
    for _ in range(5):
        await kit.submit(3)
        await asyncio.gather(store.fold_counters(term, 2), kit.second.fold_counters(term, 2), kit.submit(1))
    while await store.fold_counters(term):
        pass
    assert (await kit.second.figure_totals("*"))["*"].figures[figures.SUBMITTED] == 20
    history = await kit.second.figure_history(["*"], figures.MINUTE_S, 0, kit.now + 1, 10)
    assert figures.sum_rows(point.figures for point in history["*"])[figures.SUBMITTED] == 20


async def minutes_hours_and_days_begin_where_the_clock_says(store: Store, kit: Kit) -> None:
    kit.now += DAY_MS - kit.now % DAY_MS - 1
    term = await kit.term()
    await kit.submit(1)
    kit.later(1)
    await kit.submit(2)
    await store.fold_counters(term)
    kit.later(HOUR_MS)
    await kit.submit(4)
    await store.fold_counters(term)
    seen = {}
    for span, span_s in figures.SPANS.items():
        points = (await kit.second.figure_history(["*"], span_s, 0, kit.now + 1, 10))["*"]
        assert all(point.starts_at % (span_s * 1000) == 0 for point in points)
        seen[span] = [point.figures[figures.SUBMITTED] for point in points]
    assert seen == {"minute": [1, 2, 4], "hour": [1, 2, 4], "day": [1, 6]}


async def history_gives_the_newest_points_of_a_range(store: Store, kit: Kit) -> None:
    term = await kit.term()
    starts = []
    for count in (1, 2, 3, 4):
        await kit.submit(count)
        await store.fold_counters(term)
        starts.append(kit.now - kit.now % MINUTE_MS)
        kit.later(MINUTE_MS)
    read = kit.second.figure_history

    async def counts(since: int, until: int, limit: int) -> list[int]:
        points = (await read(["*", "type:none"], figures.MINUTE_S, since, until, limit))["*"]
        return [point.figures[figures.SUBMITTED] for point in points]

    assert await counts(0, kit.now, 10) == [1, 2, 3, 4]
    assert await counts(0, kit.now, 2) == [3, 4]
    assert await counts(starts[1], starts[3], 10) == [2, 3]
    assert (await read(["type:none"], figures.MINUTE_S, 0, kit.now, 10)) == {"type:none": []}


async def invented_names_share_one_series(store: Store, kit: Kit) -> None:
    term, most = await kit.term(), figures.SERIES_MOST[figures.QUEUE]
    for number in range(most + 20):
        lane = await kit.known_lane(queue=f"q{number:03}")
        await kit.submit(1, lane=lane)
    await store.fold_counters(term)
    queues = await kit.second.figure_totals("queue")
    assert len(queues) == most + 1
    assert queues["queue:~other"].figures[figures.SUBMITTED] == 20
    assert figures.sum_rows(total.figures for total in queues.values())[figures.SUBMITTED] == most + 20


async def a_name_that_rests_for_long_gives_its_place(store: Store, kit: Kit) -> None:
    term, most = await kit.term(), figures.SERIES_MOST[figures.QUEUE]
    for number in range(most):
        await kit.submit(1, lane=await kit.known_lane(queue=f"q{number:03}"))
    await store.fold_counters(term)
    kit.later(figures.IDLE_MS)
    await kit.submit(3, lane=await kit.known_lane(queue="q000"))
    await kit.submit(5, lane=await kit.known_lane(queue="new"))
    await store.fold_counters(term)
    queues = await kit.second.figure_totals("queue")
    counts = {series: total.figures[figures.SUBMITTED] for series, total in queues.items()}
    assert (counts["queue:q000"], counts["queue:new"], counts["queue:~other"]) == (4, 5, 1)
    assert len(counts) == most + 1
    assert sum(counts.values()) == most + 8


async def figures_that_are_no_longer_kept_go(store: Store, kit: Kit) -> None:
    term = await kit.term()
    await kit.submit(1)
    await store.fold_counters(term)
    begun, left = kit.now, {}
    for after_ms in (0, 7 * HOUR_MS, 15 * DAY_MS, 401 * DAY_MS):
        await store.drop_task_figures(term, begun + after_ms)
        for span, span_s in figures.SPANS.items():
            points = (await kit.second.figure_history(["*"], span_s, 0, begun + 1, 10))["*"]
            left[after_ms, span] = len(points)
    assert [left[0, span] for span in figures.SPANS] == [1, 1, 1]
    assert [left[7 * HOUR_MS, span] for span in figures.SPANS] == [0, 1, 1]
    assert [left[15 * DAY_MS, span] for span in figures.SPANS] == [0, 0, 1]
    assert [left[401 * DAY_MS, span] for span in figures.SPANS] == [0, 0, 0]
    # What happened since the beginning stays.
    assert (await kit.second.figure_totals("*"))["*"].figures[figures.SUBMITTED] == 1


async def counters_of_lanes_are_exact_and_leave_no_zeros(store: Store, kit: Kit) -> None:
    lane = await kit.known_lane(queue="slow")
    tasks = [*await kit.submit(3), *await kit.submit(2, lane=lane)]
    assert await kit.second.lane_totals() == await kit.second.count_lane_rows()
    await store.fold_counters(await kit.term())
    await kit.cancel(*tasks)
    assert await kit.second.lane_totals() == await kit.second.count_lane_rows()
    await store.drop_tasks(tasks, kit.now)
    assert await kit.second.lane_totals() == {}
    await store.fold_counters(await kit.term())
    dump = await kit.dump()
    assert (dump["lane_counter"], dump["counter"]) == ([], [])


async def gauges_are_kept_in_every_span(store: Store, kit: Kit) -> None:
    term = await kit.term()
    kit.now += HOUR_MS - kit.now % HOUR_MS
    await store.put_gauges(term, kit.now, [10, 1, 5, 1, 2, 100])
    await store.put_gauges(term, kit.later(MINUTE_MS), [30, 3, 5, 3, 2, 50])
    minutes = await kit.second.gauge_history(figures.MINUTE_S, 0, kit.now + 1, 10)
    assert [figures.average_gauge(point.figures, 0) for point in minutes] == [10, 30]
    (hour,) = await kit.second.gauge_history(figures.HOUR_S, 0, kit.now + 1, 10)
    assert (figures.average_gauge(hour.figures, 0), figures.highest_gauge(hour.figures, 5)) == (20, 100)
    assert "gauge:*" not in await kit.second.figure_totals()


async def the_oldest_ready_task_is_the_first_of_its_lane(store: Store, kit: Kit) -> None:
    assert await kit.second.oldest_ready() is None
    begun = kit.now
    tasks = await kit.submit(2)
    kit.later(1_000)
    await kit.submit(1, lane=await kit.known_lane(queue="slow"))
    await kit.submit(1, due_at=kit.now + 5)
    assert await kit.second.oldest_ready() == begun
    await kit.cancel(*tasks)
    assert await kit.second.oldest_ready() == begun + 1_000
