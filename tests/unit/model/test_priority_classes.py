"""The class of a priority: the largest of the classes' numbers that is not above it."""

from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model.queue import PriorityClasses

priorities = st.integers(1, 10)


def test_the_usual_classes() -> None:
    classes = PriorityClasses()
    named = {priority: classes.find_class(priority) for priority in range(1, 11)}
    assert named == {10: "high"} | dict.fromkeys(range(5, 10), "normal") | dict.fromkeys(range(1, 5), "low")
    assert [classes.find_priority(name) for name in ("high", "normal", "low", "retry")] == [10, 5, 1, None]


def test_what_is_below_all_classes_is_low() -> None:
    assert PriorityClasses(9, 6, 3).find_class(1) == "low"


@given(st.lists(priorities, min_size=3, max_size=3), priorities)
def test_the_class_is_the_largest_not_above(numbers: list[int], priority: int) -> None:
    classes = PriorityClasses(*sorted(numbers, reverse=True))
    least = classes.find_priority(classes.find_class(priority))
    assert least == max((number for number in classes if number <= priority), default=classes.low)


@given(st.lists(priorities, min_size=3, max_size=3), priorities, priorities)
def test_a_higher_priority_has_no_lower_class(numbers: list[int], first: int, second: int) -> None:
    classes = PriorityClasses(*sorted(numbers, reverse=True))
    order = list(reversed(PriorityClasses._fields))
    lower, higher = sorted((first, second))
    assert order.index(classes.find_class(lower)) <= order.index(classes.find_class(higher))
