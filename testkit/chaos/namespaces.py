"""A network namespace per worker, connected to ours by a pair of virtual network cards.

The cards know each other by fixed addresses. A direction is cut by giving its sender a wrong address: packets leave and
no card accepts them, which needs no firewall and looks to both sides like a broken line far away.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from crawlfleet.execution.executors.outside.linux_processes import end_with_parent
from testkit.chaos.network import Direction

_NOBODY = "02:00:00:00:ff:ff"
_NAMESPACE_VARIABLE = "CHAOS_IS_APART"
_PROBE = "ip link set lo up && ip link add one type veth peer name two && nsenter --version"


def are_namespaces_allowed() -> bool:
    if os.geteuid() != 0:
        return False
    try:
        return (
            subprocess.run(["unshare", "--net", "sh", "-c", _PROBE], check=False, capture_output=True).returncode == 0
        )
    except OSError:
        return False


def has_own_network() -> bool:
    """Return whether this process has a network of its own already."""
    return _NAMESPACE_VARIABLE in os.environ


def restart_in_own_network() -> None:
    """Start this program again in a network of its own: nothing else on the machine sees its ports and cards."""
    script = 'ip link set lo up && exec "$@"'
    command = ["unshare", "--net", "sh", "-c", script, "sh", sys.executable, *sys.orig_argv[1:]]
    os.execvpe(command[0], command, {**os.environ, _NAMESPACE_VARIABLE: "1"})


@dataclass(frozen=True, slots=True)
class _Place:
    """The namespace of one worker, and the process that keeps it in being."""

    number: int
    holder: asyncio.subprocess.Process

    @property
    def card(self) -> str:
        return f"worker{self.number}"

    def address(self, side: int) -> str:
        return f"10.77.{self.number}.{side}"

    def hardware(self, side: int) -> str:
        return f"02:00:00:00:{self.number:02x}:{side:02x}"


class Namespaces:
    """A network that is cut inside the kernel."""

    name = "network namespaces"
    host = "0.0.0.0"

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}

    async def join(self, worker: str, ports: Sequence[int]) -> Sequence[str]:
        parent = os.getpid()
        holder = await asyncio.create_subprocess_exec(
            "unshare",
            "--net",
            "sh",
            "-c",
            "echo; exec sleep infinity",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            preexec_fn=lambda: end_with_parent(parent),
        )
        assert holder.stdout is not None
        await holder.stdout.readline()
        place = self._places[worker] = _Place(len(self._places) + 1, holder)
        await _run(
            "ip",
            "link",
            "add",
            place.card,
            "address",
            place.hardware(1),
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "address",
            place.hardware(2),
            "netns",
            str(holder.pid),
        )
        inside = self.within(worker)
        for prefix, card, side in (((), place.card, 1), (inside, "eth0", 2)):
            await _run(*prefix, "ip", "address", "add", f"{place.address(side)}/30", "dev", card)
            await _run(*prefix, "ip", "link", "set", card, "up")
        await _run(*inside, "ip", "link", "set", "lo", "up")
        await self.heal(worker)
        return [f"http://{place.address(1)}:{port}" for port in ports]

    def within(self, worker: str) -> Sequence[str]:
        return ["nsenter", "--target", str(self._places[worker].holder.pid), "--net", "--"]

    async def cut(self, worker: str, direction: Direction) -> None:
        place = self._places[worker]
        await self._know(
            worker,
            place,
            up=_NOBODY if Direction.UP in direction else place.hardware(1),
            down=_NOBODY if Direction.DOWN in direction else place.hardware(2),
        )

    async def heal(self, worker: str) -> None:
        place = self._places[worker]
        await self._know(worker, place, up=place.hardware(1), down=place.hardware(2))

    async def close(self) -> None:
        for place in self._places.values():
            if place.holder.returncode is None:
                place.holder.kill()
            await place.holder.wait()

    async def _know(self, worker: str, place: _Place, *, up: str, down: str) -> None:
        neighbour = ("ip", "neighbour", "replace")
        last = ("nud", "permanent")
        inside = self.within(worker)
        await _run(*inside, *neighbour, place.address(1), "lladdr", up, "dev", "eth0", *last)
        await _run(*neighbour, place.address(2), "lladdr", down, "dev", place.card, *last)


async def _run(*command: str) -> None:
    child = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await child.communicate()
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {output.decode(errors='replace').strip()}")
