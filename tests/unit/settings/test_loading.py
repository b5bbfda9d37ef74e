"""Files, environment, flags: who wins, where a value came from, and what stops the start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.settings.base import Settings
from crawlfleet.settings.client import ClientSettings
from crawlfleet.settings.loading import Loaded, load_mode, load_settings
from crawlfleet.settings.master import MasterSettings, StandaloneSettings
from crawlfleet.settings.provenance import BadSetting
from crawlfleet.settings.worker import WorkerSettings

QUEUE_YAML = """
redis:
  url: "redis://localhost:6379/0"
  max_connections: 20
  connection_pool_timeout: 5
queue:
  priorities: {high: 10, normal: 5, low: 1}
  retry: {max_retries: 4, base_delay: 1, max_delay: 60}
workers:
  default_count: 5
  max_count: 20
  task_timeout: 300
  shutdown_timeout: 30
monitoring:
  stats_interval: 60
  health_check_interval: 30
  alert_thresholds: {failure_rate: 0.1, queue_size: 1000, avg_duration: 300}
"""
BASIC = {
    "mode": "master",
    "device_id": "设备唯一标识",
    "device_name": "设备显示名称",
    "host": "监听地址",
    "port": 8000,
    "master_url": "主节点URL（工作节点需要）",
}
SCHEDULING = {
    "concurrent_tasks": 3,
    "task_timeout": 1800,
    "max_retry_count": 2,
    "dispatch_interval": 10,
    "load_balance_strategy": "round_robin",
}
MONITORING = {"heartbeat_interval": 20, "timeout_check_interval": 60, "device_timeout": 200, "enable_monitoring": True}


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def refused(cls: type[Settings], file: Path | None = None, env: dict[str, str] | None = None) -> BadSetting:
    with pytest.raises(BadSetting) as caught:
        load_settings(cls, file, env)
    return caught.value


def ignored(loaded: Loaded[Any]) -> set[str]:
    return {left.key for left in loaded.ignored}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", 'port = 9000\nallow_hosts = ["shop"]\n'),
        ("a.yaml", "port: 9000\nallow_hosts: [shop]\n"),
        ("a.yml", "port: '9000'\nallow_hosts: shop\n"),
        ("a.json", '{"port": 9000, "allow_hosts": ["shop"]}'),
    ],
)
def test_a_file_may_be_toml_yaml_or_json(tmp_path: Path, name: str, text: str) -> None:
    loaded = load_settings(MasterSettings, write(tmp_path / name, text))
    assert (loaded.settings.port, loaded.settings.allow_hosts) == (9000, ("shop",))
    assert str(loaded.sources["port"]) == f"{tmp_path / name}: port"
    assert loaded.sources["host"].kind == "default"


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", "port = 1\nmax_retries = 1\nmax_waiting = 1\n")
    loaded = load_settings(MasterSettings, file, {"CRAWLFLEET_PORT": "2", "CRAWLFLEET_MAX_RETRIES": "2"}, {"--port": 3})
    assert [loaded.settings.port, loaded.settings.max_retries, loaded.settings.max_waiting] == [3, 2, 1]
    assert [str(loaded.sources[name]) for name in ("port", "max_retries", "max_waiting")] == [
        "--port",
        "CRAWLFLEET_MAX_RETRIES",
        f"{file}: max_waiting",
    ]


def test_a_flag_that_was_not_given_is_none() -> None:
    assert load_settings(MasterSettings, flags={"--port": None, "--allow-host": []}).sources["port"].kind == "default"


def test_one_file_may_serve_all_processes(tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", 'log_level = "debug"\n[master]\nport = 9\n[worker]\nmasters = "http://h:9"\n')
    master, worker = load_settings(MasterSettings, file), load_settings(WorkerSettings, file)
    assert (master.settings.port, master.settings.log_level) == (9, "debug")
    assert (worker.settings.masters, worker.settings.log_level) == (("http://h:9",), "debug")
    assert str(master.sources["port"]) == f"{file}: master.port"
    assert not master.ignored and not worker.ignored


def test_its_own_table_wins_over_what_all_share(tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", "port = 1\n[master]\nport = 2\n")
    assert load_settings(MasterSettings, file).settings.port == 2


def test_an_unknown_key_in_anothers_table_is_a_mistake_too(tmp_path: Path) -> None:
    error = refused(MasterSettings, write(tmp_path / "a.toml", "[worker]\nslotz = 2\n"))
    assert (error.setting, error.hint) == ("slotz", "did you mean slots?")


def test_a_setting_of_another_process_is_listed_not_dropped(tmp_path: Path) -> None:
    loaded = load_settings(MasterSettings, write(tmp_path / "a.toml", 'region = "us"\n'))
    assert [(left.key, left.reason) for left in loaded.ignored] == [("region", "a setting of: worker")]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.ini", "x", "ends in none of"),
        ("a.json", "{", "cannot be read"),
        ("a.json", "[1]", "holds no table"),
        ("a.json", '{"port": 1, "port": 2}', "twice"),
        ("a.yaml", "port: 1\nport: 2\n", "twice"),
        ("a.yaml", "port: [", "cannot be read"),
        ("a.toml", "port = ", "cannot be read"),
        ("a.json", "[" * 100_000, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: str, said: str) -> None:
    error = refused(MasterSettings, write(tmp_path / name, content))
    assert said in str(error)
    assert str(tmp_path / name) in str(error)


def test_a_file_of_another_encoding_or_size_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(b"name = '\xff'")
    assert "is not UTF-8 at byte 8" in str(refused(MasterSettings, file))
    file.write_bytes(b"#" * (2 << 20))
    assert "is larger than" in str(refused(MasterSettings, file))


def test_a_file_that_is_not_there_is_refused_with_a_hint(tmp_path: Path) -> None:
    error = refused(MasterSettings, tmp_path / "none.toml")
    assert error.hint is not None and "crawlfleet init" in error.hint


def test_an_unknown_key_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", "prot: 8000\n")
    error = refused(MasterSettings, file)
    assert (error.setting, error.hint, str(error.source)) == ("prot", "did you mean port?", f"{file}: prot")


def test_an_unknown_variable_is_refused_with_the_nearest_one() -> None:
    error = refused(MasterSettings, env={"CRAWLFLEET_PROT": "8000", "PATH": "/bin"})
    assert (str(error.source), error.hint) == ("CRAWLFLEET_PROT", "did you mean CRAWLFLEET_PORT?")


def test_what_kubernetes_says_of_a_service_is_no_setting() -> None:
    env = {
        "CRAWLFLEET_PORT": "tcp://10.0.0.1:8000",
        "CRAWLFLEET_SERVICE_HOST": "10.0.0.1",
        "CRAWLFLEET_SERVICE_PORT_HTTP": "8000",
        "CRAWLFLEET_PORT_8000_TCP_ADDR": "10.0.0.1",
    }
    assert load_settings(MasterSettings, env=env).settings.port == 8000


def test_an_empty_variable_is_one_that_is_not_set() -> None:
    assert load_settings(ClientSettings, env={"CRAWLFLEET_URL": ""}).settings.url is None


def test_the_environment_of_another_process_is_let_be() -> None:
    assert load_settings(ClientSettings, env={"CRAWLFLEET_PORT": "x"}).settings.url is None


def test_passwords_and_tokens_are_not_shown() -> None:
    env = {"CRAWLFLEET_STORE": "postgresql://fleet:secret@db/fleet", "CRAWLFLEET_TOKEN": "secret"}
    for cls in (MasterSettings, ClientSettings):
        assert "secret" not in str(list(load_settings(cls, env=env).setting_rows()))
    assert ("store", "postgresql://fleet:***@db/fleet") in [
        row[:2] for row in load_settings(MasterSettings, env=env).setting_rows()
    ]


# The blocks of the source documents


def test_the_guides_blocks_load_for_a_master(tmp_path: Path) -> None:
    loaded = load_settings(MasterSettings, write(tmp_path / "m.json", BASIC | SCHEDULING | MONITORING))
    settings = loaded.settings
    assert (settings.host, settings.port, settings.name) == ("127.0.0.1", 8000, None)
    assert (settings.task_timeout_s, settings.max_retries, settings.strategy) == (1800, 2, "round_robin")
    assert (settings.heartbeat_interval_s, settings.device_timeout_s) == (20, 200)
    assert str(loaded.sources["task_timeout_s"]).endswith("m.json: task_timeout")
    assert ignored(loaded) == {
        "device_id",
        "device_name",
        "host",
        "master_url",
        "concurrent_tasks",
        "dispatch_interval",
        "timeout_check_interval",
        "enable_monitoring",
    }


def test_the_guides_blocks_load_for_a_worker(tmp_path: Path) -> None:
    block = (
        BASIC
        | SCHEDULING
        | MONITORING
        | {
            "mode": "worker",
            "device_id": "worker-001",
            "device_name": "Worker Node 1",
            "master_url": "http://m:8000",
            "api_key": "ab" * 32,
        }
    )
    settings = load_settings(WorkerSettings, write(tmp_path / "w.json", block)).settings
    assert (settings.device_id, settings.name, settings.masters) == ("worker-001", "Worker Node 1", ("http://m:8000",))
    assert (settings.slots, settings.enrol_token) == (3, "ab" * 32)


def test_the_guides_blocks_load_for_a_standalone_installation(tmp_path: Path) -> None:
    settings = load_settings(
        StandaloneSettings, write(tmp_path / "s.json", BASIC | SCHEDULING | {"mode": "standalone"})
    ).settings
    assert (settings.slots, settings.task_timeout_s) == (3, 1800)


def test_the_queues_yaml_loads(tmp_path: Path) -> None:
    file = write(tmp_path / "queue.yaml", QUEUE_YAML)
    master = load_settings(MasterSettings, file)
    assert master.settings.broker == "redis://localhost:6379/0"
    assert (master.settings.max_retries, master.settings.task_timeout_s) == (4, 300)
    assert str(master.sources["max_retries"]) == f"{file}: queue.retry.max_retries"
    assert ignored(master) == {
        "workers.default_count",
        "workers.max_count",
        "workers.shutdown_timeout",
        "monitoring.stats_interval",
        "monitoring.health_check_interval",
    }
    assert load_settings(StandaloneSettings, file).settings.slots == 5


def test_an_unknown_key_inside_a_section_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "queue.yaml", "queue:\n  retry:\n    max_retrys: 3\n")
    assert refused(MasterSettings, file).hint == "did you mean queue.retry.max_retries?"


@pytest.mark.parametrize("cls", [MasterSettings, StandaloneSettings, WorkerSettings, ClientSettings])
def test_the_placeholder_key_is_refused(tmp_path: Path, cls: type[Settings]) -> None:
    error = refused(cls, write(tmp_path / "m.json", {"api_key": "your-secure-api-key-here"}))
    assert error.setting == "api_key"
    assert error.hint is not None and "token create" in error.hint


def test_listed_alternatives_are_refused_with_a_hint(tmp_path: Path) -> None:
    for block in ({"mode": "master|worker"}, {"load_balance_strategy": "least_tasks|round_robin"}):
        error = refused(MasterSettings, write(tmp_path / "m.json", block))
        assert error.hint == "the documentation lists the alternatives: choose one"


def test_two_names_for_one_setting_are_one_too_many(tmp_path: Path) -> None:
    error = refused(MasterSettings, write(tmp_path / "m.json", {"task_timeout": 1, "task_timeout_s": 2}))
    assert "is given twice" in str(error)
    assert "m.json: task_timeout" in str(error)


def test_a_file_may_say_its_mode(tmp_path: Path) -> None:
    file = write(tmp_path / "m.json", {"mode": "worker"})
    assert load_mode(file, {}, None) == "worker"
    assert load_mode(file, {"CRAWLFLEET_MODE": "master"}, None) == "master"
    assert load_mode(file, {"CRAWLFLEET_MODE": "master"}, "standalone") == "standalone"
    assert load_mode(None, {}, None) is None
    with pytest.raises(BadSetting, match="--mode"):
        load_mode(None, {}, "both")
