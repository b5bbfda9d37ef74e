"""Strategies that know more than the nodes: where they are, how they fared, who blocked them."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from crawlfleet.model.evidence import HALF_LIFE_MS, Record, Subject
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import Health
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.placement.regions import Location, Regions
from crawlfleet.scheduling.placement.strategies import BUILT_IN, Candidates, Evidence, ExplainingStrategy, Knowledge
from crawlfleet.scheduling.placement.strategies.anti_crawling import (
    FIRST_COOL_DOWN_S,
    LONGEST_COOL_DOWN_S,
    AntiCrawling,
    cool_down_ms,
)
from tests.node_states import node_state

NOW = 1_767_225_600_000
HTML: Subject = ("content_type", "html")
REACT: Subject = ("technology", "react")
SHOP: Subject = ("host", "shop.example")


def known(records: Mapping[Subject, Mapping[int, Record]], addresses: Mapping[int, str] | None = None) -> Knowledge:
    rows = {
        subject: {node: ((addresses or {}).get(node, ""), record) for node, record in found.items()}
        for subject, found in records.items()
    }
    return Knowledge(NOW, Evidence(rows))


def order(requirement: Requirement, nodes: Sequence[NodeState], knowledge: Knowledge | None = None) -> list[int]:
    """Nodes of one slot each: the order in which they are taken is the order of preference."""
    placer = Placer(nodes, rng=random.Random(1), knowledge=knowledge or Knowledge(NOW))
    return [state.node.id for state in placer.place_tasks(requirement, "p", 1_000)]


def reason(requirement: Requirement, state: NodeState, knowledge: Knowledge) -> str:
    made = BUILT_IN[requirement.strategy or ""](Candidates(requirement, [state], random.Random(1), 0, knowledge))
    assert isinstance(made, ExplainingStrategy)
    return made.reason(state)


# -- geo_location


def standing(node: int, region: str, **more: Any) -> NodeState:
    return node_state(node, **{"slots": 1, "region": region, **more})


def wanted(region: str | None, **more: Any) -> Requirement:
    return Requirement("web_crawl", strategy="geo_location", target_region=region, **more)


def test_first_the_region_then_the_country_then_the_nearest_then_whoever_is_nowhere() -> None:
    nodes = [
        standing(1, "mars"),
        standing(2, "ap-southeast-2"),
        standing(3, "us-west-2"),
        standing(4, "ca-central-1"),
        standing(5, "us-east-1"),
        standing(6, "eu-west-1"),
        standing(7, "us-east-2"),
    ]
    assert order(wanted("us-east-1"), nodes) == [5, 7, 3, 4, 6, 2, 1]


def test_a_busy_node_of_the_region_goes_before_an_idle_one_elsewhere() -> None:
    busy = standing(1, "eu-central-1", slots=10, held=9, health=Health.DEGRADED)
    assert order(wanted("eu-central-1"), [busy, standing(2, "eu-central-2")]) == [1, 2]


def test_within_a_region_the_load_decides() -> None:
    nodes = [standing(1, "eu-west-1", slots=4, held=3), standing(2, "eu-west-1", slots=4, held=1)]
    assert order(wanted("eu-west-1"), nodes)[:2] == [2, 2]


def test_nothing_is_refused_for_its_place_unless_that_is_asked_for() -> None:
    nodes = [standing(1, ""), standing(2, "mars"), standing(3, "us-east-1")]
    assert sorted(order(wanted("us-east-1"), nodes)) == [1, 2, 3]
    fresh = [standing(1, ""), standing(2, "mars"), standing(3, "us-east-1")]
    assert order(wanted("us-east-1", require_region=True), fresh) == [3]


def test_a_region_that_nobody_knows_is_still_one_to_be_in() -> None:
    assert order(wanted("Cellar 1"), [standing(1, "us-east-1"), standing(2, "cellar-1")]) == [2, 1]


def test_regions_of_the_installation_have_their_distances() -> None:
    own = Knowledge(NOW, regions=Regions({"cellar": Location("at", 48.2, 16.4), "attic": Location("at", 47.1, 15.4)}))
    nodes = [standing(1, "eu-central-1"), standing(2, "attic"), standing(3, "de")]
    assert order(wanted("cellar"), nodes, own)[0] == 2


def test_where_a_node_is_can_be_said() -> None:
    state, knowledge = standing(1, "us-west-2", slots=16, held=3), Knowledge(NOW)
    assert reason(wanted("us-west-2"), state, knowledge) == "same region us-west-2; 3 of 16 slots in use"
    assert reason(wanted("us-east-1"), state, knowledge).startswith("same country us, us-west-2 is 3,")
    assert "km from eu-west-1" in reason(wanted("eu-west-1"), state, knowledge)
    assert reason(wanted("mars"), state, knowledge).startswith("no known distance from us-west-2 to mars")
    assert reason(wanted(None), state, knowledge).startswith("no target region")


# -- content_based


def content(*subjects: Subject) -> Requirement:
    return Requirement("web_crawl", strategy="content_based", subjects=subjects)


def single(node: int, **more: Any) -> NodeState:
    return node_state(node, **{"slots": 1, **more})


def test_a_good_record_goes_before_none_and_none_before_a_bad_one() -> None:
    knowledge = known({REACT: {1: Record(1, 9, 0, NOW), 3: Record(50, 0, 0, NOW)}})
    assert order(content(REACT), [single(1), single(2), single(3)], knowledge) == [3, 2, 1]


def test_blocks_count_against_a_node_like_failures() -> None:
    knowledge = known({HTML: {1: Record(10, 0, 30, NOW), 2: Record(10, 2, 0, NOW)}})
    assert order(content(HTML), [single(1), single(2)], knowledge) == [2, 1]


def test_what_a_node_declares_counts_and_naming_only_others_counts_against_it() -> None:
    nodes = [
        single(1, capabilities=(("technologies", ("vue",)),)),
        single(2),
        single(3, capabilities=(("content_types", ("HTML", "json")), ("technologies", ("React",)))),
    ]
    assert order(content(HTML, REACT), nodes) == [3, 2, 1]


def test_an_old_record_counts_for_little() -> None:
    long_ago = NOW - 10 * HALF_LIFE_MS
    knowledge = known({REACT: {1: Record(0, 40, 0, long_ago), 2: Record(6, 4, 0, NOW)}})
    assert order(content(REACT), [single(1), single(2)], knowledge) == [1, 2]


def test_a_node_without_record_is_tried_when_proven_ones_fill_up() -> None:
    knowledge = known({REACT: {1: Record(100, 0, 0, NOW)}})
    nodes = [node_state(1, slots=10), node_state(2, slots=10)]
    placer = Placer(nodes, rng=random.Random(1), knowledge=knowledge)
    chosen = [state.node.id for state in placer.place_tasks(content(REACT), "p", 10)]
    assert chosen[0] == 1
    assert 2 in chosen


def test_without_content_features_only_the_load_counts() -> None:
    knowledge = known({REACT: {2: Record(0, 100, 0, NOW)}})
    nodes = [node_state(1, slots=4, held=2), node_state(2, slots=4)]
    assert order(content(), nodes, knowledge)[0] == 2


def test_a_record_can_be_said() -> None:
    knowledge = known({REACT: {1: Record(12, 3, 0, NOW)}})
    state = node_state(1, slots=16, held=3, capabilities=(("technologies", ("react",)),))
    said = reason(content(REACT), state, knowledge)
    assert said == "80% of its recent executions on react succeeded; declares react; 3 of 16 slots in use"
    assert reason(content(REACT), single(9), knowledge).startswith("no record on react yet")


# -- anti_crawling


def against(*subjects: Subject) -> Requirement:
    return Requirement("web_crawl", strategy="anti_crawling", subjects=subjects)


def blocked(count: float, ago_s: float, ok: float = 0.0) -> Record:
    at = NOW - int(ago_s * 1000)
    return Record(ok, 0, count, at, at)


def test_a_node_that_was_just_blocked_is_the_last_resort_until_it_has_cooled_down() -> None:
    knowledge = known({SHOP: {1: blocked(1, ago_s=10)}})
    full = node_state(2, slots=4, held=3)
    assert order(against(SHOP), [node_state(1, slots=2), full], knowledge) == [2, 1, 1]
    later = known({SHOP: {1: blocked(1, ago_s=FIRST_COOL_DOWN_S + 1, ok=20)}})
    assert order(against(SHOP), [node_state(1, slots=2), node_state(2, slots=4, held=3)], later)[0] == 1


def test_among_those_that_cool_down_the_one_nearest_to_the_end_goes_first() -> None:
    knowledge = known({SHOP: {1: blocked(1, ago_s=10), 2: blocked(1, ago_s=200), 3: blocked(3, ago_s=200)}})
    assert order(against(SHOP), [single(1), single(2), single(3)], knowledge) == [2, 1, 3]


def test_nodes_behind_one_address_share_its_blocks() -> None:
    addresses = {1: "198.51.100.7", 9: "198.51.100.7"}
    knowledge = known({SHOP: {9: blocked(2, ago_s=60)}}, addresses)
    nodes = [single(1, egress="198.51.100.7"), single(2, egress="198.51.100.8")]
    assert order(against(SHOP), nodes, knowledge) == [2, 1]


def test_nodes_of_which_no_address_is_known_share_nothing() -> None:
    knowledge = known({SHOP: {1: blocked(1, ago_s=60)}})
    assert order(against(SHOP), [single(1), single(2)], knowledge) == [2, 1]


def test_a_node_takes_its_own_blocks_along_to_another_address() -> None:
    knowledge = known({SHOP: {1: blocked(1, ago_s=60)}}, {1: "198.51.100.7"})
    assert order(against(SHOP), [single(1, egress="203.0.113.5"), single(2)], knowledge) == [2, 1]


def test_another_host_has_blocked_nobody() -> None:
    knowledge = known({SHOP: {1: blocked(9, ago_s=1)}})
    assert order(against(("host", "news.example")), [single(1), node_state(2, slots=2, held=1)], knowledge)[0] == 1


def test_needed_bypasses_count_and_never_refuse() -> None:
    needed = (("bypass", "captcha"), ("bypass", "cloudflare"))
    nodes = [
        single(1),
        single(2, capabilities=(("anti_crawling_bypass", ("Cloudflare",)),)),
        single(3, capabilities=(("anti_crawling_bypass", ("captcha", "cloudflare")),)),
        single(4, capabilities=(("anti_crawling_bypass", 1.0),)),
    ]
    chosen = order(against(*needed), nodes)
    assert (set(chosen[:2]), chosen[2:]) == ({3, 4}, [2, 1])


@pytest.mark.parametrize(("count", "seconds"), [(0, 300), (1, 300), (2, 600), (3, 1_200), (50, LONGEST_COOL_DOWN_S)])
def test_a_cool_down_doubles_up_to_six_hours(count: float, seconds: float) -> None:
    assert cool_down_ms(count) == seconds * 1000


def test_blocks_can_be_said() -> None:
    knowledge = known({SHOP: {1: blocked(1, ago_s=100)}})
    said = reason(against(SHOP), node_state(1, slots=2), knowledge)
    assert said == "blocked by shop.example 100 s ago, cools down for another 200 s; 0 of 2 slots in use"
    assert reason(against(SHOP), single(2), knowledge).startswith("not blocked by shop.example so far")
    assert reason(against(), single(2), knowledge).startswith("no host known")


def test_a_clock_that_was_set_back_does_not_free_anybody() -> None:
    state = single(1)
    knowledge = Knowledge(NOW - 60_000, Evidence({SHOP: {1: ("", blocked(1, ago_s=0))}}))
    made = AntiCrawling(Candidates(against(SHOP), [state], random.Random(1), 0, knowledge))
    assert made.cooling_ms(state) == FIRST_COOL_DOWN_S * 1000 + 60_000
