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


HANDS_OVER_ONLY = -1
"""`OpenUp.after` of a call that opens nothing, as no session has this number: its outcomes are taken all the same."""


class UsedBody(msgspec.Struct, array_like=True, frozen=True):
    """What a metered execution has fetched."""

    pages: int = 0
    bytes: int = 0


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
    again_ms: int = 0
    """Of one that was handed back: what it waits for lasts so long, and it is parked."""
    cause: int = 0
    """model.parking.ParkCause of one that is parked"""
    subject: str = ""
    """The host it waits for, or the project whose day is spent."""
    used: UsedBody | None = None
    """Of one that was metered; None for one that was not, or that could not say."""
    products: list[msgspec.Raw] = []
    """`wire.products.ProductBody`: what it saw of products, beside what it sent while it ran."""


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
    ends: list[tuple[str, int, int]] = []
    """By task type, since the agent started: executions whose process survived them, and process deaths."""


class ProgressBody(msgspec.Struct, array_like=True, frozen=True):
    """How far a running execution is, in its own words: a hint, told when it has changed."""

    execution: int
    figures: msgspec.Raw


class HostWantBody(msgspec.Struct, array_like=True, frozen=True):
    """A target host that executions on the node want to ask, or have asked in this session."""

    host: str
    wanted: int | None = None
    """How many requests could leave now; 0: none, but what is granted would be kept; None: no more."""
    is_pending: bool = False
    """What was cut of it may still be in use, although the version was taken."""
    requests: int = 0
    """Of this session so far; so are the others."""
    refused: int = 0
    """Answered with 429 or 503."""
    blocked: int = 0
    """Answered with 403."""
    in_use: int | None = None
    """The most requests in any second from now on, with what was granted; those of the last second count. None: as many
    as it was ever granted."""


class HostNewsBody(msgspec.Struct, array_like=True, frozen=True):
    host: str
    kind: int
    """model.hosts.HostNews"""
    span_ms: int = 0
    """The Retry-After of a refusal, or the crawl delay of robots.txt."""


class HostFiguresBody(msgspec.Struct, array_like=True, frozen=True):
    """What the node counted of hosts since the batch before.

    It is told again under the same name until a sync that carried it is answered, in a later session too.
    """

    session: int
    """In which it was made,"""
    number: int
    """and which of the agent's batches it is."""
    hosts: list[tuple[str, list[int]]] = []
    """model.host_figures; of `*` are those of hosts that were too many."""


class SliceWantBody(msgspec.Struct, array_like=True, frozen=True):
    """A metered execution asks for more of its project's day; until it is answered, again under the same number."""

    task: int
    execution: int
    number: int
    pages: int = 0
    bytes: int = 0


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
    grants_taken: int = 0
    """The newest version of grants the node has; what it cut is in effect but for hosts that say `is_pending`."""
    hosts: list[HostWantBody] = []
    host_news: list[HostNewsBody] = []
    wants: list[SliceWantBody] = []
    figures: HostFiguresBody | None = None
    is_departing: bool = False
    """The agent was asked to leave: the session takes no new work, and ends when nothing is left to hand over."""


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
    is_metered: bool = False
    """Its project has daily quotas: it fetches nothing without a slice of the day, and says what it used."""


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


class HostGrantBody(msgspec.Struct, array_like=True, frozen=True):
    """A part of a host's budget; nothing may be asked of a host without one."""

    host: str
    rate: int = 0
    """Requests a second, evenly spaced."""
    concurrency: int = 0
    spacing_ms: int = 0
    """Between any two requests, where it is not 0; then `rate` only says that there is a grant."""
    away_ms: int = 0
    """How long the host is left alone by everybody from now on."""


class GrantsBody(msgspec.Struct, array_like=True, frozen=True):
    """All grants of the session. It replaces what was said before; they end with the session's lease."""

    version: int
    hosts: list[HostGrantBody] = []


class OverBody(msgspec.Struct, array_like=True, frozen=True):
    """Nothing is left of what was asked for."""

    quota: str
    """pages_per_day or bytes_per_day"""
    project: str
    message: str
    again_ms: int = 0
    """How long until there is some again, for an execution that is to wait for it; 0: it fails."""
    is_held: bool = False
    """Other executions hold some, which may come back any moment."""


class SliceBody(msgspec.Struct, array_like=True, frozen=True):
    """All that an execution was granted so far; it replaces what was said before."""

    execution: int
    number: int
    """Of the want that this answers, or of a newer one."""
    pages: int
    bytes: int
    overs: list[OverBody] = []


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
    grants: GrantsBody | None = None
    """None: the node has the newest."""
    slices: list[SliceBody] = []


class OpenUp(msgspec.Struct, array_like=True, frozen=True):
    """Opens a session. Outcomes saved by the last one come first, then what it still held is taken from it.

    Outcomes that do not fit into one message go ahead of it, with `after` set to HANDS_OVER_ONLY.
    """

    node: int
    secret: str
    outcomes: list[OutcomeBody] = []
    slots: int = 0
    task_types: list[str] = []
    version: int = PROTOCOL_VERSION
    after: int = 0
    """The newest session the node knows of. Only the one after it is opened: a call that arrives late, when another
    one has opened a session already, must not end it."""
    is_departing: bool = False
    """As in `SyncUp`: the session is opened only to hand over outcomes."""


class OpenDown(msgspec.Struct, array_like=True, frozen=True):
    session: int
    lease_ms: int
    sync_ms: int
    """Sync at least this often."""
    acknowledged: list[int] = []
    masters: list[str] = []
    is_open: bool = True
    """False: nothing was opened, and `session` is the newest there is. Ask again, after it."""
