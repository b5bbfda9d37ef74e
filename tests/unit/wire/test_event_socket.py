"""What callers send over the event WebSocket is decoded, or refused with the field."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.errors import InvalidInput
from crawlfleet.wire.event_socket import (
    Gap,
    Subscribe,
    SubscriptionEvent,
    Unsubscribe,
    find_message_id,
    read_caller_message,
)


def test_messages_are_decoded_by_their_op() -> None:
    text = '{"op":"subscribe","id":"a","kinds":["task."],"task":null,"node":"n","after":7}'
    assert read_caller_message(text) == Subscribe("a", ["task."], None, "n", 7)
    assert read_caller_message('{"op":"unsubscribe","id":"a"}') == Unsubscribe("a")


@given(st.one_of(st.text(), st.binary()))
def test_anything_else_is_refused_with_a_field(sent: str | bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_caller_message(sent)
    assert refused.value.field
    find_message_id(sent)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(InvalidInput):
        read_caller_message("[" * 60_000)


def test_a_refused_message_is_known_by_its_id() -> None:
    assert find_message_id('{"op":"shout","id":"a"}') == "a"
    assert find_message_id('{"id":7}') is None
    assert find_message_id('{"id":"' + "x" * 65 + '"}') is None
    assert find_message_id("[") is None


def test_events_look_like_those_of_the_stream() -> None:
    event = SubscriptionEvent(sub="a", number=1, happened_at="2026-11-18T00:00:00.000Z", kind="k", data={})
    assert msgspec.json.decode(msgspec.json.encode(event)) == {
        "sub": "a",
        "number": 1,
        "at": "2026-11-18T00:00:00.000Z",
        "kind": "k",
        "data": {},
    }
    assert msgspec.json.encode(Gap("a", 5)) == b'{"op":"gap","sub":"a","first":5}'
