"""The guides' configuration blocks load as they are printed, and what they set has its value here."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlfleet.settings.base import Settings
from crawlfleet.settings.loading import Loaded, load_settings
from crawlfleet.settings.master import MasterSettings, StandaloneSettings
from crawlfleet.settings.provenance import BadSetting
from crawlfleet.settings.worker import WorkerSettings
from tests.unit.settings import printed_blocks

JSON_BLOCKS = ["BASIC", "SCHEDULING", "MONITORING", "CONCURRENCY", "HEARTBEAT", "TIMEOUT"]
CLASSES: list[type[Settings]] = [MasterSettings, StandaloneSettings, WorkerSettings]
IGNORED = {
    "mode": "lists the alternatives instead of giving one",
    "load_balance_strategy": "lists the alternatives instead of giving one",
    "dispatch_interval": "tasks are placed when they arrive, not at intervals",
    "timeout_check_interval": "silent nodes are noticed without a check at intervals",
    "enable_monitoring": "monitoring is always on",
    "monitoring.stats_interval": "figures are kept as things happen, not at intervals",
    "monitoring.health_check_interval": "health is judged with every sync of a node",
}


def load_block(cls: type[Settings], folder: Path, text: str, suffix: str = ".json") -> Loaded[Settings]:
    file = folder / f"printed{suffix}"
    file.write_text(text, encoding="utf-8")
    return load_settings(cls, file, is_for_show=True)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("name", JSON_BLOCKS)
def test_each_block_of_the_guide_loads_for_each_process(tmp_path: Path, cls: type[Settings], name: str) -> None:
    loaded = load_block(cls, tmp_path, getattr(printed_blocks, name))
    for left in loaded.ignored:
        assert left.reason in {IGNORED.get(left.key), "describes the value instead of giving it"} or (
            left.reason.startswith("a setting of: ")
        ), left


@pytest.mark.parametrize("cls", CLASSES)
def test_no_key_of_the_queues_file_is_without_a_meaning(tmp_path: Path, cls: type[Settings]) -> None:
    loaded = load_block(cls, tmp_path, printed_blocks.QUEUE_YAML, ".yaml")
    for left in loaded.ignored:
        assert left.reason == IGNORED.get(left.key) or left.reason.startswith("a setting of: "), left


def test_the_queues_file_sets_what_it_says(tmp_path: Path) -> None:
    loaded = load_block(StandaloneSettings, tmp_path, printed_blocks.QUEUE_YAML, ".yaml")
    settings = loaded.settings
    assert isinstance(settings, StandaloneSettings)
    given = {name: getattr(settings, name) for name, source in loaded.sources.items() if source.kind == "file"}
    assert given == {
        "broker": "redis://localhost:6379/0",
        "redis_max_connections": 20,
        "redis_pool_timeout_s": 5,
        "priority_high": 10,
        "priority_normal": 5,
        "priority_low": 1,
        "max_retries": 3,
        "retry_base_delay_s": 1,
        "retry_max_delay_s": 60,
        "slots": 5,
        "max_workers": 20,
        "task_timeout_s": 300,
        "alert_failure_rate": 0.1,
        "alert_queue_size": 1_000,
        "alert_avg_duration_s": 300,
    }
    assert {left.key for left in loaded.ignored} == {
        "workers.shutdown_timeout",  # of a worker: the agents of a standalone installation leave within eight seconds
        "monitoring.stats_interval",
        "monitoring.health_check_interval",
    }
    worker = load_block(WorkerSettings, tmp_path, printed_blocks.QUEUE_YAML, ".yaml").settings
    assert isinstance(worker, WorkerSettings)
    assert (worker.slots, worker.max_workers, worker.drain_s) == (5, 20, 30)


def test_the_printed_key_is_no_key(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="the placeholder of the documentation"):
        load_block(WorkerSettings, tmp_path, printed_blocks.API_KEY)


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("queue: {priorities: {high: 11}}", "priority_high"),
        ("queue: {priorities: {low: 0}}", "priority_low"),
        ("queue: {priorities: {high: true}}", "priority_high"),
        ("queue: {priorities: {high: 3}}", "priority_high"),
        ("queue: {priorities: {urgent: 9}}", "queue.priorities.urgent"),
        ("queue: {retry: {base_delay: -1}}", "retry_base_delay_s"),
        ("queue: {retry: {base_delay: 61, max_delay: 60}}", "retry_base_delay_s"),
        ("queue: {retry: {max_delay: 604801}}", "retry_max_delay_s"),
        ("redis: {max_connections: 1}", "redis_max_connections"),
        ("redis: {connection_pool_timeout: 0}", "redis_pool_timeout_s"),
        ("workers: {max_count: 0}", "max_workers"),
        ("workers: {max_count: 2}\nnodes: 3", "nodes"),
        ("monitoring: {alert_thresholds: {failure_rate: 1.1}}", "alert_failure_rate"),
        ("monitoring: {alert_thresholds: {queue_size: 0}}", "alert_queue_size"),
        ("monitoring: {alert_thresholds: {avg_duration: 0}}", "alert_avg_duration_s"),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_its_setting(tmp_path: Path, text: str, setting: str) -> None:
    with pytest.raises(BadSetting) as caught:
        load_block(StandaloneSettings, tmp_path, text, ".yaml")
    assert caught.value.setting == setting
