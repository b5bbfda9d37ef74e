"""Measurements of the node: load figures of the machine, read without waiting.

Rates are differences between two readings, at most one reading a second: a busy node syncs hundreds of times a second.
In a container with a memory limit, that limit is what counts, not the machine's memory.
"""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import psutil

from crawlfleet.execution.agent.events import AgentEvent
from crawlfleet.model.execution import End
from crawlfleet.model.ids import ExecutionId
from crawlfleet.ports.clock import Clock
from crawlfleet.wire.sync import MeasurementBody

MEASURE_EVERY_S = 1.0
GPU_S = 10.0
GPU_ANSWER_S = 5.0
ENDS_WEIGHT = 0.05
"""Weight of one execution's end in the error rate: about the last twenty count."""
ERRORS_HALF_LIFE_S = 60.0
"""Half-life of the error rate of a node on which nothing ends any more."""
DEATH_S = 1.0
"""Executions that are lost within this span are taken to have been in one process: its death counts once."""
MAX_TYPES = 20
OTHER_TYPES = "*"
STARTS_WEIGHT = 0.2
LATENCY_COUNTS_S = 30.0
"""A node that starts nothing any more has no latency: what was slow then must not be held against it for ever."""
_ERRORS = (End.FAILED, End.TIMED_OUT, End.DIED_ALONE, End.PROCESS_LOST)
_SURVIVED = (End.COMPLETED, End.FAILED, End.TIMED_OUT)
_CGROUP = Path("/sys/fs/cgroup")
_GPU_QUERY = ("--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")


class _Traffic(NamedTuple):
    """Network counters of the machine at one instant."""

    read_at: float
    received: int
    sent: int


class NodeMeasurements:
    """The measurements for a sync; called for each one."""

    def __init__(self, clock: Clock, data_dir: Path, cgroup: Path = _CGROUP) -> None:
        self._clock = clock
        self._data_dir = data_dir
        self._cgroup = cgroup
        self._gpu: float | None = None
        self._error_rate = 0.0
        self._ended_at = clock.monotonic()
        self._lost_at = -math.inf
        self._handed: dict[object, float] = {}
        """Monotonic time at which each execution that no process has yet was handed over."""
        self._ends: dict[str, list[int]] = {}
        """Executions whose process survived them, and process deaths, by task type."""
        self._start_latency_s = 0.0
        self._started_at = clock.monotonic()
        psutil.cpu_percent(interval=None)
        self._traffic = self._read_traffic()
        self._measured_at = clock.monotonic()
        self._last = self._measure_machine(0.0, 0.0)

    def __call__(self) -> MeasurementBody:
        now = self._clock.monotonic()
        if now - self._measured_at >= MEASURE_EVERY_S:
            before, self._traffic = self._traffic, self._read_traffic()
            span_s = max(1e-3, self._traffic.read_at - before.read_at)
            self._last = self._measure_machine(
                max(0, self._traffic.received - before.received) * 8 / span_s,
                max(0, self._traffic.sent - before.sent) * 8 / span_s,
            )
            self._measured_at = now
        return self._last

    def handle_event(self, name: str, data: Mapping[str, object]) -> None:
        """Count the starts and ends of executions from the agent's events."""
        if name == AgentEvent.EXECUTION_STARTED:
            self._handed[data["execution"]] = self._clock.monotonic()
            return
        if name != AgentEvent.EXECUTION_ENDED or not data["was_started"]:
            return
        self._handed.pop(data["execution"], None)
        if (end := data["end"]) is not None:
            self._error_rate = self._faded_error_rate()
            self._ended_at = self._clock.monotonic()
            self._error_rate += (float(end in _ERRORS) - self._error_rate) * ENDS_WEIGHT
            self._count_end(end, str(data["task_type"]))

    def _count_end(self, end: object, task_type: str) -> None:
        if task_type not in self._ends and len(self._ends) >= MAX_TYPES:
            task_type = OTHER_TYPES
        counts = self._ends.setdefault(task_type, [0, 0])
        if end is End.PROCESS_LOST:
            now = self._clock.monotonic()
            counts[1] += now - self._lost_at > DEATH_S
            self._lost_at = now
        elif end is End.DIED_ALONE:
            counts[1] += 1
        elif end in _SURVIVED:
            counts[0] += 1

    def _faded_error_rate(self) -> float:
        idle_s = self._clock.monotonic() - self._ended_at
        return float(self._error_rate * 0.5 ** (idle_s / ERRORS_HALF_LIFE_S))

    def note_start(self, execution: ExecutionId, took_s: float) -> None:
        """Record how long it took from the agent until the executor process had the execution."""
        self._handed.pop(execution, None)
        self._start_latency_s += (took_s - self._start_latency_s) * STARTS_WEIGHT
        self._started_at = self._clock.monotonic()

    async def watch_gpu(self) -> None:
        """Read the GPU's load as long as the agent lives; returns at once where there is no GPU."""
        program = shutil.which("nvidia-smi")
        while program is not None:
            self._gpu = await _gpu_share(program)
            await asyncio.sleep(GPU_S)

    @property
    def _latency_s(self) -> float:
        if self._clock.monotonic() - self._started_at > LATENCY_COUNTS_S:
            self._start_latency_s = 0.0
        # An execution that still waits for a process counts as well: on a node whose processes do not start, no start
        # would ever be recorded.
        waiting_s = self._clock.monotonic() - min(self._handed.values(), default=math.inf)
        return round(max(self._start_latency_s, waiting_s), 4)

    def _measure_machine(self, in_bps: float, out_bps: float) -> MeasurementBody:
        return MeasurementBody(
            cpu=min(1.0, psutil.cpu_percent(interval=None) / 100),
            memory=memory_share(self._cgroup),
            disk=_disk_share(self._data_dir),
            load=psutil.getloadavg()[0] / (psutil.cpu_count() or 1),
            network_in_bps=in_bps,
            network_out_bps=out_bps,
            gpu=self._gpu,
            error_rate=round(self._faded_error_rate(), 4),
            start_latency_s=self._latency_s,
            ends=[(task_type, survived, died) for task_type, (survived, died) in self._ends.items()],
        )

    def _read_traffic(self) -> _Traffic:
        # None on a machine without any interface.
        counters: object = psutil.net_io_counters()
        received, sent = (getattr(counters, name, 0) for name in ("bytes_recv", "bytes_sent"))
        return _Traffic(self._clock.monotonic(), received, sent)


def memory_limit_bytes(cgroup: Path = _CGROUP) -> int:
    """Memory that this machine, or the container around this process, may use."""
    whole = psutil.virtual_memory().total
    limit = _read_number(cgroup / "memory.max") or _read_number(cgroup / "memory" / "memory.limit_in_bytes")
    return min(whole, limit) if limit else whole


def memory_share(cgroup: Path = _CGROUP) -> float:
    machine = psutil.virtual_memory()
    share = machine.percent / 100
    limit = memory_limit_bytes(cgroup)
    used = _read_number(cgroup / "memory.current") or _read_number(cgroup / "memory" / "memory.usage_in_bytes")
    if used and limit < machine.total:
        # Pages of files can be freed at any time: they are no shortage.
        share = max(share, max(0, used - _inactive_file_bytes(cgroup)) / limit)
    return min(1.0, share)


def _inactive_file_bytes(cgroup: Path) -> int:
    for path in (cgroup / "memory.stat", cgroup / "memory" / "memory.stat"):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name in ("inactive_file", "total_inactive_file"):
                return int(value)
    return 0


def _read_number(path: Path) -> int | None:
    """The number in a file; None for a missing file, and for `max`."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _disk_share(directory: Path) -> float:
    try:
        return psutil.disk_usage(str(directory)).percent / 100
    except OSError:
        return 0.0


async def _gpu_share(program: str) -> float | None:
    """Load of the busiest GPU; None when the driver does not answer."""
    process = await asyncio.create_subprocess_exec(
        program,
        *_GPU_QUERY,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(GPU_ANSWER_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    shares = [float(line) / 100 for line in output.decode().split() if line.replace(".", "", 1).isdigit()]
    return min(1.0, max(shares, default=0.0)) if shares else None
