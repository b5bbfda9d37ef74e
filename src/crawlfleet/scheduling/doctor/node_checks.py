"""Checks of nodes: sessions that come and go, nodes that stay away, slots and memory."""

from __future__ import annotations

from collections.abc import Iterator

from crawlfleet.model.ids import node_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Node
from crawlfleet.model.status import NodeStatus
from crawlfleet.scheduling.doctor.findings import FoundProblem, note, warning
from crawlfleet.scheduling.doctor.snapshot import NodePart, WorkPart
from crawlfleet.scheduling.doctor.wording import count_text, list_names

SESSIONS = 6
GONE_MS = 3 * 86_400_000
IDLE_CPU = 0.25
FULL_MEMORY = 0.9


def find_unsteady_nodes(nodes: NodePart) -> Iterator[FoundProblem]:
    names = {node.id: node.description.name for node in nodes.nodes}
    unsteady = sorted(
        ((count, node) for node, count in nodes.sessions.items() if count > SESSIONS and node in names), reverse=True
    )
    if not unsteady:
        return
    count, worst = unsteady[0]
    others = f", and {count_text(len(unsteady) - 1, 'other node')} did alike" if len(unsteady) > 1 else ""
    yield warning(
        f"node {names[worst]} opened {count} sessions in the last hour{others}",
        f"its network, memory (is it killed?) or clock; or two agents use one data folder: "
        f"crawlfleet node show {node_text(worst)}",
    )


def find_departed_nodes(nodes: NodePart, now: Instant) -> Iterator[FoundProblem]:
    gone = [
        node.description.name
        for node in nodes.nodes
        if not node.is_session_open and now - (node.renewed_at or node.created_at) > GONE_MS
    ]
    if gone:
        yield note(
            f"{count_text(len(gone), 'node')} {'has' if len(gone) == 1 else 'have'} been gone for days: "
            f"{list_names(gone)}",
            "crawlfleet clean-up --nodes, or crawlfleet node remove NODE",
        )


def find_idle_processors(nodes: NodePart, work: WorkPart) -> Iterator[FoundProblem]:
    waiting = sum(waiting.waiting for waiting in work.open_lanes)
    busy = [node for node in nodes.nodes if _is_busy(node)]
    idle = [
        node.description.name
        for node in busy
        if node.measurement is not None and node.measurement.cpu < IDLE_CPU and node.measurement.memory < FULL_MEMORY
    ]
    if waiting and idle:
        yield note(
            f"all slots are taken at less than {IDLE_CPU:.0%} CPU on {count_text(len(idle), 'node')} "
            f"({list_names(idle)}) while {count_text(waiting, 'task')} wait",
            f"crawlfleet node slots {idle[0]} auto",
        )


def _is_busy(node: Node) -> bool:
    return (
        node.status is NodeStatus.ONLINE
        and node.slots > 0
        and node.measurement is not None
        and node.measurement.running >= node.slots
        and not node.follows_load
    )


def find_full_memory(nodes: NodePart) -> Iterator[FoundProblem]:
    full = [
        node
        for node in nodes.nodes
        if node.status is NodeStatus.ONLINE and node.measurement and node.measurement.memory > FULL_MEMORY
    ]
    if not full:
        return
    deaths = sum(died for node in full if node.measurement for _, _, died in node.measurement.ends)
    killed = f"; {count_text(deaths, 'execution')} died with their process there" if deaths else ""
    yield warning(
        f"more than {FULL_MEMORY:.0%} of the memory is used on {count_text(len(full), 'node')}: "
        f"{list_names([node.description.name for node in full])}{killed}",
        f"fewer slots (crawlfleet node slots {full[0].description.name} N), or a smaller memory_limit_mb there",
    )
