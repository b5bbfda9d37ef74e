"""What a node finds out about itself: what nobody should have to type in, and nobody should get wrong."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from crawlfleet.execution.agent.measure import memory_limit_bytes

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "chrome-headless-shell")
_PLAYWRIGHT = ("chromium-*/chrome-linux*/chrome", "chromium_headless_shell-*/chrome-linux*/*headless*shell")
_CGROUP_CPU = Path("/sys/fs/cgroup/cpu.max")
_CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PROBE_S = 5.0
MACHINE_WIDE = frozenset({"cpu", "memory_mb"})

Capability = float | str | list[str]


@dataclass(frozen=True, slots=True)
class Probed:
    capabilities: dict[str, Capability]
    resources: dict[str, float]
    machine: str = ""
    """The same for all agents that share those resources; empty when there is no telling."""


def probe(given: Mapping[str, Capability] | None = None, offered: Mapping[str, float] | None = None) -> Probed:
    """What the user says of a capability or a resource wins over what was found."""
    found: dict[str, Capability] = {
        "python": [f"{sys.version_info[0]}.{sys.version_info[1]}"],
        "os": [platform.system().lower()],
        "architecture": [platform.machine().lower()],
    }
    if browser() is not None:
        found["javascript_rendering"] = 1.0
    if has_sandbox():
        found["sandbox"] = 1.0
    resources = {"cpu": usable_cpus(), "memory_mb": float(memory_limit_bytes() >> 20)}
    gpus = count_gpus()
    if gpus:
        resources["gpu"] = float(gpus)
    # A part of the machine that was set aside for this agent is no other's.
    has_part = not MACHINE_WIDE.isdisjoint(offered or {})
    return Probed(found | dict(given or {}), resources | dict(offered or {}), "" if has_part else machine_id())


def machine_id(boot: Path = _BOOT_ID, quota: Path = _CGROUP_CPU, memory: Path = _CGROUP_MEMORY) -> str:
    """Of the running system: its containers share it, its copies do not, as they would a machine id on disk.

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
    """Version 2 says `max` where there is none."""
    try:
        return not file.read_text().startswith("max")
    except OSError:
        return False


def browser() -> str | None:
    """A Chromium: the system's, or one that Playwright keeps."""
    named = os.environ.get("CRAWLFLEET_CHROMIUM")
    if named:
        return named if Path(named).is_file() else None
    for name in _BROWSERS:
        if (path := shutil.which(name)) is not None:
            return path
    kept = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    for pattern in _PLAYWRIGHT:
        for path_found in sorted(kept.glob(pattern)):
            return str(path_found)
    return None


def has_sandbox() -> bool:
    """Whether bubblewrap is there and may make namespaces: on many machines it is, and may not."""
    program = shutil.which("bwrap")
    return program is not None and _succeeds(
        program, "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "--", "/bin/true"
    )


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
    """Those this process may run on, or the container's share of them."""
    cores = float(len(os.sched_getaffinity(0)))
    try:
        most, _, period = quota.read_text().strip().partition(" ")
        return max(0.1, min(cores, int(most) / int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        return cores


def _succeeds(*command: str) -> bool:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=PROBE_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
