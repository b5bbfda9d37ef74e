"""The plan of faults: which, on what target, when and for how long; from the seed alone, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random

FIRST_S = 6.0
"""Time before the first fault, in which work goes on undisturbed."""
LAST_S = 4.0
REST_S = (1.0, 4.0)
QUIET_S = (19.0, 22.0)
RECOVERED_S = 15.5
"""Time without any other fault, before and after a kill, that makes the kill count for how fast the installation
recovers from it."""
LEADER, FOLLOWER = "leader", "follower"
POSTGRES, REDIS = "postgres", "redis"
MASTERS, WORKERS = "masters", "workers"


class FaultKind(StrEnum):
    """The kind of a planned fault."""

    MASTER_KILL = "master killed"
    MASTER_FREEZE = "master frozen"
    MASTER_RESTART = "master restarted"
    WORKER_KILL = "worker killed"
    WORKER_FREEZE = "worker frozen"
    WORKER_RESTART = "worker restarted"
    REDIS_FLUSH = "redis flushed"
    REDIS_KILL = "redis killed"
    REDIS_FREEZE = "redis frozen"
    POSTGRES_CRASH = "postgres stopped at once"
    POSTGRES_TERMINATE = "postgres backends terminated"
    CUT_BOTH = "network cut"
    CUT_UP = "network cut towards the masters"
    CUT_DOWN = "network cut towards the worker"


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault of the plan."""

    at_s: float
    kind: FaultKind
    target: str
    """A worker, a server, a master by name, or the one that leads (or does not) at that time."""
    for_s: float = 0.0
    """Duration of the fault."""
    share: float = 0.5
    """Share of the backends that are hit, where only some of them are."""

    @property
    def sort(self) -> str:
        """The sort of the fault. Faults of one sort would add up to an outage: they are injected in sequence."""
        if self.kind in _ON_MASTERS:
            return MASTERS
        return WORKERS if self.kind in _ON_WORKERS else self.target

    def __str__(self) -> str:
        span = f" for {self.for_s:.1f} s" if self.for_s else ""
        return f"{self.kind}: {self.target}{span}"


Span = tuple[float, float]
# Shorter and longer than the silence after which a leader is replaced (3 s) and a node's lease (9 s).
_SPANS: dict[FaultKind, tuple[Span, Span]] = {
    FaultKind.MASTER_KILL: ((0.5, 2.0), (5.0, 8.0)),
    FaultKind.MASTER_FREEZE: ((1.0, 2.5), (5.0, 9.0)),
    FaultKind.MASTER_RESTART: ((0.0, 0.0), (1.0, 4.0)),
    FaultKind.WORKER_KILL: ((0.0, 2.0), (12.0, 16.0)),
    FaultKind.WORKER_FREEZE: ((2.0, 5.0), (11.0, 15.0)),
    FaultKind.WORKER_RESTART: ((0.0, 0.0), (1.0, 4.0)),
    FaultKind.REDIS_FLUSH: ((0.0, 0.0), (0.0, 0.0)),
    FaultKind.REDIS_KILL: ((0.0, 1.0), (4.0, 8.0)),
    FaultKind.REDIS_FREEZE: ((1.0, 4.0), (10.0, 20.0)),
    FaultKind.POSTGRES_CRASH: ((0.0, 1.0), (3.0, 6.0)),
    FaultKind.POSTGRES_TERMINATE: ((0.0, 0.0), (0.0, 0.0)),
    FaultKind.CUT_BOTH: ((2.0, 4.5), (11.0, 15.0)),
    FaultKind.CUT_UP: ((2.0, 4.5), (11.0, 15.0)),
    FaultKind.CUT_DOWN: ((2.0, 4.5), (11.0, 15.0)),
}
_ON_MASTERS = (FaultKind.MASTER_KILL, FaultKind.MASTER_FREEZE, FaultKind.MASTER_RESTART)
_ON_WORKERS = (
    FaultKind.WORKER_KILL,
    FaultKind.WORKER_FREEZE,
    FaultKind.WORKER_RESTART,
    FaultKind.CUT_BOTH,
    FaultKind.CUT_UP,
    FaultKind.CUT_DOWN,
)
_TIMED = (FaultKind.MASTER_KILL, FaultKind.WORKER_KILL)
_OFTEN = (FaultKind.MASTER_KILL, FaultKind.WORKER_KILL, FaultKind.POSTGRES_CRASH, FaultKind.REDIS_FLUSH)


def random_plan(seed: int, seconds: float, workers: list[str]) -> list[PlannedFault]:
    """Plan one fault after the other, sometimes two at once of different sorts; never all masters or all workers."""
    rng = Random(seed)
    draw = _bag(rng)
    plan: list[PlannedFault] = []
    ended_s, at_s = 0.0, FIRST_S
    while True:
        kind = draw()
        is_alone = kind in _TIMED and rng.random() < 0.5
        if is_alone and plan:
            at_s = ended_s + rng.uniform(*QUIET_S)
        together = [_fault(rng, kind, at_s, workers)]
        if not is_alone and rng.random() < 0.3:
            other = _fault(rng, draw(), at_s + rng.uniform(0.0, 3.0), workers)
            together += [other] if other.sort != together[0].sort else []
        ended_s = max(planned.at_s + planned.for_s for planned in together)
        if ended_s > seconds - LAST_S:
            return plan
        plan += together
        at_s = max(ended_s, at_s + RECOVERED_S if is_alone else 0.0) + rng.uniform(*REST_S)


def rolling_plan(every_s: float, down_s: float, masters: list[str], seconds: float) -> list[PlannedFault]:
    """Plan to kill and restart each master in turn."""
    kills = range(int((seconds - LAST_S) / every_s))
    return [PlannedFault((n + 1) * every_s, FaultKind.MASTER_KILL, masters[n % len(masters)], down_s) for n in kills]


def _bag(rng: Random) -> Callable[[], FaultKind]:
    """Return a draw in which every kind comes before one comes again."""
    left: list[FaultKind] = []

    def draw() -> FaultKind:
        if not left:
            left.extend([*FaultKind, *_OFTEN])
            rng.shuffle(left)
        return left.pop()

    return draw


def _fault(rng: Random, kind: FaultKind, at_s: float, workers: list[str]) -> PlannedFault:
    for_s = rng.uniform(*rng.choice(_SPANS[kind]))
    return PlannedFault(round(at_s, 2), kind, _target(rng, kind, workers), round(for_s, 2), rng.choice((0.3, 0.6, 1.0)))


def _target(rng: Random, kind: FaultKind, workers: list[str]) -> str:
    if kind in _ON_MASTERS:
        return rng.choice((LEADER, LEADER, FOLLOWER))
    if kind in _ON_WORKERS:
        return rng.choice(workers)
    return REDIS if kind.startswith(REDIS) else POSTGRES
