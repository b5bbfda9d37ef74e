"""The answers of the API. Written by scripts/generate_client.py from its OpenAPI document; do not edit."""

# ruff: noqa
# mypy: disable-error-code="type-arg"

from datetime import datetime
from typing import Any

from msgspec import Struct, field


class AcceptedView(Struct, frozen=True, kw_only=True):
    """
    A task that was stored.
    """

    id: str
    status: str
    created_at: datetime
    priority: int


class AcknowledgementView(Struct, frozen=True, kw_only=True):
    by: str
    acknowledged_at: datetime
    why: str


class AlertView(Struct, frozen=True, kw_only=True):
    """
    An alert that is not ok.
    """

    rule: str
    scope: str
    status: str
    severity: str
    since: datetime
    fired_at: datetime | None
    value: float | None
    threshold: float
    why: str
    is_flapping: bool
    muted_why: str | None
    acknowledgement: AcknowledgementView | None
    notified_at: datetime | None


class AnswerTimes(Struct, frozen=True, kw_only=True):
    """
    How long the host took from a request to the beginning of its answer; null where it gave none.
    """

    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None


class AuditView(Struct, frozen=True, kw_only=True):
    id: int
    at: datetime
    role: str | None
    name: str
    token: int | None
    node_id: str | None
    address: str
    action: str
    target: str
    details: dict[str, Any]


class BudgetView(Struct, frozen=True, kw_only=True):
    rate: float
    rate_from: str
    concurrency: int
    concurrency_from: str
    delay_s: float
    delay_from: str


class CauseView(Struct, frozen=True, kw_only=True):
    cause: str
    count: int
    newest_at: datetime
    example: str


class CausesView(Struct, frozen=True, kw_only=True):
    groups: list[CauseView]


class ChangedView(Struct, frozen=True, kw_only=True):
    """
    A task after what was asked.
    """

    id: str
    status: str
    is_requested: bool = False
    priority: int | None = None
    assigned_node: str | None = None


class ChannelFieldView(Struct, frozen=True, kw_only=True):
    name: str
    about: str
    is_required: bool
    is_secret: bool


class ChannelKindView(Struct, frozen=True, kw_only=True):
    name: str
    about: str
    fields: list[ChannelFieldView]


class ChannelView(Struct, frozen=True, kw_only=True):
    """
    A channel; secrets are shown as stars.
    """

    name: str
    kind: str
    fields: dict[str, str]
    language: str
    is_enabled: bool
    disabled_why: str | None
    failures: int
    failing_since: datetime | None
    last_answer: str
    last_sent_at: datetime | None
    changed_by: str
    changed_at: datetime


class ConfigView(Struct, frozen=True, kw_only=True):
    cluster: str
    version: int
    values: dict[str, Any]
    changed_by: str | None
    changed_at: datetime | None


class CookieJarView(Struct, frozen=True, kw_only=True):
    """
    What is in it stays between the sites and the executions: it may be a login.
    """

    project_id: str
    name: str
    cookies: int
    hosts: list[str]
    changed_at: datetime


class CookieJarsView(Struct, frozen=True, kw_only=True):
    cookie_jars: list[CookieJarView]


class CounterDriftView(Struct, frozen=True, kw_only=True):
    queue: str | None
    project_id: str | None
    priority: int | None
    task_type: str | None
    status: str
    missing: int


class CountersRepaired(Struct, frozen=True, kw_only=True):
    applied: bool
    wrong_counters: int
    drift: int
    counters: list[CounterDriftView]


class CrawlChanges(Struct, frozen=True, kw_only=True):
    """
    Pages against those of the earlier crawl that it names (`since`).
    """

    new: int
    changed: int
    unchanged: int
    gone: int


class CrawlMetrics(Struct, frozen=True, kw_only=True):
    pages_crawled: int
    processing_time: float
    data_size: int
    pages_failed: int
    pages_skipped: int
    pages_moved: int
    items: int
    max_pages: int
    stopped_by: str | None
    changes: CrawlChanges | None
    errors: dict[str, int]
    failures: dict[str, int]
    links_left_out: dict[str, int]
    fields: dict[str, dict[str, float]]


class CrawlResult(Struct, frozen=True, kw_only=True):
    """
    What a crawl over many nodes found, in the shape of a single crawl's result.
    """

    success: bool
    data: dict[str, list[Any]]
    items: int
    data_truncated: bool
    metrics: CrawlMetrics
    timestamp: datetime
    notes: list[str]


class CrawlView(Struct, frozen=True, kw_only=True):
    """
    One crawl over many nodes: what its members have reported, together.
    """

    members: int
    depth: int
    max_pages: int
    pages: int
    failed: int
    skipped: int
    moved: int
    found: int
    queued: int
    leased: int
    items: int
    data_bytes: int
    percent: float
    rate_per_s: float | None
    lately_per_s: float | None
    left_s: float | None
    started_at: datetime | None
    finished_at: datetime | None
    stopped_by: str | None
    changes: CrawlChanges | None


class DayQuotaView(Struct, frozen=True, kw_only=True):
    limit: int | None
    used: int
    left: int | None
    renews_at: datetime


class DeliveryView(Struct, frozen=True, kw_only=True):
    """
    How a test went, in the service's own words.
    """

    is_delivered: bool
    answer: str
    status: int | None


class DiskView(Struct, frozen=True, kw_only=True):
    path: str
    total_bytes: int
    free_bytes: int


class DueView(Struct, frozen=True, kw_only=True):
    """
    What is past its retention; each kind is counted up to 100,000.
    """

    tasks: int
    events: int
    heartbeats: int
    idempotency_keys: int
    audit_entries: int


class ErrorView(Struct, frozen=True, kw_only=True):
    """
    What went wrong in an execution.
    """

    class_: str = field(name="class")
    message: str
    is_permanent: bool


class EventView(Struct, frozen=True, kw_only=True):
    number: int
    at: datetime
    kind: str
    data: dict[str, Any]


class ExecutionView(Struct, frozen=True, kw_only=True):
    """
    One attempt at a task on one node.
    """

    id: str
    task_id: str
    node_id: str
    status: str
    start_time: datetime | None
    end_time: datetime | None
    metrics: Any
    assigned_at: datetime
    round: int
    retry: int
    retry_count: int
    session: int
    result: Any
    error: ErrorView | None
    progress: Any


class ExecutionsView(Struct, frozen=True, kw_only=True):
    executions: list[ExecutionView]
    next_cursor: str | None = None


class FieldQuality(Struct, frozen=True, kw_only=True):
    name: str
    filled: int
    fill_rate: float
    types: dict[str, int]


class FiguresView(Struct, frozen=True, kw_only=True):
    requests: int
    requests_per_s: float
    pages: int
    pages_per_s: float
    bytes: int
    bytes_per_s: float
    statuses: dict[str, int]
    too_many: int
    unavailable: int
    blocked: int
    errors: dict[str, int]
    answer_ms: AnswerTimes


class FindingView(Struct, frozen=True, kw_only=True):
    check: str
    area: str
    severity: str
    sentence: str
    hint: str


class FlowChangedView(Struct, frozen=True, kw_only=True):
    """
    A flow after what was asked.
    """

    id: str
    changed: int
    by_status: dict[str, int]


class FlowProgress(Struct, frozen=True, kw_only=True):
    """
    Of its tasks: steps, and the items they fanned out into.
    """

    total: int
    open: int
    completed: int
    failed: int
    timeout: int
    cancelled: int


class FlowView(Struct, frozen=True, kw_only=True):
    """
    A graph of tasks.
    """

    id: str
    name: str | None
    project_id: str | None
    status: str
    created_at: datetime
    finished_at: datetime | None
    progress: FlowProgress


class ForgivenView(Struct, frozen=True, kw_only=True):
    name: str
    has_changed: bool


class FullConfigView(Struct, frozen=True, kw_only=True):
    cluster: str
    version: int
    values: dict[str, Any]
    effective: dict[str, Any]
    changed_by: str | None
    changed_at: datetime | None


class GoneNode(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    status: str
    last_seen_at: datetime


class GroupFailure(Struct, frozen=True, kw_only=True):
    task_id: str
    status: str
    message: str | None


class GroupOutcome(Struct, frozen=True, kw_only=True):
    """
    What became of a member.
    """

    task_id: str
    status: str
    execution_id: str | None
    result: Any
    reason: str | None


class GroupOutcomePage(Struct, frozen=True, kw_only=True):
    outcomes: list[GroupOutcome]
    next_cursor: str | None


class GroupProgress(Struct, frozen=True, kw_only=True):
    """
    Members by what became of them: exact, at any moment.
    """

    total: int
    open: int
    completed: int
    failed: int
    timeout: int
    cancelled: int
    percent: float
    rate_per_s: float | None
    left_s: float | None


class GroupResultPage(Struct, frozen=True, kw_only=True):
    """
    Items of members that completed, in the order of the members.
    """

    items: list[Any]
    next_cursor: str | None
    is_complete: bool
    progress: GroupProgress


class GroupWhyView(Struct, frozen=True, kw_only=True):
    """
    Why a group stands still. What the cause is about follows, by cause.
    """

    id: str
    sentence: str
    cause: str
    open: int


class HealthView(Struct, frozen=True, kw_only=True):
    status: str
    reasons: list[str]


class HistorySeries(Struct, frozen=True, kw_only=True):
    series: str
    fields: dict[str, list[int | float | None]]


class HistoryView(Struct, frozen=True, kw_only=True):
    span: str
    since: datetime
    until: datetime
    times: list[datetime]
    series: list[HistorySeries]


class HostFiguresView(Struct, frozen=True, kw_only=True):
    since: datetime | None
    total: FiguresView | None
    recent: FiguresView | None


class HostHolder(Struct, frozen=True, kw_only=True):
    node_id: str
    session: int
    rate: int
    concurrency: int
    may_use_rate: int
    may_use_concurrency: int


class HostPoint(Struct, frozen=True, kw_only=True):
    at: datetime
    counted: FiguresView


class HostView(Struct, frozen=True, kw_only=True):
    name: str
    budget: BudgetView
    rate_now: float
    requests: int
    refused: int
    blocked: int
    is_backing_off: bool
    backoff_until: datetime | None
    backoff_reason: str | None
    backoff_level: int
    set_by: str | None
    set_at: datetime | None


class HostWaiter(Struct, frozen=True, kw_only=True):
    node_id: str
    session: int
    wanted: int


class HoursView(Struct, frozen=True, kw_only=True):
    from_: str = field(name="from")
    until: str
    days: list[int]
    time_zone: str


class IssuedTokenView(Struct, frozen=True, kw_only=True):
    token: str
    id: int
    role: str
    name: str
    expires_at: datetime | None
    uses_left: int | None


class LogLevelView(Struct, frozen=True, kw_only=True):
    master: str
    level: str
    own: str | None
    masters: str | None
    started_with: str


class LogPage(Struct, frozen=True, kw_only=True):
    lines: list[Any]
    next_after: str
    next_before: str | None
    execution_id: str | None
    is_live: bool
    is_end: bool


class LoopView(Struct, frozen=True, kw_only=True):
    passed_s_ago: float
    overdue_s: float


class MasterFiguresView(Struct, frozen=True, kw_only=True):
    url: str
    loop_lag_p99_ms: float | None
    commit_p99_ms: float | None
    loops: dict[str, LoopView]
    broker: str
    broker_trouble: str | None
    broker_losses: int
    broker_resets: int
    broker_memory_ratio: float | None
    leader_changes: int
    memory_bytes: int
    disks: dict[str, DiskView]
    clock_offset_ms: int | None


class MasterView(Struct, frozen=True, kw_only=True):
    name: str
    boot: int
    version: str
    address: str
    is_alive: bool
    is_leader: bool
    started_at: datetime
    seen_at: datetime
    silent_s: float
    figures: MasterFiguresView


class MastersView(Struct, frozen=True, kw_only=True):
    masters: list[MasterView]


class MeasurementView(Struct, frozen=True, kw_only=True):
    cpu: float
    memory: float
    disk: float
    load: float
    network_in_bps: float
    network_out_bps: float
    gpu: float | None
    running: int
    error_rate: float
    start_latency_s: float


class MissingChunksView(Struct, frozen=True, kw_only=True):
    task_id: str
    execution_id: str
    kind: str
    expected: int
    stored: int


class NodeRegistered(Struct, frozen=True, kw_only=True):
    node_id: str
    registration_time: float
    initial_status: str
    secret: str | None
    lease_s: float
    ignored_types: dict[str, str] = field(default_factory=dict)


class NodeView(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    status: str
    health: str
    health_details: dict[str, Any]
    health_at: str | None
    cluster: str
    node_type: str
    region: str
    weight: float
    slots: int
    slots_declared: int
    slots_set: int | None
    slots_mode: str
    running: int
    measurement: MeasurementView | None
    description: str
    ip_address: str
    port: int
    device_id: str | None
    task_types: list[str]
    capabilities: dict[str, float | list[str]]
    resources: dict[str, float]
    is_pull_only: bool
    is_connected: bool
    lease_s: float
    last_seen_at: str | None
    drain_by: str | None
    created_at: str
    machine_id: str
    egress_address: str
    cluster_id: str
    health_status: str
    health_timestamp: str | None
    last_heartbeat: str | None
    updated_at: str


class NodesCleaned(Struct, frozen=True, kw_only=True):
    applied: bool
    nodes: list[GoneNode]
    removed: int
    is_more: bool


class NoticeView(Struct, frozen=True, kw_only=True):
    """
    A notice and how its sending goes.
    """

    id: str
    channel: str
    status: str
    state: str
    rule: str
    scope: str
    severity: str
    alerts: int
    why: str
    created_at: datetime
    tries: int
    tried_at: datetime | None
    due_at: datetime | None
    answer: str
    digest_id: str | None


class PreviewedAlertView(Struct, frozen=True, kw_only=True):
    fired_at: datetime
    recovered_at: datetime | None
    peak: float


class ProductChangeView(Struct, frozen=True, kw_only=True):
    at: datetime
    kind: str
    fields: dict[str, Any]
    execution_id: str


class ProductView(Struct, frozen=True, kw_only=True):
    id: str
    project_id: str
    shop: str
    product_id: str
    url: str
    title: str
    price: str | None
    currency: str | None
    availability: str | None
    attributes: dict[str, Any]
    first_seen_at: datetime
    changed_at: datetime
    seen_at: datetime
    gone_at: datetime | None


class ProjectUse(Struct, frozen=True, kw_only=True):
    project_id: str | None
    running: int
    reserved: dict[str, float]


class ProxyView(Struct, frozen=True, kw_only=True):
    node_id: str
    node_name: str
    pool: str
    proxy: str
    is_up: bool
    uses: int
    failures: int
    down_until: datetime | None
    latency_ms: int | None
    last_failure: str | None
    reported_at: datetime


class QualityView(Struct, frozen=True, kw_only=True):
    items: int
    pages: int
    items_per_page: float | None
    duplicates: int
    is_exact: bool
    is_final: bool
    fields: list[FieldQuality]
    fields_left_out: int


class QueueOrder(Struct, frozen=True, kw_only=True):
    name: str
    order: str
    has_changed: bool


class QueueSizesView(Struct, frozen=True, kw_only=True):
    high: int
    normal: int
    low: int
    retry: int


class QueueState(Struct, frozen=True, kw_only=True):
    name: str
    is_paused: bool
    has_changed: bool


class QueueStates(Struct, frozen=True, kw_only=True):
    queues: list[QueueState]


class QueueView(Struct, frozen=True, kw_only=True):
    name: str
    is_paused: bool
    has_pending: bool
    order: str


class QueuesView(Struct, frozen=True, kw_only=True):
    queues: list[QueueView]


class QuotaView(Struct, frozen=True, kw_only=True):
    limit: float | None
    used: float
    left: float | None


class QuotasView(Struct, frozen=True, kw_only=True):
    waiting: QuotaView
    running: QuotaView
    cpu: QuotaView
    memory_mb: QuotaView
    pages_per_day: DayQuotaView
    bytes_per_day: DayQuotaView


class ReadyRepaired(Struct, frozen=True, kw_only=True):
    windows: int
    lanes: int


class RefusalView(Struct, frozen=True, kw_only=True):
    id: str
    code: str
    detail: str


class RefusedItem(Struct, frozen=True, kw_only=True):
    code: str
    detail: str
    field_: str | None = field(name="field")


class RefusedView(Struct, frozen=True, kw_only=True):
    """
    A task that was not.
    """

    error: RefusedItem


class RemovedView(Struct, frozen=True, kw_only=True):
    """
    What was removed of a group.
    """

    id: str
    is_gone: bool
    left: int


class ResultPage(Struct, frozen=True, kw_only=True):
    items: list[Any]
    next_cursor: str | None
    total: int | None
    is_final: bool
    execution_id: str | None


class ResultView(Struct, frozen=True, kw_only=True):
    """
    What the execution that completed a task gave.
    """

    success: bool
    data: Any
    metrics: Any
    timestamp: datetime | None
    items: int | None = None
    data_truncated: bool | None = None
    notes: list[str] | None = None


class ResultsChecked(Struct, frozen=True, kw_only=True):
    looked_at: int
    missing: list[MissingChunksView]
    next_cursor: str | None


class ResultsCleaned(Struct, frozen=True, kw_only=True):
    applied: bool
    files: int
    orphans: int
    orphan_files: int
    orphan_bytes: int
    removed: int
    examples: list[str]
    next_cursor: str | None


class RetentionCleaned(Struct, frozen=True, kw_only=True):
    applied: bool
    due: DueView | None
    removed_rows: int
    next_cursor: str | None


class RetryBody(Struct, frozen=True, kw_only=True):
    max_retries: int = 3
    base_delay_s: float = 2.0
    max_delay_s: float = 300.0


class RuleView(Struct, frozen=True, kw_only=True):
    """
    A rule as it is applied.
    """

    name: str
    kind: str
    about: str
    scope: str
    unit: str
    threshold: float
    clear: float
    fires_below: bool
    for_s: int
    keep_s: int
    least_samples: int
    severity: str
    channels: list[str]
    hours: HoursView | None
    is_enabled: bool
    is_built_in: bool
    has_preview: bool
    changed_by: str | None
    changed_at: datetime | None


class RunView(Struct, frozen=True, kw_only=True):
    """
    What became of a tick, or a run by hand.
    """

    run_at: datetime
    status: str
    made_at: datetime
    task_id: str | None
    task_status: str | None
    reason: str | None


class ScheduleView(Struct, frozen=True, kw_only=True):
    """
    A schedule, as it was made and as it stands.
    """

    id: str
    name: str | None
    project_id: str | None
    task: dict[str, Any]
    at: datetime | None
    every_s: int | None
    cron: str | None
    time_zone: str
    starts_at: datetime | None
    ends_at: datetime | None
    jitter_s: int
    catch_up: str
    overlap: str
    is_paused: bool
    status: str
    created_at: datetime
    created_by: str
    changed_at: datetime
    next_run_at: datetime | None
    held_at: datetime | None
    held_for: str | None
    last_error: str | None
    next_runs: list[datetime] | None = None
    last_runs: list[RunView] | None = None


class ShardSpec(Struct, frozen=True, kw_only=True):
    """
    What is kept of how a task was split.
    """

    over: str
    shards: int
    values: int
    size: int | None = None
    count: int | None = None


class SilenceView(Struct, frozen=True, kw_only=True):
    id: str
    matchers: dict[str, str]
    starts_at: datetime
    until_at: datetime
    why: str
    created_by: str
    created_at: datetime
    is_in_force: bool


class SlotsView(Struct, frozen=True, kw_only=True):
    total: int
    used: int


class StatsView(Struct, frozen=True, kw_only=True):
    total: int
    by_status: dict[str, int]


class StepItems(Struct, frozen=True, kw_only=True):
    """
    What a step fanned out into.
    """

    total: int
    by_status: dict[str, int]


class StepView(Struct, frozen=True, kw_only=True):
    """
    A step of a flow, which is a task.
    """

    key: str
    task_id: str
    task_type: str
    status: str
    is_skipped: bool
    reason: str | None
    round: int
    after: dict[str, str]
    waits: int
    when: str | None
    for_each: Any
    items: StepItems | None
    started_at: datetime | None
    ended_at: datetime | None


class StopOrderView(Struct, frozen=True, kw_only=True):
    """
    An execution that the node has to stop.
    """

    task_id: str
    execution_id: str
    reason: str


class TaskTypeView(Struct, frozen=True, kw_only=True):
    name: str
    version: int
    schema: dict[str, Any]
    changed_at: datetime | None = None
    nodes: int = 0


class TaskView(Struct, frozen=True, kw_only=True):
    """
    A task, as it was submitted and as it stands.
    """

    id: str
    project_id: str | None
    workflow_id: str | None
    name: str | None
    task_type: str
    priority: int
    min_resources: dict[str, float]
    capabilities: dict[str, Any]
    cluster: str | None
    node_type: str | None
    schedule_strategy: str | None
    target_region: str | None
    require_region: bool
    content_features: dict[str, Any]
    categories: list[str]
    queue: str
    depends_on: list[str]
    group_id: str | None
    timeout_s: int
    retry: RetryBody
    preemptible: bool
    node_id: str | None
    status: str
    created_at: datetime
    updated_at: datetime
    run_at: datetime | None
    due_at: datetime | None
    assigned_node: str | None
    assigned_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    execution_id: str | None
    retry_count: int
    max_retries: int
    losses: int
    round: int
    recall: str | None
    reason: str | None
    parameters: dict[str, Any] | None = None
    result: ResultView | None = None
    error: ErrorView | None = None
    progress: Any | None = None


class TasksCleaned(Struct, frozen=True, kw_only=True):
    applied: bool
    looked_at: int
    selected: int
    needed: int
    removed: int
    next_cursor: str | None


class TokenView(Struct, frozen=True, kw_only=True):
    id: int
    role: str
    name: str
    is_usable: bool
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    uses_left: int | None
    last_used_at: datetime | None
    rotated_at: datetime | None
    revoked_at: datetime | None


class WhyView(Struct, frozen=True, kw_only=True):
    """
    Why a task is where it is. What the cause is about follows, by cause.
    """

    id: str
    sentence: str
    status: str
    cause: str


class AcknowledgedView(Struct, frozen=True, kw_only=True):
    rule: str
    scope: str
    acknowledgement: AcknowledgementView


class AlertList(Struct, frozen=True, kw_only=True):
    alerts: list[AlertView]
    firing: int


class AuditPage(Struct, frozen=True, kw_only=True):
    entries: list[AuditView]
    next_before: int | None


class BulkView(Struct, frozen=True, kw_only=True):
    """
    What was done to many tasks.
    """

    changed: int
    by_status: dict[str, int]
    refused: int
    refusals: list[RefusalView]
    next_cursor: str | None


class ChannelList(Struct, frozen=True, kw_only=True):
    channels: list[ChannelView]
    kinds: list[ChannelKindView]


class ClusterView(Struct, frozen=True, kw_only=True):
    name: str
    status: str
    description: str
    project: str | None
    health: str
    nodes: dict[str, int]
    node_count: int
    slots: SlotsView
    id: str
    project_id: str | None
    configuration: dict[str, Any]
    created_at: datetime | None
    updated_at: datetime | None


class ConfigHistory(Struct, frozen=True, kw_only=True):
    versions: list[ConfigView]


class DeadLetterView(Struct, frozen=True, kw_only=True):
    task_id: str
    round: int
    project_id: str | None
    task_type: str
    cause: str
    error: ErrorView | None
    buried_at: datetime


class DoctorView(Struct, frozen=True, kw_only=True):
    findings: list[FindingView]
    counts: dict[str, int]


class EventPage(Struct, frozen=True, kw_only=True):
    events: list[EventView]
    next_after: int
    last: int


class FlowDetail(Struct, frozen=True, kw_only=True):
    """
    A flow with its graph.
    """

    id: str
    name: str | None
    project_id: str | None
    status: str
    created_at: datetime
    finished_at: datetime | None
    progress: FlowProgress
    steps: list[StepView]


class FlowPageView(Struct, frozen=True, kw_only=True):
    flows: list[FlowView]
    next_cursor: str | None


class GroupView(Struct, frozen=True, kw_only=True):
    """
    Tasks as one.
    """

    id: str
    name: str | None
    project_id: str | None
    kind: str
    created_at: datetime
    is_closed: bool
    is_finished: bool
    is_complete: bool
    finished_at: datetime | None
    progress: GroupProgress
    shard: ShardSpec | None
    failures: list[GroupFailure]
    crawl: CrawlView | None = None


class HeartbeatHeard(Struct, frozen=True, kw_only=True):
    node_id: str
    timestamp: float
    status: str
    stale: list[str]
    next_s: float
    cancel: list[StopOrderView] = field(default_factory=list)
    drain_by: str | None = None


class HeartbeatView(Struct, frozen=True, kw_only=True):
    at: str
    measurement: MeasurementView


class HostDetail(Struct, frozen=True, kw_only=True):
    host: HostView
    holders: list[HostHolder]
    waiting: list[HostWaiter]
    figures: HostFiguresView


class HostHistory(Struct, frozen=True, kw_only=True):
    name: str
    span: str
    points: list[HostPoint]


class HostPage(Struct, frozen=True, kw_only=True):
    hosts: list[HostView]
    next_cursor: str | None


class NodeList(Struct, frozen=True, kw_only=True):
    nodes: list[NodeView]


class NodeUse(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    status: str
    slots: SlotsView
    declared: dict[str, float]
    reserved: dict[str, float]
    measured: MeasurementView | None


class NoticePage(Struct, frozen=True, kw_only=True):
    notices: list[NoticeView]
    next_cursor: str | None


class PreviewView(Struct, frozen=True, kw_only=True):
    """
    When a rule would have fired over the stored history.
    """

    scope: str
    since: datetime
    until: datetime
    alerts: list[PreviewedAlertView]
    points: int


class ProductDetail(Struct, frozen=True, kw_only=True):
    product: ProductView
    changes: list[ProductChangeView]


class ProductPage(Struct, frozen=True, kw_only=True):
    products: list[ProductView]
    next_cursor: str | None


class ProjectView(Struct, frozen=True, kw_only=True):
    name: str
    weight: float
    on_full: str
    quotas: QuotasView
    version: int
    changed_at: datetime | None


class ProxyList(Struct, frozen=True, kw_only=True):
    proxies: list[ProxyView]


class RuleList(Struct, frozen=True, kw_only=True):
    rules: list[RuleView]


class SchedulePageView(Struct, frozen=True, kw_only=True):
    schedules: list[ScheduleView]
    next_cursor: str | None


class SilenceList(Struct, frozen=True, kw_only=True):
    silences: list[SilenceView]


class TaskPageView(Struct, frozen=True, kw_only=True):
    tasks: list[TaskView]
    next_cursor: str | None
    searched_back_to: datetime | None = None


class TaskTypeList(Struct, frozen=True, kw_only=True):
    task_types: list[TaskTypeView]


class TokenList(Struct, frozen=True, kw_only=True):
    tokens: list[TokenView]


class UsageView(Struct, frozen=True, kw_only=True):
    cluster: str
    slots: SlotsView
    reserved: dict[str, float]
    nodes: list[NodeUse]
    projects: list[ProjectUse]


class ClusterList(Struct, frozen=True, kw_only=True):
    clusters: list[ClusterView]


class DeadLetterDetail(Struct, frozen=True, kw_only=True):
    """
    A dead letter with its whole history.
    """

    dead_letter: DeadLetterView
    task: TaskView
    executions: list[ExecutionView]


class DeadLetterPageView(Struct, frozen=True, kw_only=True):
    dead_letters: list[DeadLetterView]
    next_cursor: str | None


class GroupPageView(Struct, frozen=True, kw_only=True):
    groups: list[GroupView]
    next_cursor: str | None


class HeartbeatHistory(Struct, frozen=True, kw_only=True):
    node_id: str
    samples: list[HeartbeatView]


class ProjectPage(Struct, frozen=True, kw_only=True):
    projects: list[ProjectView]
    next_cursor: str | None
