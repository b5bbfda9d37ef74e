"""Sessions of the last hour, by node."""

from crawlfleet.control.support.session_counter import MAX_NODES, MAX_SESSIONS, SessionCounter
from testkit.clock import FakeClock


def test_nodes_with_several_sessions_in_the_last_hour_are_counted() -> None:
    clock = FakeClock()
    counter = SessionCounter(clock)
    counter.note_session(1)
    clock.advance(3_000.0)
    for node in (1, 1, 2):
        counter.note_session(node)
    assert counter.repeated_sessions() == {1: 3}
    clock.advance(601.0)
    assert counter.repeated_sessions() == {1: 2}
    clock.advance(3_600.0)
    assert counter.repeated_sessions() == {}


def test_what_is_kept_and_reported_is_bounded() -> None:
    counter = SessionCounter(FakeClock())
    for number in range(MAX_SESSIONS + 1_000):
        counter.note_session(number % 1_000)
    sessions = counter.repeated_sessions()
    assert len(sessions) == MAX_NODES
    assert set(sessions.values()) == {MAX_SESSIONS // 1_000}
