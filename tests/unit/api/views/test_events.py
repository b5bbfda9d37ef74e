"""Which events a filter keeps."""

import pytest

from crawlfleet.api.views.events import EventFilter, event_view
from crawlfleet.model.event import Event, Kind


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (EventFilter(), True),
        (EventFilter(kinds=("task.",)), True),
        (EventFilter(kinds=("node.",)), False),
        (EventFilter(task=7), True),
        (EventFilter(task=8), False),
        (EventFilter(node=9), True),
        (EventFilter(task=7, node=10), False),
    ],
)
def test_all_parts_of_a_filter_must_match(wanted: EventFilter, expected: bool) -> None:
    event = Event(1, 0, Kind.TASK_COMPLETED, {"task": 7, "node": 9})
    assert wanted.matches_event(event) is expected


def test_ids_are_shown_as_text() -> None:
    view = event_view(Event(3, 0, Kind.TASK_COMPLETED, {"task": 7, "node": 0}))
    assert (view.number, view.at) == (3, "1970-01-01T00:00:00.000Z")
    assert view.data == {"task": "task-0000000000000007", "node": None}
