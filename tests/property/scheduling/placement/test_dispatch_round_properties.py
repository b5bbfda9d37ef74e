"""Fair shares within their bound, quotas never passed, and nobody starves: whatever the sequence."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from crawlfleet.control.leader.cluster_view import apply_ledger_changes
from crawlfleet.control.leader.slot_ledger import SlotLedger
from crawlfleet.model.ids import IdFactory
from crawlfleet.model.project import Project, Quotas
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.dispatch_round import DispatchRound, RoundInputs, RoundLimits
from crawlfleet.scheduling.placement.fair_shares import FairShares, FairSharesByRank
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.lane_order import Ageing, LaneOrder
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.placement.shared_machines import share_machines
from tests.node_states import node_state

SETTINGS = settings(max_examples=150, derandomize=True, database=None)
NOW = 1_800_000_000_000
EPS = 1e-6

weights = st.sampled_from((0.25, 0.5, 1.0, 2.0, 3.0, 7.0))
projects = st.dictionaries(st.sampled_from("abcdef"), weights, min_size=2, max_size=6)


@SETTINGS
@given(
    projects,
    st.integers(1, 40),
    st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), st.integers(1, 40)), max_size=60),
)
def test_over_any_span_projects_that_have_work_get_their_shares(
    weighted: dict[str, float], quantum: int, events: list[tuple[str, bool, int]]
) -> None:
    """Projects come and go; at each step the one with the smallest tag has a turn of at most a quantum."""
    shares = FairShares()
    active = set(weighted)
    served: Counter[str] = Counter()
    begun: dict[frozenset[str], Counter[str]] = {}
    """For each pair: what both had when the span began in which both have work."""
    for project, is_active, length in events:
        if project in weighted:
            active = active | {project} if is_active else active - {project}
        for _ in range(length if active else 0):
            turn = min(active, key=lambda name: (shares.project_tag(name), name))
            count = 1 + (length * 7 + served[turn]) % quantum
            shares.record_served(turn, count, weighted[turn])
            served[turn] += count
        pairs = {frozenset((one, other)) for one in active for other in active if one < other}
        begun = {pair: begun.get(pair) or Counter(served) for pair in pairs}
        for pair, before in begun.items():
            one, other = sorted(pair)
            gained = [(served[name] - before[name]) / weighted[name] for name in (one, other)]
            bound = quantum / weighted[one] + quantum / weighted[other]
            assert abs(gained[0] - gained[1]) <= bound + EPS


@SETTINGS
@given(projects, st.integers(1, 30), st.integers(1, 60), st.integers(0, 9))
def test_what_is_placed_is_shared_over_many_small_passes(
    weighted: dict[str, float], quantum: int, batch: int, seed: int
) -> None:
    """All have work without end; the nodes take a few tasks a pass, never the same number."""
    rng = random.Random(seed)
    described = {name: Project(name, weight) for name, weight in weighted.items()}
    order, shares = LaneOrder(Ageing()), FairSharesByRank()
    ids = IdFactory(1, lambda: NOW)
    lanes = {}
    for name in weighted:
        for queue in ("x", "y"):
            lane = Lane.with_id(queue, name, 5, Requirement("web_crawl"))
            lanes[lane.id] = lane
            order.update_lane(lane, ids.new_id(), 100_000)
    placed: Counter[str] = Counter()
    for _ in range(30):
        placer = Placer([node_state(slots=rng.randint(0, 50))], rng=rng)
        choice = DispatchRound(
            placer, shares, RoundInputs(described), RoundLimits(batch, quantum), lambda asked: asked
        ).plan_round(order, NOW)
        for lane_id, nodes in choice.nodes.items():
            placed[lanes[lane_id].project] += len(nodes)
        gained = [(placed[name] / weight, quantum / weight) for name, weight in weighted.items()]
        for one, turn in gained:
            assert all(abs(one - other) <= turn + their_turn + EPS for other, their_turn in gained)


CLASSES = (
    Requirement("web_crawl"),
    Requirement("web_crawl", resources=(("cpu", 0.25),)),
    Requirement("web_crawl", resources=(("cpu", 1.5), ("memory_mb", 64.0))),
    Requirement("web_crawl", resources=(("memory_mb", 512.0),)),
    Requirement("web_crawl", resources=(("gpu", 1.0),)),
)
PROJECTS = ("p", "q", "r")
limits = st.builds(
    Quotas,
    running=st.none() | st.integers(0, 8),
    cpu=st.none() | st.sampled_from((0.0, 0.25, 1.5, 3.0)),
    memory_mb=st.none() | st.sampled_from((0.0, 64.0, 1024.0)),
)


class QuotasAreKept(RuleBasedStateMachine):
    """A leader with its ledger, its kept order and its kept placer, while tasks come and end, quotas change, nodes
    lose what they hold, and the leader is another one. Some nodes are of one machine."""

    @initialize(nodes=st.lists(st.tuples(st.integers(0, 6), st.sampled_from(("", "m", "n"))), min_size=1, max_size=5))
    def begin(self, nodes: list[tuple[int, str]]) -> None:
        resources = (("cpu", 4.0), ("memory_mb", 2_048.0))
        self.states = [
            node_state(number, slots=slots, machine=machine, resources=resources)
            for number, (slots, machine) in enumerate(nodes, 1)
        ]
        self.held: dict[tuple[int, int], Lane] = {}
        self.sizes: Counter[int] = Counter()
        self.lanes: dict[int, Lane] = {}
        self.described: dict[str, Project] = {}
        self.tasks = iter(range(1, 10_000_000))
        self.ids = IdFactory(1, lambda: NOW)
        self.shares = FairSharesByRank()
        self.order = LaneOrder(Ageing())
        self.ledger = SlotLedger()
        self.over: dict[tuple[str, str], float] = {}
        """What was in use above a quota when the quota was set: it may only fall."""
        self.look()

    def look(self) -> None:
        self.ledger.pop_changes()
        for state in self.states:
            state.held, state.reserved = (
                len(self.ledger.holds_on(state.node.id)),
                self.ledger.reserved_on(state.node.id),
            )
        share_machines(self.states)
        self.placer = Placer(self.states, rng=random.Random(3))

    @rule(
        project=st.sampled_from(PROJECTS),
        which=st.sampled_from(CLASSES),
        priority=st.integers(4, 6),
        n=st.integers(1, 9),
    )
    def submit(self, project: str, which: Requirement, priority: int, n: int) -> None:
        lane = Lane.with_id("default", project, priority, which)
        self.lanes[lane.id] = lane
        self.sizes[lane.id] += n
        self.order.update_lane(lane, self.ids.new_id(), self.sizes[lane.id])

    @rule(project=st.sampled_from(PROJECTS), quotas=limits, weight=weights)
    def describe(self, project: str, quotas: Quotas, weight: float) -> None:
        self.described[project] = Project(project, weight, quotas)
        for name in ("running", "cpu", "memory_mb"):
            self.over[project, name] = self.used(project, name)

    @rule(batch=st.integers(1, 30), quantum=st.integers(1, 5))
    def place(self, batch: int, quantum: int) -> None:
        apply_ledger_changes(self.placer, self.ledger)
        self.it_counts_as_the_ledger_does()
        self.placer.begin_pass()
        terms = RoundInputs(self.described, self.ledger.project_use)
        choice = DispatchRound(
            self.placer, self.shares, terms, RoundLimits(batch, quantum), lambda asked: asked
        ).plan_round(self.order, NOW)
        for lane_id, nodes in choice.nodes.items():
            lane = self.lanes[lane_id]
            pairs = [(state.node.id, next(self.tasks)) for state in nodes]
            self.ledger.hold_all(pairs, lane.requirement, 0.0, lane.project, is_unknown_to_placer=False)
            self.held.update(dict.fromkeys(pairs, lane))
            self.sizes[lane_id] -= len(nodes)
            assert self.sizes[lane_id] >= 0
            self.order.update_lane(lane, self.ids.new_id(), self.sizes[lane_id])

    def it_counts_as_the_ledger_does(self) -> None:
        for state in self.states:
            assert state.held == len(self.ledger.holds_on(state.node.id))
            machine = self.placer.machine_nodes(state.node.id) or [state]
            cores = [self.ledger.reserved_on(one.node.id).get("cpu", 0.0) for one in machine]
            assert state.reserved.get("cpu", 0.0) == sum(cores)

    @rule(data=st.data(), n=st.integers(1, 6))
    def end(self, data: st.DataObject, n: int) -> None:
        for _ in range(min(n, len(self.held))):
            pair = data.draw(st.sampled_from(sorted(self.held)))
            del self.held[pair]
            self.ledger.release_all([pair])

    @rule()
    def look_again(self) -> None:
        self.look()

    @rule()
    def another_leads(self) -> None:
        """It has nothing but what the store says."""
        self.ledger.clear()
        for (node, task), lane in self.held.items():
            self.ledger.hold_one(node, task, lane.requirement, 0.0, lane.project)
        self.shares = FairSharesByRank()
        self.look()

    def used(self, project: str, name: str) -> float:
        mine = [lane.requirement for lane in self.held.values() if lane.project == project]
        return len(mine) if name == "running" else sum(dict(one.resources).get(name, 0.0) for one in mine)

    @invariant()
    def no_quota_is_passed(self) -> None:
        for project, described in getattr(self, "described", {}).items():
            for name in ("running", "cpu", "memory_mb"):
                limit, used = getattr(described.quotas, name), self.used(project, name)
                if limit is not None:
                    assert used <= max(limit, self.over[project, name])
                self.over[project, name] = min(used, self.over[project, name])

    @invariant()
    def nothing_is_promised_twice(self) -> None:
        for state in getattr(self, "states", ()):
            assert sum(node == state.node.id for node, _ in self.held) <= state.slots
            machine = {one.node.id for one in self.placer.machine_nodes(state.node.id)} or {state.node.id}
            mine = [lane.requirement for (node, _), lane in self.held.items() if node in machine]
            for name, declared in state.declared.items():
                assert sum(dict(one.resources).get(name, 0.0) for one in mine) <= declared

    @invariant()
    def the_ledger_counts_right(self) -> None:
        for project in PROJECTS if hasattr(self, "ledger") else ():
            use = self.ledger.project_use(project)
            assert use.running == self.used(project, "running")
            assert use.reserved.get("cpu", 0.0) == self.used(project, "cpu")


TestQuotasAreKept = QuotasAreKept.TestCase
TestQuotasAreKept.settings = settings(max_examples=100, stateful_step_count=40, derandomize=True, database=None)


@SETTINGS
@given(
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from(CLASSES[:4]), st.integers(1, 12)), max_size=12),
    st.lists(st.integers(0, 5), min_size=1, max_size=5),
    st.integers(1, 30),
)
def test_while_a_slot_is_free_nothing_that_would_fit_is_left(
    asked: list[tuple[int, Requirement, int]], slots: list[int], quantum: int
) -> None:
    states: list[NodeState] = [
        node_state(number, slots=n, resources=(("cpu", 2.0), ("memory_mb", 1_024.0)))
        for number, n in enumerate(slots, 1)
    ]
    order, ids = LaneOrder(Ageing()), IdFactory(1, lambda: NOW)
    lanes = {}
    for priority, requirement, size in asked:
        lane = Lane.with_id("default", f"p{size % 3}", priority, requirement)
        lanes[lane.id] = (lane, size)
        order.update_lane(lane, ids.new_id(), size)
    placer = Placer(states, rng=random.Random(0))
    choice = DispatchRound(
        placer, FairSharesByRank(), RoundInputs(), RoundLimits(10_000, quantum), lambda asked: asked
    ).plan_round(order, NOW)
    for lane, size in lanes.values():
        if len(choice.nodes.get(lane.id, ())) < size:
            assert placer.count_fitting(lane.requirement, lane.project) == 0
