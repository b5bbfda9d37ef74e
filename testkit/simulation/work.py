"""Work for simulated nodes: the parameters of a task determine what happens to it."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import msgspec

from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass
from crawlfleet.wire.sync import AssignmentBody, OutcomeBody

_RETRYABLE = (ErrorClass.NETWORK, ErrorClass.HTTP, ErrorClass.CRASH, ErrorClass.INTERNAL)
_PERMANENT = (ErrorClass.INPUT, ErrorClass.POLICY)


def draw_parameters(rng: Random) -> dict[str, Any]:
    """Draw the parameters of a task: mostly short and well-behaved, as real work is."""
    parameters: dict[str, Any] = {"ms": int(rng.choice((50, 300, 1_000, 4_000, 12_000)) * rng.uniform(0.5, 1.5))}
    chance = rng.random()
    if chance < 0.12:
        parameters |= {"fails": rng.randint(1, 5), "class": int(rng.choice(_RETRYABLE))}
    elif chance < 0.15:
        parameters |= {"fails": 99, "class": int(rng.choice(_PERMANENT))}
    elif chance < 0.18:
        parameters |= {"ms": 90_000}
    elif chance < 0.22:
        parameters |= {"dies_ms": 1_500}
    elif chance < 0.24:
        parameters |= {"poison": True}
    elif chance < 0.29:
        parameters |= {"parks": rng.randint(1, 3), "again_ms": rng.randint(1, 20_000), "cause": rng.randint(0, 2)}
    return parameters


class SimExecutor:
    """Runs tasks as their parameters determine."""

    def __init__(self, parked: Counter[tuple[int, int]] | None = None) -> None:
        """`parked`: how often each task, in each of its rounds, found its host away. One counter for the whole world: a
        host is away for all nodes, and counted per node a task would be parked anew on each, and after each restart."""
        self._parked = Counter() if parked is None else parked

    async def run(self, assignment: AssignmentBody) -> OutcomeBody:
        parameters = msgspec.json.decode(assignment.parameters)
        try:
            await asyncio.sleep(parameters["ms"] / 1000)
        finally:
            if "dies_ms" in parameters:
                await _die_slowly(parameters["dies_ms"] / 1000)
        parked = (assignment.task, assignment.round)
        if self._parked[parked] < parameters.get("parks", 0):
            self._parked[parked] += 1
            return OutcomeBody(
                assignment.task,
                assignment.execution,
                int(End.RETURNED),
                int(ErrorClass.BLOCKED),
                "host away",
                again_ms=parameters["again_ms"],
                cause=parameters["cause"],
                subject="slow.example",
            )
        if parameters.get("poison"):
            end = End.DIED_ALONE if assignment.is_alone else End.PROCESS_LOST
            return OutcomeBody(assignment.task, assignment.execution, int(end), int(ErrorClass.CRASH), "killed itself")
        if assignment.retry < parameters.get("fails", 0):
            return OutcomeBody(
                assignment.task,
                assignment.execution,
                int(End.FAILED),
                parameters["class"],
                f"failed {assignment.retry}",
            )
        result = msgspec.Raw(msgspec.json.encode({"success": True, "retry": assignment.retry}))
        return OutcomeBody(assignment.task, assignment.execution, int(End.COMPLETED), result=result)


async def _die_slowly(seconds: float) -> None:
    """Simulate a process that takes its time to end, whatever signal it gets."""
    end = asyncio.get_running_loop().time() + seconds
    while (left := end - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
