"""The documented order of preference of each strategy, for any fleet."""

import random
from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.model.evidence import HALF_LIFE_MS, NO_RECORD, Record, Subject, sum_records
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.placement.regions import DEFAULT_REGIONS, distance_km, normalize_name
from crawlfleet.scheduling.placement.shared_machines import share_machines
from crawlfleet.scheduling.placement.strategies import BUILT_IN, Candidates, Evidence, Knowledge
from crawlfleet.scheduling.placement.strategies.content_based import success_rate
from crawlfleet.scheduling.placement.strategies.geo_location import NEAR_KM
from tests.node_states import node_state

SETTINGS = settings(max_examples=100, derandomize=True, database=None)
NOW = 1_767_225_600_000
SUBJECTS: tuple[Subject, ...] = (("content_type", "html"), ("host", "shop.example"), ("technology", "react"))
REGIONS = ("", "mars", "us-east-1", "us-west-2", "Ashburn", "eu-central-1", "frankfurt", "cn-hangzhou", "de", "eu")

counts = st.floats(0, 50)
instants = st.integers(NOW - 3 * HALF_LIFE_MS, NOW)


@st.composite
def records(draw: st.DrawFn) -> Record:
    at = draw(instants)
    blocked = draw(st.sampled_from((0.0, 0.0, 1.0, 3.0)))
    return Record(draw(counts), draw(counts), blocked, at, at - draw(st.integers(0, 10**7)) if blocked else None)


@st.composite
def informed(draw: st.DrawFn) -> tuple[list[NodeState], Knowledge]:
    nodes = [
        node_state(
            number,
            slots=draw(st.integers(1, 4)),
            region=draw(st.sampled_from(REGIONS)),
            egress=draw(st.sampled_from(("", "198.51.100.1", "198.51.100.2"))),
            capabilities=draw(st.sampled_from(((), (("technologies", ("react",)),), (("content_types", ("pdf",)),)))),
        )
        for number in range(1, draw(st.integers(1, 6)) + 1)
    ]
    rows = {
        subject: {state.node.id: (state.node.description.address, draw(records())) for state in nodes}
        for subject in SUBJECTS
        if draw(st.booleans())
    }
    return nodes, Knowledge(NOW, Evidence(rows))


asking = st.builds(
    Requirement,
    task_type=st.just("web_crawl"),
    strategy=st.sampled_from(("geo_location", "content_based", "anti_crawling")),
    target_region=st.sampled_from((None, *REGIONS[1:])),
    subjects=st.sampled_from(((), SUBJECTS)),
)


@SETTINGS
@given(informed(), asking)
def test_a_price_never_falls_while_nodes_fill_and_every_slot_is_used(
    fleet: tuple[list[NodeState], Knowledge], requirement: Requirement
) -> None:
    nodes, knowledge = fleet
    made = BUILT_IN[requirement.strategy or ""](Candidates(requirement, nodes, random.Random(0), 0, knowledge))
    for state in nodes:
        prices = []
        for held in range(state.slots):
            state.held = held
            prices.append(made.cost(state, held))
        state.held = 0
        assert prices == sorted(prices)
    placer = Placer(nodes, rng=random.Random(0), knowledge=knowledge)
    chosen = Counter(state.node.id for state in placer.place_tasks(requirement, "p", 100))
    assert chosen == {state.node.id: state.slots for state in nodes}


@SETTINGS
@given(informed(), st.sampled_from(REGIONS[1:]))
def test_geo_location_keeps_its_order(fleet: tuple[list[NodeState], Knowledge], target: str) -> None:
    nodes, knowledge = fleet
    requirement = Requirement("web_crawl", strategy="geo_location", target_region=target)
    chosen = Placer(nodes, rng=random.Random(0), knowledge=knowledge).place_tasks(requirement, "p", 100)
    wanted = DEFAULT_REGIONS.find_location(target)

    def rank(state: NodeState) -> tuple[int, float]:
        region = state.node.description.region
        found = DEFAULT_REGIONS.find_location(region)
        if normalize_name(region) == normalize_name(target):
            return 0, 0.0
        if wanted is None or found is None:
            return 3, 0.0
        is_same = bool(found.country) and found.country == wanted.country
        return (1 if is_same else 2), distance_km(wanted, found)

    for first, second in pairwise(chosen):
        (tier, km), (next_tier, next_km) = rank(first), rank(second)
        assert tier < next_tier or (tier == next_tier and km <= next_km + NEAR_KM)


@SETTINGS
@given(st.lists(records(), min_size=2, max_size=6))
def test_content_based_takes_the_better_record_first(found: list[Record]) -> None:
    subject = SUBJECTS[2]
    nodes = [node_state(number, slots=1) for number in range(1, len(found) + 1)]
    rows = {subject: {state.node.id: ("", record) for state, record in zip(nodes, found, strict=True)}}
    requirement = Requirement("web_crawl", strategy="content_based", subjects=(subject,))
    placer = Placer(nodes, rng=random.Random(0), knowledge=Knowledge(NOW, Evidence(rows)))
    rates = [
        success_rate(rows[subject][state.node.id][1].decayed_to(NOW))
        for state in placer.place_tasks(requirement, "p", 100)
    ]
    assert all(first >= second - 1e-9 for first, second in pairwise(rates))


@SETTINGS
@given(st.lists(st.sampled_from(("", "a", "b", "c")), min_size=2, max_size=8), st.integers(0, 7), st.integers(0, 250))
def test_anti_crawling_takes_no_node_of_a_blocked_address_while_another_is_free(
    addresses: list[str], which: int, ago_s: int
) -> None:
    subject, victim = SUBJECTS[1], which % len(addresses) + 1
    nodes = [node_state(number, slots=2, egress=address) for number, address in enumerate(addresses, start=1)]
    at = NOW - ago_s * 1000
    rows = {subject: {victim: (addresses[victim - 1], Record(0, 0, 1, at, at))}}
    requirement = Requirement("web_crawl", strategy="anti_crawling", subjects=(subject,))
    placer = Placer(nodes, rng=random.Random(0), knowledge=Knowledge(NOW, Evidence(rows)))

    def is_cooling(state: NodeState) -> bool:
        address = state.node.description.address
        return state.node.id == victim or (bool(address) and address == addresses[victim - 1])

    chosen = [is_cooling(state) for state in placer.place_tasks(requirement, "p", 100)]
    assert chosen == sorted(chosen)


@SETTINGS
@given(st.lists(records(), max_size=6), st.randoms(use_true_random=False))
def test_records_add_up_in_any_order_and_only_fade(found: list[Record], rng: random.Random) -> None:
    one = sum_records(found).decayed_to(NOW)
    rng.shuffle(found)
    other = sum_records(found).decayed_to(NOW)
    assert abs(one.total - other.total) < 1e-6
    assert one.last_blocked_at == other.last_blocked_at
    assert one.total <= sum(record.total for record in found) + 1e-6
    assert NO_RECORD.plus(one).total == one.total


resources = st.sampled_from(((("cpu", 0.25),), (("cpu", 1.0),), (("cpu", 0.5), ("memory_mb", 256.0)), ()))
turns = st.lists(st.tuples(resources, st.sampled_from(sorted(BUILT_IN)), st.integers(1, 4)), max_size=15)


@SETTINGS
@given(
    st.lists(st.tuples(st.sampled_from(("", "m", "n")), st.integers(0, 8)), min_size=1, max_size=6),
    turns,
    st.sampled_from((0.5, 1.0, 1.5)),
    st.integers(0, 5),
)
def test_no_machine_is_promised_beyond_its_factor_by_any_sequence(
    fleet: list[tuple[str, int]], taken: list[tuple[tuple[tuple[str, float], ...], str, int]], factor: float, seed: int
) -> None:
    nodes = [
        node_state(number, slots=6, machine=machine, resources=(("cpu", cpu / 2), ("memory_mb", 1_024.0)))
        for number, (machine, cpu) in enumerate(fleet, start=1)
    ]
    share_machines(nodes)
    placer, rng = Placer(nodes, rng=random.Random(seed), overcommit=factor), random.Random(seed)
    used: Counter[tuple[str, str]] = Counter()
    for asked, strategy, count in taken:
        requirement = Requirement("web_crawl", strategy=strategy, resources=asked)
        chosen = placer.place_tasks(requirement, "p", count)
        if rng.random() < 0.3 and (more := placer.place_elsewhere(nodes[0].node.id, requirement, "p")):
            chosen = [*chosen, more]
        for state in chosen:
            for name, amount in asked:
                used[state.node.description.machine or str(state.node.id), name] += amount  # type: ignore[assignment]
        if chosen and rng.random() < 0.3:
            placer.release_tasks([(chosen[0].node.id, requirement)])
            for name, amount in asked:
                used[chosen[0].node.description.machine or str(chosen[0].node.id), name] -= amount  # type: ignore[assignment]
        for state in nodes:
            machine = state.node.description.machine or str(state.node.id)
            for name in ("cpu", "memory_mb"):
                assert used[machine, name] <= state.declared[name] * factor + 1e-6
            assert state.held <= state.slots
