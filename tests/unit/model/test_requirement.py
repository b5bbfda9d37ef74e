"""Requirements: the same asked for in other words is the same requirement."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model.requirement import Requirement, canonical_capabilities, canonical_resources, round_resources

names = st.sampled_from(["cpu", "cpu_cores", "memory_mb", "memory_gb", "gpu", "disk"])
amounts = st.floats(0, 10_000)


def test_resources_have_one_name_each() -> None:
    assert canonical_resources({"cpu_cores": 2, "memory_gb": 1.5}) == {"cpu": 2.0, "memory_mb": 1536.0}
    assert canonical_resources({"cpu": 1, "cpu_cores": 2}) == {"cpu": 3.0}
    assert canonical_resources({"gpu": 1}) == {"gpu": 1.0}


@pytest.mark.parametrize(
    ("asked", "reserved"),
    [
        ({"cpu": 0.1}, (("cpu", 0.25),)),
        ({"cpu": 0.25}, (("cpu", 0.25),)),
        ({"cpu": 0.26}, (("cpu", 0.5),)),
        ({"memory_mb": 1}, (("memory_mb", 64.0),)),
        ({"memory_mb": 1024}, (("memory_mb", 1024.0),)),
        ({"memory_mb": 1025}, (("memory_mb", 1280.0),)),
        ({"cpu": 1e-300}, (("cpu", 0.25),)),
        ({"cpu": 0}, ()),
        ({}, ()),
    ],
)
def test_resources_are_rounded_up_into_few_classes(
    asked: dict[str, float], reserved: tuple[tuple[str, float], ...]
) -> None:
    assert round_resources(asked) == reserved


@given(st.dictionaries(names, amounts))
def test_a_reservation_never_falls_short_of_what_was_asked(asked: dict[str, float]) -> None:
    canonical = canonical_resources(asked)
    reserved = dict(round_resources(canonical))
    for name, amount in canonical.items():
        assert reserved.get(name, 0.0) >= amount - 1e-6


@given(st.dictionaries(names, amounts))
def test_bucketing_what_is_bucketed_changes_nothing(asked: dict[str, float]) -> None:
    once = round_resources(canonical_resources(asked))
    assert round_resources(dict(once)) == once


def test_capabilities_are_numbers_or_sets_of_words() -> None:
    asked = {"js": True, "ram": 3, "os": "linux", "langs": ["en", "de", "en"]}
    assert canonical_capabilities(asked) == (("js", 1.0), ("langs", ("de", "en")), ("os", ("linux",)), ("ram", 3.0))


@given(st.permutations([("js", True), ("langs", ["a", "b"]), ("cpu", 2)]))
def test_the_order_of_asking_makes_no_other_lane(asked: list[tuple[str, object]]) -> None:
    requirement = Requirement("echo", capabilities=canonical_capabilities(dict(asked)))
    reference = Requirement("echo", capabilities=canonical_capabilities({"cpu": 2, "js": 1, "langs": ["b", "a"]}))
    assert requirement.id == reference.id
