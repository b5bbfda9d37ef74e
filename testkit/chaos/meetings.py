"""The reports of the witnesses: executions of one task that were alive at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from testkit.chaos.witness import MET
from testkit.history import Fault, FaultInjected, Record
from testkit.violations import Invariant, Limits, Violation


def meetings(
    folder: Path, nodes: Mapping[str, NodeId], records: Sequence[Record], since: Instant, limits: Limits = Limits()
) -> Iterator[Violation]:
    """Judge the reports. A frozen process is alive and does nothing: it is excused until it has had time to notice that
    it is late."""
    met = folder / MET
    if not met.exists():
        return
    pauses = [pause for pause in records if isinstance(pause, FaultInjected) and pause.kind is Fault.NODE_PAUSE]
    for line in met.read_text().splitlines():
        said_at, task, execution, other = line.split("\t")
        met_at = int(float(said_at) * 1000) - since
        node = next((node for name, node in nodes.items() if f"/{name}/" in other), None)
        if not any(
            pause.target == node and pause.at <= met_at <= pause.until + limits.resume_grace_ms for pause in pauses
        ):
            yield Violation(Invariant.ONE_OUTCOME, f"{task} ran as {execution} while it ran as {other}", met_at)
