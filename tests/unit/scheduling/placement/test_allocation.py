import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model.node import Measurement
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.allocation import allocated_amounts, comfortable_amounts, loan_shares

PLAIN = Requirement("web_crawl", resources=(("cpu", 1.0), ("memory_mb", 1_024.0)))
RENDERS = Requirement("web_crawl", capabilities=(("javascript_rendering", 1.0),), resources=PLAIN.resources)
ROTATES = Requirement("web_crawl", capabilities=(("proxy_rotation", 1.0),), resources=PLAIN.resources)
NODE = {"cpu": 8.0, "memory_mb": 16_384.0}


def test_rendering_wants_more_memory_and_rotating_proxies_more_processor() -> None:
    plain, renders, rotates = comfortable_amounts(PLAIN), comfortable_amounts(RENDERS), comfortable_amounts(ROTATES)
    assert renders["memory_mb"] > plain["memory_mb"]
    assert renders["cpu"] == plain["cpu"]
    assert rotates["cpu"] > plain["cpu"]
    assert rotates["memory_mb"] == plain["memory_mb"]


def test_an_idle_node_makes_its_task_comfortable() -> None:
    assert allocated_amounts(RENDERS, loan_shares(NODE, [(RENDERS, 1)])) == comfortable_amounts(RENDERS)


def test_a_full_node_gives_everybody_what_they_asked_for() -> None:
    assert allocated_amounts(PLAIN, loan_shares(NODE, [(PLAIN, 8), (RENDERS, 8)])) == dict(PLAIN.resources)


def test_what_is_left_is_shared_out() -> None:
    given_to = allocated_amounts(PLAIN, loan_shares({"cpu": 9.0, "memory_mb": 9_216.0}, [(PLAIN, 8)]))
    assert given_to["cpu"] == pytest.approx(1.125)
    assert given_to["memory_mb"] == pytest.approx(1_152)


@pytest.mark.parametrize("load", [0.9, 1.0, 7.0, math.nan, math.inf])
def test_a_busy_node_lends_nothing_and_keeps_its_word(load: float) -> None:
    shares = loan_shares(NODE, [(PLAIN, 1)], Measurement(cpu=load, memory=load))
    assert allocated_amounts(PLAIN, shares) == dict(PLAIN.resources)


def test_a_task_that_reserved_nothing_has_no_allocation() -> None:
    assert allocated_amounts(Requirement("echo"), loan_shares(NODE, [(PLAIN, 3)])) == {}


amounts = st.integers(1, 40).map(lambda n: n / 4)
capabilities = st.sampled_from(((), (("javascript_rendering", 1.0),), (("proxy_rotation", 1.0),)))
classes = st.builds(
    lambda cpu, memory_mb, able: Requirement(
        "web_crawl", capabilities=able, resources=(("cpu", cpu), ("memory_mb", memory_mb * 256))
    ),
    amounts,
    amounts,
    capabilities,
)
loads = st.floats(0, 1.5)


@given(st.lists(st.tuples(classes, st.integers(1, 5)), max_size=6), st.floats(1, 3), loads, loads)
def test_nobody_gets_less_than_the_minimum_and_all_together_no_more_than_there_is(
    held: list[tuple[Requirement, int]], room: float, cpu: float, memory: float
) -> None:
    least = {name: sum(dict(one.resources)[name] * count for one, count in held) for name in NODE}
    capacity = {name: amount * room for name, amount in least.items()}
    shares = loan_shares(capacity, held, Measurement(cpu=cpu, memory=memory))
    total = dict.fromkeys(NODE, 0.0)
    for one, count in held:
        given_to = allocated_amounts(one, shares)
        for name, minimum in one.resources:
            assert minimum <= given_to[name] <= comfortable_amounts(one)[name] + 1e-9
            total[name] += given_to[name] * count
    for name, amount in total.items():
        assert amount <= capacity[name] + 1e-6
