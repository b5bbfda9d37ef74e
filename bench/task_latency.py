"""Submit to finished for a client that runs one task after another, by the gap it leaves between them."""

from __future__ import annotations

import asyncio
import statistics
from typing import Protocol

from bench.process_chain import running_chain
from bench.table import Row, say

GAPS_MS = (0, 1, 3, 10, 30, 100, 300)
ROUNDS = 8
TASKS = 12
"""Of each gap in each round: the gaps take turns, as the machine is shared."""
P50_RATIO, P95_RATIO = 1.3, 3.0
P50_MS, P95_MS = 10.0, 25.0


class _Timed(Protocol):
    async def latency_ms(self) -> float: ...


class _Drained(_Timed, Protocol):
    async def drained(self) -> None: ...


async def measure_gaps(name: str, installation: _Drained, rows: list[Row]) -> None:
    """One row per gap, with p50 and p95 beside those without a gap."""
    await installation.drained()
    await _measure(name, installation, rows)


async def measure_raw_gaps(rows: list[Row]) -> None:
    """The same for a chain of processes that only pass a line on: what a gap costs on this machine."""
    async with running_chain() as chain:
        await _measure("raw, a line through four processes and back", chain, rows, has_targets=False)


async def _measure(name: str, timed: _Timed, rows: list[Row], *, has_targets: bool = True) -> None:
    took_ms: dict[int, list[float]] = {gap_ms: [] for gap_ms in GAPS_MS}
    for number in range(ROUNDS):
        say(f"{name}: latency by gap, round {number + 1} of {ROUNDS}")
        for gap_ms, samples in took_ms.items():
            for _ in range(TASKS):
                await asyncio.sleep(gap_ms / 1000)
                samples.append(await timed.latency_ms())
    first_p50, first_p95 = _percentiles(took_ms[GAPS_MS[0]])
    for gap_ms, samples in took_ms.items():
        p50, p95 = _percentiles(samples)
        value = f"p50 {p50:.2f} ms ({p50 / first_p50:.2f}x), p95 {p95:.2f} ms ({p95 / first_p95:.2f}x)"
        if not has_targets:
            rows.append(Row(f"{name}, gaps of {gap_ms} ms", value, "", None))
        elif gap_ms == GAPS_MS[0]:
            what = f"{name}: submit to finished, one task after another"
            rows.append(Row(what, value, f"p50 <= {P50_MS:.0f} ms, p95 <= {P95_MS:.0f} ms", _is_met(p50, p95)))
        else:
            is_met = p50 <= P50_RATIO * first_p50 and p95 <= P95_RATIO * first_p95
            target = f"<= {P50_RATIO}x, <= {P95_RATIO:.0f}x"
            rows.append(Row(f"{name}: … with gaps of {gap_ms} ms", value, target, is_met))


def _is_met(p50: float, p95: float) -> bool:
    return p50 <= P50_MS and p95 <= P95_MS


def _percentiles(samples_ms: list[float]) -> tuple[float, float]:
    return statistics.median(samples_ms), statistics.quantiles(samples_ms, n=20)[18]
