"""Rows of task figures: positions that do not overlap, sums, histograms and gauges."""

from __future__ import annotations

import math
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model.figures import task_figures as figures
from crawlfleet.model.status import ErrorClass, ExecutionStatus, TaskStatus

ROWS = st.lists(st.integers(0, 10**12), max_size=figures.PLACES)
TIMES = st.lists(st.integers(0, 10**7), min_size=1, max_size=200)


def test_every_position_has_one_meaning() -> None:
    named = sorted(figures.FIELDS.values())
    assert named == list(range(figures.RAN_TIMES))
    assert figures.WAIT_TIMES - figures.RAN_TIMES == figures.PLACES - figures.WAIT_TIMES == len(figures.BOUNDS_MS) + 1


def test_the_positions_of_stored_rows_never_change() -> None:
    assert (figures.SUBMITTED, figures.ASSIGNED, figures.STARTED, figures.COMPLETED, figures.PARKED) == (0, 1, 2, 3, 10)
    assert (figures.RETRIED, figures.REOPENED, figures.TASKS_COMPLETED, figures.ERRORS) == (11, 12, 13, 17)
    assert (figures.RAN_MS, figures.WAIT_MS, figures.RAN_TIMES, figures.WAIT_TIMES) == (26, 27, 28, 46)


@given(ROWS, ROWS)
def test_rows_add_up_whatever_their_length(one: list[int], other: list[int]) -> None:
    sums = figures.sum_rows([one, other])
    for place, total in enumerate(sums):
        assert total == sum(row[place] for row in (one, other) if place < len(row))


@given(ROWS)
def test_a_trimmed_row_adds_up_to_the_same(row: list[int]) -> None:
    trimmed = figures.trim_row(row)
    assert figures.sum_rows([trimmed]) == figures.sum_rows([row])
    assert not trimmed or trimmed[-1]


def test_a_sum_stays_storable() -> None:
    row = [figures.COUNT_MAX]
    assert figures.sum_rows([row, row])[0] == figures.COUNT_MAX


def test_run_times_count_only_where_the_execution_ran_to_its_own_end() -> None:
    for status in ExecutionStatus:
        row = figures.empty_row()
        figures.record_execution_end(row, status, error=ErrorClass.HTTP, ran_ms=30, wait_ms=7)
        is_run = status in (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.TIMEOUT)
        assert sum(figures.run_times(row)) == figures.count_runs(row) == int(is_run)
        assert row[figures.RAN_MS] == (30 if is_run else 0)
        assert (sum(figures.wait_times(row)), row[figures.WAIT_MS]) == (1, 7)
        assert row[figures.FIELDS["error_http"]] == 1
        assert row[figures.FIELDS[status.word]] == 1


@given(TIMES)
def test_a_percentile_lies_between_the_bounds_of_its_time(times: list[int]) -> None:
    row = figures.empty_row()
    for span in times:
        figures.record_execution_end(row, ExecutionStatus.COMPLETED, ran_ms=span)
    for part in (0.0, 0.5, 0.95, 1.0):
        estimate = figures.percentile_ms(figures.run_times(row), part)
        assert estimate is not None
        exact = sorted(times)[max(0, math.ceil(part * len(times)) - 1)]
        bounds = (0, *figures.BOUNDS_MS)
        place = bisect_left(figures.BOUNDS_MS, exact)
        assert bounds[min(place, len(bounds) - 1)] <= estimate <= bounds[min(place + 1, len(bounds) - 1)]
    assert figures.cumulative_times(figures.run_times(row))[-1] == len(times)


def test_without_ends_nothing_is_said() -> None:
    row = figures.empty_row()
    assert figures.failure_rate(row) is None
    assert figures.average_run_ms(row) is None
    assert figures.percentile_ms(figures.run_times(row), 0.5) is None


def test_the_failure_rate_is_of_tasks_and_not_of_tries() -> None:
    row = figures.empty_row()
    row[figures.FAILED], row[figures.RETRIED] = 9, 8
    row[figures.task_end_place(TaskStatus.COMPLETED)] = 3
    row[figures.task_end_place(TaskStatus.FAILED)] = 1
    row[figures.task_end_place(TaskStatus.CANCELLED)] = 50
    assert figures.failure_rate(row) == 0.25


@pytest.mark.parametrize(
    ("series", "parts"),
    [
        ("*", ("*", "")),
        ("type:echo", ("type", "echo")),
        ("project:a:b", ("project", "a:b")),
        ("node:~other", ("node", "~other")),
        ("gauge:*", None),
        ("type:", None),
        ("type", None),
        ("", None),
        ("shop:echo", None),
    ],
)
def test_names_of_series(series: str, parts: tuple[str, str] | None) -> None:
    assert figures.split_series(series) == parts


def test_gauges_keep_the_average_and_the_highest() -> None:
    values = [[10, 1, 5, 1, 2, 100], [30, 3, 5, 3, 2, 50]]
    row = figures.add_gauges(figures.gauge_sample(values[0]), figures.gauge_sample(values[1]))
    assert [figures.average_gauge(row, place) for place in range(6)] == [20, 2, 5, 2, 2, 75]
    assert [figures.highest_gauge(row, place) for place in range(6)] == [30, 3, 5, 3, 2, 100]
