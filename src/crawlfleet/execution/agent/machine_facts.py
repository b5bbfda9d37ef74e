"""Facts of the machine that a node detects itself: capabilities, resources, and the machine's id."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from crawlfleet.execution.agent.measurements import memory_limit_bytes

log = structlog.get_logger()

PROBED = frozenset({"python", "os", "architecture", "javascript_rendering", "sandbox"})
"""Capabilities that only a probe may declare. No executor renders pages or runs in a sandbox yet, so nothing declares
these two: a program of that name on the machine would be an empty promise."""
_CGROUP_CPU = Path("/sys/fs/cgroup/cpu.max")
_CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PROBE_S = 5.0
MACHINE_WIDE = frozenset({"cpu", "memory_mb"})

Capability = float | str | list[str]


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Detected capabilities and resources of the machine."""

    capabilities: dict[str, Capability]
    resources: dict[str, float]
    machine: str = ""
    """Id that all agents sharing these resources have in common; empty when it cannot be determined."""


def probe_machine(
    extra_capabilities: Mapping[str, Capability] | None = None, offered_resources: Mapping[str, float] | None = None
) -> MachineFacts:
    """Detect capabilities and resources.

    Extra capabilities are added, except those in `PROBED`; offered resources replace the detected ones.
    """
    capabilities: dict[str, Capability] = {
        "python": [f"{sys.version_info[0]}.{sys.version_info[1]}"],
        "os": [platform.system().lower()],
        "architecture": [platform.machine().lower()],
    }
    for name in sorted(PROBED.intersection(extra_capabilities or {})):
        log.warning("capability_ignored", capability=name, reason="it is found out by the node, and not a setting")
    accepted = {name: value for name, value in (extra_capabilities or {}).items() if name not in PROBED}
    resources = {"cpu": usable_cpus(), "memory_mb": float(memory_limit_bytes() >> 20)}
    gpus = count_gpus()
    if gpus:
        resources["gpu"] = float(gpus)
    # A part of the machine that was set aside for this agent is no other's.
    has_part = not MACHINE_WIDE.isdisjoint(offered_resources or {})
    return MachineFacts(
        capabilities | accepted, resources | dict(offered_resources or {}), "" if has_part else machine_id()
    )


def machine_id(boot: Path = _BOOT_ID, quota: Path = _CGROUP_CPU, memory: Path = _CGROUP_MEMORY) -> str:
    """The id of the running system: its containers share it; its copies do not, as they would a machine id on disk.

    A container with limits of its own has what it declares for itself, and is a machine of its own.
    """
    try:
        booted = boot.read_text().strip()
        if not (_is_limit(quota) or _is_limit(memory)):
            return booted
        return f"{booted}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _is_limit(file: Path) -> bool:
    """Whether the cgroup file holds a limit; version 2 has `max` where there is none."""
    try:
        return not file.read_text().startswith("max")
    except OSError:
        return False


def count_gpus() -> int:
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    try:
        done = subprocess.run(
            [program, "--list-gpus"], capture_output=True, timeout=PROBE_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return done.stdout.count(b"GPU ") if done.returncode == 0 else 0


def usable_cpus(quota: Path = _CGROUP_CPU) -> float:
    """Number of CPUs that this process may run on, or the container's share of them."""
    cores = float(len(os.sched_getaffinity(0)))
    try:
        limit, _, period = quota.read_text().strip().partition(" ")
        return max(0.1, min(cores, int(limit) / int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        return cores
