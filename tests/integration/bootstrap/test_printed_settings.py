"""A master that runs with the guides' configuration files as they are printed: each value has its effect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from crawlfleet.bootstrap.serve import MasterProcess
from crawlfleet.control.admin.cluster_settings import ClusterSettings
from crawlfleet.ports.task_store import Accepted
from crawlfleet.settings.loading import load_settings
from crawlfleet.settings.master import MasterSettings
from crawlfleet.wire.tasks import RetryBody, SpecBody, TaskBody
from testkit.servers import RedisServer
from tests.unit.settings import printed_blocks
from tests.unit.settings.printed_blocks import QUEUE_YAML

pytestmark = pytest.mark.integration


def load_printed(file: Path, text: str, broker: str) -> MasterSettings:
    """Only what belongs to this machine is not as printed: the port, the folder, and the address of Redis."""
    file.write_text(text, encoding="utf-8")
    env = {"CRAWLFLEET_BROKER": broker, "CRAWLFLEET_PORT": "0", "CRAWLFLEET_DATA_DIR": str(file.parent / "data")}
    return load_settings(MasterSettings, file, env).settings


@asynccontextmanager
async def running_master(file: Path, text: str, broker: str) -> AsyncIterator[MasterProcess]:
    process = await MasterProcess.open(load_printed(file, text, broker))
    try:
        yield process
    finally:
        process.close()
        await process.serve()


async def load_cluster_settings(process: MasterProcess) -> ClusterSettings:
    return (await process.master.configure.load_effective_config("default")).settings


@pytest.mark.parametrize("name", ["BASIC", "SCHEDULING", "MONITORING", "CONCURRENCY", "HEARTBEAT", "TIMEOUT"])
async def test_each_block_of_the_guide_runs(tmp_path: Path, name: str) -> None:
    async with running_master(tmp_path / "master.json", getattr(printed_blocks, name), "memory:") as process:
        settings = await load_cluster_settings(process)
        assert (settings.task_timeout_s, settings.max_retries) == (3_600, 3)


async def test_the_queues_file_runs(tmp_path: Path) -> None:
    with RedisServer() as redis:
        async with running_master(tmp_path / "queue.yaml", QUEUE_YAML, redis.url) as process:
            settings = await load_cluster_settings(process)
            assert settings.priority_classes == (10, 5, 1)
            assert (settings.alert_failure_rate, settings.alert_queue_size) == (0.1, 1_000)
            assert settings.alert_avg_duration_s == 300
            assert process.master.broker.failure_reason is None


async def test_other_values_have_their_effect(tmp_path: Path) -> None:
    text = (
        QUEUE_YAML.replace("base_delay: 1\n", "base_delay: 7\n")
        .replace("high: 10", "high: 9")
        .replace("queue_size: 1000", "queue_size: 77")
    )
    async with running_master(tmp_path / "queue.yaml", text, "memory:") as process:
        settings = await load_cluster_settings(process)
        assert (settings.priority_classes.high, settings.alert_queue_size) == (9, 77)
        body = TaskBody("echo", msgspec.Raw(b"{}"))
        (accepted,) = (await process.master.submit.submit_tasks([body])).items
        assert isinstance(accepted, Accepted)
        record = (await process.master.store.load_tasks([accepted.id]))[accepted.id]
        assert record.spec is not None
        assert msgspec.json.decode(record.spec, type=SpecBody).retry == RetryBody(3, 7, 60)
        assert record.timeout_s == 300
