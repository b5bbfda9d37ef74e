"""Ids: ascending, never repeated, and the same for people and machines."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.errors import InvalidInput
from crawlfleet.model.ids import (
    BOOTS,
    EPOCH_MS,
    SEQUENCE_BITS,
    IdFactory,
    IdSlot,
    execution_text,
    group_text,
    made_at,
    node_text,
    parse_id,
    task_text,
)

NOW = 1_767_225_600_000
PER_MS = 1 << SEQUENCE_BITS


class Wall:
    """A wall clock that tests set."""

    def __init__(self, at: int = NOW) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at


def test_an_id_says_when_it_was_made() -> None:
    assert made_at(IdFactory(1, Wall()).new_id()) == NOW


def test_ids_of_later_milliseconds_are_greater_whoever_made_them() -> None:
    wall = Wall()
    first, second = IdFactory(1_000, wall), IdFactory(1, wall)
    before = first.new_id()
    wall.at += 1
    assert second.new_id() > before


def test_more_than_a_millisecond_holds_borrow_from_the_next() -> None:
    ids = IdFactory(1, Wall()).new_ids(3 * PER_MS)
    assert len(set(ids)) == 3 * PER_MS
    assert [made_at(ids[n]) - NOW for n in (0, PER_MS, 2 * PER_MS)] == [0, 1, 2]


def test_ids_go_on_ascending_when_the_clock_jumps_back() -> None:
    wall = Wall()
    factory = IdFactory(1, wall)
    before = factory.new_ids(10)
    wall.at -= 3_600_000
    assert factory.new_id() > before[-1]


def test_starts_at_the_same_instant_do_not_share_ids() -> None:
    made = [IdFactory(boot, Wall()).new_ids(100) for boot in range(20)]
    assert len({one for ids in made for one in ids}) == 2_000


@given(
    st.lists(st.tuples(st.integers(-(10**7), 10**7), st.integers(1, 3 * PER_MS)), min_size=1, max_size=10),
    st.integers(0, 10**6),
)
def test_ids_ascend_and_never_repeat_however_the_clock_jumps(steps: list[tuple[int, int]], boot: int) -> None:
    wall = Wall()
    factory = IdFactory(boot, wall)
    last = 0
    for jump_ms, count in steps:
        wall.at += jump_ms
        ids = factory.new_ids(count)
        assert len(ids) == count
        assert ids[0] > last
        assert all(a < b for a, b in itertools.pairwise(ids))
        last = ids[-1]
    assert last < 1 << 63


@given(st.integers(0, BOOTS - 1), st.integers(0, BOOTS - 1), st.integers(-(10**9), 10**9))
def test_two_starts_never_share_an_id_even_when_the_clock_was_set_back(one: int, other: int, jump_ms: int) -> None:
    first = set(IdFactory(one, Wall()).new_ids(50))
    second = set(IdFactory(other, Wall(NOW + jump_ms)).new_ids(50))
    assert one == other or not first & second


@given(st.integers(1, (1 << 63) - 1))
def test_an_id_is_read_back_from_what_people_see(value: int) -> None:
    texts = {"task": task_text, "exec": execution_text, "node": node_text, "group": group_text}
    for prefix, said in texts.items():
        text = said(value)
        assert parse_id(text, prefix, field="id") == value
        assert len(text) == len(prefix) + 17


def test_texts_sort_as_the_ids_do() -> None:
    ids = IdFactory(7, Wall()).new_ids(5)
    assert sorted(map(task_text, ids)) == [task_text(one) for one in ids]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "task",
        "task-",
        "task-1",
        "task-000000000000000g",
        "task-00000000000000001",
        "task-0000000000000000",
        "task-FFFFFFFFFFFFFFFF",
        "task-ffffffffffffffff",
        "task-00000000000000AB",
        "node-0000000000000001",
        "Task-0000000000000001",
        " task-0000000000000001",
        "task-0000000000000001 ",
        "task-+000000000000001",
        "task-0x00000000000001",
        "task-٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١",
        "task_0000000000000001",
        "task-000000000000_001",
        "task-\x00",
    ],
)
def test_what_is_no_id_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_id(text, "task", field="depends_on[3]")
    assert refused.value.field == "depends_on[3]"


def test_a_clock_before_our_time_still_makes_ids() -> None:
    ids = IdFactory(1, Wall(EPOCH_MS - 10**9)).new_ids(3)
    assert ids[0] > 0
    assert ids == sorted(set(ids))


def test_a_slot_that_was_used_before_goes_on_behind_its_last_id() -> None:
    wall = Wall()
    first = IdFactory(5, wall)
    made = set(first.new_ids(3 * PER_MS))
    until = first.newest_at + 10
    wall.at -= 3_600_000
    second = IdFactory(IdSlot(5, until), wall)
    assert second.slot == first.slot
    assert made.isdisjoint(ids := second.new_ids(2 * PER_MS))
    assert made_at(ids[0]) == until + 1
    wall.at = until + 1_000
    assert made_at(second.new_id()) == until + 1_000


def test_a_factory_that_changes_its_slot_goes_on_ascending() -> None:
    wall = Wall()
    factory = IdFactory(900, wall)
    before = factory.new_id()
    factory.use_slot(IdSlot(3, 0))
    wall.at += 1
    assert factory.slot == 3
    assert factory.new_id() > before
