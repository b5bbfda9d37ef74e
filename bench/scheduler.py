"""How fast the leader decides: order, fair shares, quotas, filters and `least_loaded`, without I/O.

Fleets of 10 to 10,000 nodes, nearly full, and for each 1,000,000 waiting tasks of 50 requirement classes and 100
projects. Each pass hears of tasks that ended and places others in their stead. Beside it the naive loop: each task over
all nodes, with the same filters and the same price. Times are of the processor.

    python -m bench.scheduler [--nodes 10,100,1000,10000] [--blocks 21]
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.table import Row, print_table, say
from crawlfleet.bootstrap.gc_tuning import tune_collector
from crawlfleet.control.leader.cluster_view import apply_ledger_changes
from crawlfleet.control.leader.slot_ledger import SlotLedger
from crawlfleet.model.ids import EPOCH_MS, NodeId, TaskId
from crawlfleet.model.node import Measurement, Node, NodeDescription
from crawlfleet.model.project import Project, Quotas
from crawlfleet.model.queue import Lane, LaneId
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.scheduling.placement.dispatch_round import DispatchRound, RoundInputs, RoundLimits, RoundPlan
from crawlfleet.scheduling.placement.fair_shares import FairSharesByRank
from crawlfleet.scheduling.placement.filters import Ask, NodeState, first_refusal
from crawlfleet.scheduling.placement.lane_order import Ageing, LaneOrder
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.placement.strategies import Candidates
from crawlfleet.scheduling.placement.strategies.by_load import LeastLoaded

TASKS, CLASSES, PROJECTS = 1_000_000, 50, 100
SIZES = (10, 100, 1_000, 10_000)
SLOTS = 16
BATCH = 500
"""What the dispatcher commits at once."""
PASSES = (100, BATCH)
"""The smaller ones to compare fleets: of 100 nodes with a pass of 500 each changes five times at once."""
BLOCK = 10_000
FULL = 0.9
NAIVE_S = 3.0
NOW = EPOCH_MS + 400 * 86_400_000
TARGETS = {1_000: 100_000, 10_000: 50_000}
GROWTH_MOST, NAIVE_LEAST = 2.0, 100.0
_TIME_SHIFT = 22

Held = tuple[NodeId, TaskId]


def fleet(count: int, rng: random.Random) -> list[NodeState]:
    """Nodes of four regions, two sizes, half of them with a browser: sixteen sorts in all."""
    states = []
    for number in range(1, count + 1):
        size = 1 + number % 2
        description = NodeDescription(
            f"n{number}",
            region=("eu-1", "eu-2", "us-1", "ap-1")[number // 2 % 4],
            slots=SLOTS,
            task_types=("web_crawl", "shop", "echo"),
            capabilities=(("browser", 1.0),) if number // 8 % 2 else (),
            resources=(("cpu", 8.0 * size), ("memory_mb", 16_384.0 * size)),
        )
        measured = Measurement(cpu=rng.random(), memory=rng.random() * 0.8)
        node = Node(number, description, NodeStatus.ONLINE, Health.HEALTHY, session=1, is_session_open=True)
        states.append(NodeState(node, measurement=measured))
    return states


def classes() -> list[Requirement]:
    asked = [(), (("cpu", 0.25),), (("cpu", 0.5), ("memory_mb", 512.0)), (("memory_mb", 1024.0),), (("cpu", 1.0),)]
    return [
        Requirement(
            ("web_crawl", "shop", "echo")[number % 3],
            target_region="eu-1" if number % 7 == 0 else None,
            require_region=number % 7 == 0,
            capabilities=(("browser", 1.0),) if number % 5 == 0 else (),
            resources=asked[number % len(asked)],
            node_type="standard" if number % 2 else None,
            categories=(f"c{number}",),
        )
        for number in range(CLASSES)
    ]


class Backlog:
    """The lanes, each with a row of ids that begins where it was left."""

    def __init__(self, rng: random.Random) -> None:
        self.order = LaneOrder(Ageing())
        self.lanes: dict[LaneId, Lane] = {}
        self._heads: dict[LaneId, int] = {}
        self._sizes: dict[LaneId, int] = {}
        wanted = [(project, one) for project in range(PROJECTS) for one in classes()]
        for project, requirement in wanted:
            lane = Lane.with_id("default", f"p{project}", rng.randint(1, 10), requirement)
            self.lanes[lane.id] = lane
            waited_ms = rng.randrange(600_000)
            self._heads[lane.id] = (NOW - waited_ms - EPOCH_MS) << _TIME_SHIFT
            self._sizes[lane.id] = TASKS // len(wanted)
            self.order.update_lane(lane, self._heads[lane.id], self._sizes[lane.id])

    def take(self, choice: RoundPlan) -> None:
        for lane, nodes in choice.nodes.items():
            self._heads[lane] += len(nodes)
            self._sizes[lane] -= len(nodes)
            self.order.update_lane(self.lanes[lane], self._heads[lane], self._sizes[lane])


class Leader:
    """What the dispatcher does between its reads and its commit."""

    def __init__(self, states: Sequence[NodeState], backlog: Backlog, rng: random.Random) -> None:
        self._rng = rng
        self.states = states
        self.backlog = backlog
        self._placer = Placer(states, rng=rng)
        self._ledger = SlotLedger()
        self._shares = FairSharesByRank()
        everyone = (Project(f"p{number}", 1.0 + number % 4) for number in range(PROJECTS))
        limits = Quotas(running=len(states), cpu=float(2 * len(states)))
        self._projects = {
            project.name: replace(project, quotas=limits) if number % 5 == 0 else project
            for number, project in enumerate(everyone)
        }
        self._tasks = itertools.count(1)
        self.running: list[Held] = []

    def fill(self, most: int) -> None:
        while len(self.running) < most and self.run_pass((), min(BATCH, most - len(self.running)))[0]:
            pass

    def run_pass(self, ended: Sequence[Held], batch: int) -> tuple[int, float, float]:
        """Hear of what ended, place others, and write them down as if they were committed. How many were placed, the
        time it took to decide, and the time that the ledger took."""
        clock, ledger, placer = time.process_time, self._ledger, self._placer
        begun = clock()
        ledger.release_all(ended)
        heard = clock()
        apply_ledger_changes(placer, ledger)
        placer.begin_pass()
        terms = RoundInputs(self._projects, ledger.project_use)
        choice = DispatchRound(placer, self._shares, terms, RoundLimits(batch), lambda asked: asked).plan_round(
            self.backlog.order, NOW
        )
        self.backlog.take(choice)
        decided = clock()
        for lane_id, nodes in choice.nodes.items():
            lane = self.backlog.lanes[lane_id]
            held = [(state.node.id, task) for state, task in zip(nodes, self._tasks, strict=False)]
            ledger.hold_all(held, lane.requirement, 0.0, lane.project, is_unknown_to_placer=False)
            self.running += held
        return choice.placed, decided - heard, clock() - decided + heard - begun

    def end(self, count: int) -> list[Held]:
        """Any of those that run."""
        running, ended = self.running, []
        for _ in range(min(count, len(running))):
            at = self._rng.randrange(len(running))
            running[at], running[-1] = running[-1], running[at]
            ended.append(running.pop())
        return ended


@dataclass
class Measured:
    """Of one number of nodes: seconds of processor time for each placement, block by block."""

    leader: Leader
    built_s: float
    deciding: dict[int, list[float]]
    """By the size of a pass."""
    with_ledger: dict[int, list[float]]
    naive: float = 0.0

    def cost_s(self, batch: int = BATCH) -> float:
        return statistics.median(self.deciding[batch])

    def growth_from(self, fewer: Measured, batch: int) -> float:
        """Blocks that were measured one after the other are compared: what the machine did beside us met both."""
        pairs = zip(self.deciding[batch], fewer.deciding[batch], strict=True)
        return statistics.median(many / few for many, few in pairs)

    @property
    def rate(self) -> float:
        return 1 / self.cost_s()

    @property
    def rate_with_ledger(self) -> float:
        return 1 / statistics.median(self.with_ledger[BATCH])


def build(count: int) -> Measured:
    rng = random.Random(count)
    states = fleet(count, rng)
    backlog = Backlog(rng)
    begun = time.process_time()
    leader = Leader(states, backlog, rng)
    leader.run_pass((), 1)
    built_s = time.process_time() - begun
    leader.fill(int(count * SLOTS * FULL))
    return Measured(leader, built_s, {batch: [] for batch in PASSES}, {batch: [] for batch in PASSES})


def measure_block(one: Measured, batch: int) -> None:
    """So many placements, in passes of that size, each after as many tasks have ended."""
    leader, placed, deciding, noting = one.leader, 0, 0.0, 0.0
    size = min(batch, len(leader.running) // 2)
    while placed < BLOCK:
        now_placed, decided_s, noted_s = leader.run_pass(leader.end(size), size)
        assert now_placed, "the fleet is full or the backlog is empty"
        placed += now_placed
        deciding += decided_s
        noting += noted_s
    one.deciding[batch].append(deciding / placed)
    one.with_ledger[batch].append((deciding + noting) / placed)


def naive_rate(leader: Leader, seconds: float) -> float:
    """Each task over all nodes; without order, shares, quotas or a ledger."""
    rng = random.Random(1)
    lanes, states = list(leader.backlog.lanes.values()), leader.states
    prices = LeastLoaded(Candidates(Requirement(""), states, rng, 0))
    placed, begun = 0, time.process_time()
    while time.process_time() - begun < seconds:
        lane = rng.choice(lanes)
        ask = Ask(lane.requirement, lane.project)
        able = [state for state in states if first_refusal(state, ask) is None]
        best = min(able, key=lambda state: prices.cost(state, 0)) if able else rng.choice(states)
        # It takes a task and another one ends there: the fleet stays as full as it is.
        best.held += 1
        best.held -= 1
        placed += 1
    return placed / (time.process_time() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default=",".join(map(str, SIZES)), help="how many")
    parser.add_argument("--blocks", type=int, default=21, help="of 10,000 placements, for each number of nodes")
    said = parser.parse_args()
    found = {count: build(count) for count in map(int, said.nodes.split(","))}
    tune_collector()  # as a master does when it starts
    # By turns: what the machine does beside us meets all of them alike.
    for block in range(said.blocks):
        for batch in PASSES:
            for one in found.values():
                measure_block(one, batch)
        say(f"block {block + 1} of {said.blocks}: " + ", ".join(f"{one.rate:,.0f}/s" for one in found.values()))
    for one in found.values():
        one.naive = naive_rate(one.leader, NAIVE_S)
    print_table(rows(found))


def rows(found: dict[int, Measured]) -> list[Row]:
    lines = []
    for count, one in found.items():
        target = TARGETS.get(count)
        wanted, is_met = (f">= {target:,}", one.rate >= target) if target else ("", None)
        lines.append(Row(f"placements/s at {count:,} nodes, passes of {BATCH}", f"{one.rate:,.0f}", wanted, is_met))
    for count, one in found.items():
        took = f"{BATCH / one.rate * 1_000:.1f} ms; {BATCH / one.rate_with_ledger * 1_000:.1f} ms with the ledger"
        lines.append(Row(f"a pass of {BATCH} at {count:,} nodes", took, "", None))
    if {100, 10_000} <= found.keys():
        for batch in PASSES:
            growth = found[10_000].growth_from(found[100], batch)
            what = f"cost per placement, 100 to 10,000 nodes, passes of {batch}"
            lines.append(Row(what, f"{growth:.2f}x", "< 2x", growth < GROWTH_MOST))
    for count, one in found.items():
        ratio, is_asked = one.rate / one.naive, count == 1_000
        what = f"beside the naive loop ({one.naive:,.0f}/s) at {count:,} nodes"
        met = ratio >= NAIVE_LEAST if is_asked else None
        lines.append(Row(what, f"{ratio:,.0f}x", ">= 100x" if is_asked else "", met))
    last = max(found)
    lines.append(Row(f"the leader's picture of {last:,} nodes, made anew", f"{found[last].built_s:.2f} s", "", None))
    lines.append(Row("memory, all of these at once", f"{_memory_mb():.0f} MB", "", None))
    return lines


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
