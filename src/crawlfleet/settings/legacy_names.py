"""The key names of the source documents' configuration blocks, and the setting that each one means here.

There are two families: the flat JSON blocks of the distribution guide (`mode`, `device_id`, `task_timeout`, ...) and
the sections of the queue's `queue.yaml` (`redis`, `queue`, `workers`, `monitoring`).
"""

from __future__ import annotations

from collections.abc import Mapping

MODES = ("master", "worker", "standalone")

MEANING: Mapping[str, Mapping[str, str]] = {
    "device_name": {"master": "name", "worker": "name"},
    "master_url": {"worker": "masters"},
    "concurrent_tasks": {"worker": "slots", "standalone": "slots"},
    "task_timeout": {"master": "task_timeout_s"},
    "max_retry_count": {"master": "max_retries"},
    "load_balance_strategy": {"master": "strategy"},
    "heartbeat_interval": {"master": "heartbeat_interval_s"},
    "device_timeout": {"master": "device_timeout_s"},
    "api_key": {"worker": "enrol_token", "client": "token"},
    "redis.url": {"master": "broker"},
    "redis.max_connections": {"master": "redis_max_connections"},
    "redis.connection_pool_timeout": {"master": "redis_pool_timeout_s"},
    "queue.priorities.high": {"master": "priority_high"},
    "queue.priorities.normal": {"master": "priority_normal"},
    "queue.priorities.low": {"master": "priority_low"},
    "queue.retry.max_retries": {"master": "max_retries"},
    "queue.retry.base_delay": {"master": "retry_base_delay_s"},
    "queue.retry.max_delay": {"master": "retry_max_delay_s"},
    "workers.default_count": {"worker": "slots", "standalone": "slots"},
    "workers.max_count": {"worker": "max_workers", "standalone": "max_workers"},
    "workers.shutdown_timeout": {"worker": "drain_s"},
    "workers.task_timeout": {"master": "task_timeout_s"},
    "monitoring.alert_thresholds.failure_rate": {"master": "alert_failure_rate"},
    "monitoring.alert_thresholds.queue_size": {"master": "alert_queue_size"},
    "monitoring.alert_thresholds.avg_duration": {"master": "alert_avg_duration_s"},
}
"""Mapping of a key of the source documents (dots for depth) to our section and to our setting in it."""

NO_MEANING: Mapping[str, str] = {
    "mode": "the command chooses the mode",
    "dispatch_interval": "tasks are placed when they arrive, not at intervals",
    "timeout_check_interval": "silent nodes are noticed without a check at intervals",
    "enable_monitoring": "monitoring is always on",
    "monitoring.stats_interval": "figures are kept as things happen, not at intervals",
    "monitoring.health_check_interval": "health is judged with every sync of a node",
}

NOT_HERE: Mapping[str, str] = {
    "api_key": "a master keeps no key in a file: crawlfleet token create makes tokens",
}
"""Explanations for keys that have a meaning for another process and none for this one, where that needs an
explanation."""

SECTIONS = frozenset({path[:end] for path in (*MEANING, *NO_MEANING) for end, char in enumerate(path) if char == "."})

DESCRIPTIONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("设备唯一标识", "设备显示名称", "监听地址", "主节点URL（工作节点需要）"),
        "describes the value instead of giving it",
    ),
    **dict.fromkeys(
        ("master|worker|standalone", "least_tasks|round_robin|weighted|random"),
        "lists the alternatives instead of giving one",
    ),
}
"""What the guide writes in place of a value, with the reason to ignore it: such a value counts as not given, so that
the guide's blocks load as they are printed, and none of these becomes the name of a machine."""


def translate_name(key: str, section: str) -> str | None:
    """Return our setting in that section for a key of the source documents."""
    meant = MEANING.get(key, {})
    return meant.get(section) or (meant.get("master") if section == "standalone" else None)
