"""The schema of the tables: one description for both databases.

    task        what was submitted; written once
    live        the narrow hot row of a task that is not final; touched by primary key, deleted when final
    done        the final row, until a person's retry moves it back; with the execution that completed it
    execution   one row per other execution that ended

The hot path touches only `live`, and appends; it never reads history. The partial indexes of `live` serve the queries
of the loops: ready by lane, held by node, due by time.

The tables of `tasks`, `nodes`, `composites`, `hosts`, `projects`, `figures`, `admin` and `alerts` are in modules of
these names, as the code that reads and writes them; `columns` has the metadata that all of them belong to.
"""

from __future__ import annotations

from crawlfleet.store.schema.admin import (
    audit,
    chunk_removal,
    cluster_config,
    event_log,
    evidence,
    installation,
    outbox,
    token,
)
from crawlfleet.store.schema.alerts import (
    acknowledgement,
    alert_channel,
    alert_group,
    alert_rule,
    alert_state,
    notice,
    silence,
)
from crawlfleet.store.schema.columns import metadata
from crawlfleet.store.schema.composites import (
    crawl,
    crawl_chunk,
    crawl_seen,
    flow_step,
    group_counter,
    group_delta,
    product,
    product_change,
    schedule,
    task_group,
    tick,
)
from crawlfleet.store.schema.figures import counter, figure, figure_delta, figure_total, lane_counter, tally
from crawlfleet.store.schema.hosts import cookie_jar, host, host_delta, host_figure, host_news, host_share, host_told
from crawlfleet.store.schema.nodes import (
    cluster,
    heartbeat,
    id_slot,
    leader,
    lease,
    master,
    node,
    node_proxies,
    pull,
    task_type,
)
from crawlfleet.store.schema.projects import day_slice, day_use, project
from crawlfleet.store.schema.tasks import (
    dead_letter,
    dependency,
    done,
    execution,
    idempotency,
    lane,
    live,
    parking,
    preemption,
    queue,
    task,
)

__all__ = [
    "acknowledgement",
    "alert_channel",
    "alert_group",
    "alert_rule",
    "alert_state",
    "audit",
    "chunk_removal",
    "cluster",
    "cluster_config",
    "cookie_jar",
    "counter",
    "crawl",
    "crawl_chunk",
    "crawl_seen",
    "day_slice",
    "day_use",
    "dead_letter",
    "dependency",
    "done",
    "event_log",
    "evidence",
    "execution",
    "figure",
    "figure_delta",
    "figure_total",
    "flow_step",
    "group_counter",
    "group_delta",
    "heartbeat",
    "host",
    "host_delta",
    "host_figure",
    "host_news",
    "host_share",
    "host_told",
    "id_slot",
    "idempotency",
    "installation",
    "lane",
    "lane_counter",
    "leader",
    "lease",
    "live",
    "master",
    "metadata",
    "node",
    "node_proxies",
    "notice",
    "outbox",
    "parking",
    "preemption",
    "product",
    "product_change",
    "project",
    "pull",
    "queue",
    "schedule",
    "silence",
    "tally",
    "task",
    "task_group",
    "task_type",
    "tick",
    "token",
]
