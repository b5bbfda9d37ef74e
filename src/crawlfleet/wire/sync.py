"""The messages of the sync, the one call that every node makes again and again, and of the call that opens a session.

They are JSON, as parameters and results are passed through as they came. Fields are sent by position (`array_like`),
and spans in milliseconds: a node's clock is never compared with a master's. New fields are appended with a default; a
receiver ignores what it does not know.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from enum import IntEnum

import msgspec

PROTOCOL_VERSION = 1
NULL = msgspec.Raw(b"null")
"""The value of an absent result: a raw field always has a value, so that absence is the JSON `null`."""


HANDS_OVER_ONLY = -1
"""Value of `OpenUp.after` for a call that opens no session, as no session has this number: its outcomes are taken all
the same."""


def mark_masters(addresses: Sequence[str]) -> int:
    """Return a number that stands for a list of masters, so that it is sent only where it is another one."""
    return zlib.crc32("\n".join(addresses).encode()) if addresses else 0


class UsedBody(msgspec.Struct, array_like=True, frozen=True):
    """The usage of a metered execution: what it has fetched."""

    pages: int = 0
    bytes: int = 0


class OutcomeBody(msgspec.Struct, array_like=True, frozen=True):
    """The outcome of an execution that is over; kept on the node's disk until a master has acknowledged it."""

    task: int
    execution: int
    end: int
    """How the execution ended, as a number of `model.execution.End`."""
    error: int = 0
    """Error class, as a number of `model.status.ErrorClass`; 0 for none."""
    message: str = ""
    is_permanent: bool = False
    result: msgspec.Raw = NULL
    metrics: msgspec.Raw = NULL
    started_ms_ago: int | None = None
    again_ms: int = 0
    """Wait of an execution that was handed back: the task is parked for this span."""
    cause: int = 0
    """Cause of the parking, as a number of `model.execution.ParkCause`, for a task that is parked."""
    subject: str = ""
    """The host that the parked task waits for, or the project whose daily quota is exhausted."""
    used: UsedBody | None = None
    """Usage of a metered execution; None for one that was not metered, or that could not report its usage."""
    products: list[msgspec.Raw] = []
    """Products that the execution saw, beside those it sent while it ran; each is a `wire.products.ProductBody`."""


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
    """Counts by task type since the agent started: executions whose process survived them, and process deaths."""


class ProgressBody(msgspec.Struct, array_like=True, frozen=True):
    """Progress of a running execution, in its own words: a hint, sent when it has changed."""

    execution: int
    figures: msgspec.Raw


class HostWantBody(msgspec.Struct, array_like=True, frozen=True):
    """A target host that executions on the node want to send requests to, or have sent requests to in this session."""

    host: str
    wanted: int | None = None
    """Number of requests that could be sent now; 0: none, but a grant would be kept; None: the host is not needed any
    more."""
    is_pending: bool = False
    """Whether a part of the grant that was cut may still be in use, although the version was taken."""
    requests: int = 0
    """Number of requests to the host in this session so far. `refused` and `blocked` also count this session so far."""
    refused: int = 0
    """Number of requests that were answered with 429 or 503."""
    blocked: int = 0
    """Number of requests that were answered with 403."""
    in_use: int | None = None
    """Highest number of requests in any second from now on with what was granted, those of the last second included.
    None: as many as were ever granted."""


class HostNewsBody(msgspec.Struct, array_like=True, frozen=True):
    host: str
    kind: int
    """Kind of the report, as a number of `model.host.HostNoteKind`."""
    span_ms: int = 0
    """Span of the Retry-After of a refusal, or of the crawl delay of robots.txt."""


class HostFiguresBody(msgspec.Struct, array_like=True, frozen=True):
    """Host figures: what the node counted of hosts since the batch before.

    A batch is sent again under the same session and number until a sync that carried it is answered, in a later session
    too.
    """

    session: int
    """Number of the session in which the batch was made."""
    number: int
    """Number of the batch among those of the agent."""
    hosts: list[tuple[str, list[int]]] = []
    """Figures by host, in the order of `model.host_stats`; the entry `*` is for the hosts beyond the limit."""


class SliceWantBody(msgspec.Struct, array_like=True, frozen=True):
    """Request of a metered execution for another slice of its project's daily quota; it is repeated under the same
    number until it is answered."""

    task: int
    execution: int
    number: int
    pages: int = 0
    bytes: int = 0


class SyncUp(msgspec.Struct, array_like=True, frozen=True):
    node: int
    session: int
    number: int
    """Number of the sync, which rises with each sync of the session; one older than the newest seen is answered
    empty."""
    wait_ms: int
    """Maximum time that the master may hold back the call (long poll) when it has nothing to send."""
    held: list[int]
    """Executions on the node as of this number: those in `started` are included, those in `outcomes` are not."""
    started: list[StartBody] = []
    outcomes: list[OutcomeBody] = []
    measurement: MeasurementBody = MeasurementBody()
    slots: int = 0
    is_draining: bool = False
    is_leaving: bool = False
    """Whether this is the last sync of a clean exit: the node holds nothing and goes offline."""
    config_version: int = 0
    """Version of the configuration that the node has."""
    config_mark: int = 0
    """Mark of the master's defaults in the configuration that the node has."""
    progress: list[ProgressBody] = []
    grants_taken: int = 0
    """Newest version of grants that the node has; its cuts are in effect, except for hosts with `is_pending`."""
    hosts: list[HostWantBody] = []
    host_news: list[HostNewsBody] = []
    wants: list[SliceWantBody] = []
    figures: HostFiguresBody | None = None
    is_departing: bool = False
    """Whether the agent was asked to leave: the session takes no new work, and ends when nothing is left to hand
    over."""
    masters_mark: int = 0
    """Mark of the list of masters that the node has, by `mark_masters`."""


class AssignmentBody(msgspec.Struct, array_like=True, frozen=True):
    task: int
    execution: int
    task_type: str
    parameters: msgspec.Raw
    timeout_s: int
    retry: int
    round: int
    is_alone: bool = False
    """Whether the execution needs a process of its own, because it was lost twice together with others."""
    memory_mb: int = 0
    """Memory allocated to the execution on the node, where it reserved some; 0: the node's default."""
    is_metered: bool = False
    """Whether the project has daily quotas: the execution fetches nothing without a quota slice, and reports its
    usage."""
    traceparent: str = ""
    """Context of the span that submitted the task; empty if it was not sampled."""


class RecallBody(msgspec.Struct, array_like=True, frozen=True):
    task: int
    execution: int
    reason: int
    """Reason of the recall, as a number of `model.status.Recall`."""


class SyncVerdict(IntEnum):
    OK = 0
    SESSION_ENDED = 1
    """The lease was lost or a newer session began: stop everything and open a new session."""
    STALE_NUMBER = 2
    """A newer sync was seen: ignore this answer."""
    REMOVED = 3
    """The node was unregistered: stop everything and leave."""


class NodeConfigBody(msgspec.Struct, array_like=True, frozen=True):
    """The part of the configuration of the node's cluster that concerns the node. It replaces the one sent before."""

    version: int
    allow_hosts: list[str] = []
    """Hosts that are allowed beside the node's own, for executions that start from now on."""
    sync_ms: int | None = None
    """Maximum time between two syncs; the node never syncs more seldom than the lease allows."""
    mark: int = 0
    """Mark of the defaults in the configuration: other defaults make it a new configuration at the same version."""
    log_level: str | None = None
    """Level of the agent's log; None: the level it was started with."""


class HostGrantBody(msgspec.Struct, array_like=True, frozen=True):
    """A grant: a part of a host's budget; a node may send no request to a host without one."""

    host: str
    rate: int = 0
    """Number of requests a second, evenly spaced."""
    concurrency: int = 0
    spacing_ms: int = 0
    """Span between any two requests, where it is not 0; then `rate` only shows that there is a grant."""
    away_ms: int = 0
    """Span, from now on, in which no node may send requests to the host."""


class GrantsBody(msgspec.Struct, array_like=True, frozen=True):
    """All grants of the session. It replaces what was sent before; the grants end with the session's lease."""

    version: int
    hosts: list[HostGrantBody] = []


class OverBody(msgspec.Struct, array_like=True, frozen=True):
    """Denial of a quota slice: nothing is left of what was requested."""

    quota: str
    """Name of the exhausted quota: pages_per_day or bytes_per_day."""
    project: str
    message: str
    again_ms: int = 0
    """Span until the quota is available again, for an execution that is to wait for it; 0: the execution fails."""
    is_held: bool = False
    """Whether other executions hold parts of the quota, which they may give back at any time."""


class SliceBody(msgspec.Struct, array_like=True, frozen=True):
    """All that an execution was granted so far; it replaces what was sent before."""

    execution: int
    number: int
    """Number of the request that this answers, or of a newer one."""
    pages: int
    bytes: int
    overs: list[OverBody] = []


class SyncDown(msgspec.Struct, array_like=True, frozen=True):
    verdict: SyncVerdict
    assignments: list[AssignmentBody] = []
    recalls: list[RecallBody] = []
    stops: list[int] = []
    """Executions that the store does not assign to this session: the node stops them and reports nothing."""
    acknowledged: list[int] = []
    """Outcomes that were taken or found stale: the node forgets them."""
    drain_ms: int | None = None
    """Span within which the node has to drain; None: the node takes work."""
    slots: int | None = None
    masters: list[str] = []
    """Addresses of the masters that are alive; empty: the node has the newest list, or there is none to offer."""
    config: NodeConfigBody | None = None
    """New configuration; None: the node has the newest."""
    grants: GrantsBody | None = None
    """New grants; None: the node has the newest."""
    slices: list[SliceBody] = []


class OpenUp(msgspec.Struct, array_like=True, frozen=True):
    """Opens a session. Outcomes saved by the last session are taken first, then what it still held is taken from it.

    Outcomes that do not fit into one message are sent ahead of it, with `after` set to HANDS_OVER_ONLY.
    """

    node: int
    secret: str
    outcomes: list[OutcomeBody] = []
    slots: int = 0
    task_types: list[str] = []
    version: int = PROTOCOL_VERSION
    after: int = 0
    """Newest session that the node knows of. Only the one after it is opened: a call that arrives late, when another
    one has opened a session already, must not end it."""
    is_departing: bool = False
    """Whether the agent was asked to leave, as in `SyncUp`: the session is opened only to hand over outcomes."""


class OpenDown(msgspec.Struct, array_like=True, frozen=True):
    session: int
    lease_ms: int
    sync_ms: int
    """Maximum time between two syncs."""
    acknowledged: list[int] = []
    masters: list[str] = []
    """Addresses of the masters that are alive; empty: there are none to offer."""
    is_open: bool = True
    """Whether a session was opened. False: `session` is the newest there is, and the node asks again with it as
    `after`."""
