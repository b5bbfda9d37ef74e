"""The one call every node makes, and the one it starts with.

JSON, as parameters and results are passed through as they came. Fields travel by position (`array_like`), spans in
milliseconds: a node's clock is never compared with a master's.
New fields are appended with a default; a receiver ignores what it does not know.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

PROTOCOL_VERSION = 1
NULL = msgspec.Raw(b"null")
"""No result: a raw value is always there, if only to say that it is not."""


class OutcomeBody(msgspec.Struct, array_like=True, frozen=True):
    """An execution that is over; kept on the node's disk until a master has acknowledged it."""

    task: int
    execution: int
    end: int
    """model.execution.End"""
    error: int = 0
    """model.status.ErrorClass, 0 for none"""
    message: str = ""
    is_permanent: bool = False
    result: msgspec.Raw = NULL
    metrics: msgspec.Raw = NULL
    started_ms_ago: int | None = None


class StartBody(msgspec.Struct, array_like=True, frozen=True):
    task: int
    execution: int
    started_ms_ago: int


class MeasurementBody(msgspec.Struct, array_like=True, frozen=True):
    cpu: float = 0.0
    memory: float = 0.0
    disk: float = 0.0
    load: float = 0.0
    network_in_bps: float = 0.0
    network_out_bps: float = 0.0
    gpu: float | None = None
    running: int = 0
    error_rate: float = 0.0
    start_latency_s: float = 0.0


class ProgressBody(msgspec.Struct, array_like=True, frozen=True):
    """How far a running execution is, in its own words: a hint, told when it has changed."""

    execution: int
    figures: msgspec.Raw


class SyncUp(msgspec.Struct, array_like=True, frozen=True):
    node: int
    session: int
    number: int
    """Rises with each sync of the session; an older one than the newest seen is answered empty."""
    wait_ms: int
    """How long the master may park the call when it has nothing to say."""
    held: list[int]
    """Executions on the node as of this number, those in `started` among them, those in `outcomes` not."""
    started: list[StartBody] = []
    outcomes: list[OutcomeBody] = []
    measurement: MeasurementBody = MeasurementBody()
    slots: int = 0
    is_draining: bool = False
    is_leaving: bool = False
    """The last sync of a clean exit: the node holds nothing and goes offline."""
    config_version: int = 0
    """Of the configuration the node has."""
    config_mark: int = 0
    """Of the master's defaults in it."""
    progress: list[ProgressBody] = []


class AssignmentBody(msgspec.Struct, array_like=True, frozen=True):
    task: int
    execution: int
    task_type: str
    parameters: msgspec.Raw
    timeout_s: int
    retry: int
    round: int
    is_alone: bool = False
    """Lost twice with others: give it a process of its own."""
    memory_mb: int = 0
    """What it is allocated on the node, where it reserved some; 0: what is usual there."""


class RecallBody(msgspec.Struct, array_like=True, frozen=True):
    task: int
    execution: int
    reason: int
    """model.status.Recall"""


class SyncVerdict(IntEnum):
    OK = 0
    SESSION_ENDED = 1
    """The lease was lost or a newer session began: stop everything and open a new session."""
    STALE_NUMBER = 2
    """A newer sync was seen: ignore this answer."""
    REMOVED = 3
    """The node was unregistered: stop everything and leave."""


class NodeConfigBody(msgspec.Struct, array_like=True, frozen=True):
    """What the configuration of the node's cluster says to the node. It replaces what was said before."""

    version: int
    allow_hosts: list[str] = []
    """Beside the node's own, for executions that start from now on."""
    sync_ms: int | None = None
    """Sync at least this often; never more seldom than the lease allows."""
    mark: int = 0
    """Of the defaults in it: other ones are news at the same version."""


class SyncDown(msgspec.Struct, array_like=True, frozen=True):
    verdict: SyncVerdict
    assignments: list[AssignmentBody] = []
    recalls: list[RecallBody] = []
    stops: list[int] = []
    """Executions the store does not give to this session: stop them, report nothing."""
    acknowledged: list[int] = []
    """Outcomes taken or found stale: forget them."""
    drain_ms: int | None = None
    """Drain within this span; None: take work."""
    slots: int | None = None
    masters: list[str] = []
    config: NodeConfigBody | None = None
    """None: the node has the newest."""


class OpenUp(msgspec.Struct, array_like=True, frozen=True):
    """Opens a session. Outcomes saved by the last one come first, then what it still held is taken from it."""

    node: int
    secret: str
    outcomes: list[OutcomeBody] = []
    slots: int = 0
    task_types: list[str] = []
    version: int = PROTOCOL_VERSION
    after: int = 0
    """The newest session the node knows of. Only the one after it is opened: a call that arrives late, when another
    one has opened a session already, must not end it."""


class OpenDown(msgspec.Struct, array_like=True, frozen=True):
    session: int
    lease_ms: int
    sync_ms: int
    """Sync at least this often."""
    acknowledged: list[int] = []
    masters: list[str] = []
    is_open: bool = True
    """False: nothing was opened, and `session` is the newest there is. Ask again, after it."""
