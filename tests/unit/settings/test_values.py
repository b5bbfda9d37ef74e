"""Each kind of value, good and bad, with its source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crawlfleet.bootstrap.master_settings import master_options
from crawlfleet.model.requirement import STRATEGIES
from crawlfleet.network.address_guard import parse_allowed_entry
from crawlfleet.scheduling.placement.strategies import BUILT_IN
from crawlfleet.settings.client import ClientSettings
from crawlfleet.settings.loading import CLASSES, load_settings
from crawlfleet.settings.master import MasterSettings, StandaloneSettings
from crawlfleet.settings.provenance import BadSetting
from crawlfleet.settings.worker import WorkerSettings

MASTER = "http://10.0.0.1:8000"


def refused(cls: type[Any], **flags: object) -> BadSetting:
    with pytest.raises(BadSetting) as caught:
        load_settings(cls, flags=flags)
    return caught.value


def test_a_master_starts_with_nothing_set() -> None:
    settings = load_settings(MasterSettings).settings
    assert (settings.host, settings.port, settings.broker) == ("127.0.0.1", 8000, "memory:")
    assert settings.data_dir == Path.home() / ".local/share/crawlfleet"
    assert settings.store == f"sqlite:///{settings.data_dir}/crawlfleet.db"
    assert settings.max_waiting == settings.max_waiting_per_project == 5_000_000


def test_the_store_follows_the_data_dir(tmp_path: Path) -> None:
    settings = load_settings(MasterSettings, flags={"--data-dir": tmp_path}).settings
    assert settings.store == f"sqlite:///{tmp_path}/crawlfleet.db"


def test_a_folder_may_start_with_a_tilde() -> None:
    assert (
        load_settings(MasterSettings, env={"CRAWLFLEET_DATA_DIR": "~/fleet"}).settings.data_dir == Path.home() / "fleet"
    )


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--port", 65_536, "65535"),
        ("--port", "eight", "a whole number"),
        ("--port", True, "true is not a number"),
        ("--host", "http://here", "not a host name"),
        ("--store", "mysql://db", "neither sqlite:///FILE nor postgresql://"),
        ("--store", "sqlite:///", "neither"),
        ("--broker", "amqp://q", "neither memory: nor redis://"),
        ("--allowed-network", "10.0.0.0/40", "not an address range"),
        ("--allow-host", "http://shop/", "not a host name"),
        ("--strategy", "best", "least_loaded"),
        ("--max-retries", -1, "at least 0"),
        ("--max-retries", 101, "at most 100"),
        ("--task-timeout-s", 0, "at least 1"),
        ("--max-waiting", 0, "at least 1"),
        ("--log-level", "loud", "debug"),
        ("--retain-tasks-days", 0, "more than 0"),
        ("--name", "", "must not be empty"),
        ("--tls-cert", "/nowhere.pem", "belong together"),
    ],
)
def test_a_wrong_value_of_a_master_is_refused_by_name(flag: str, value: object, said: str) -> None:
    error = refused(MasterSettings, **{flag: value})
    assert said in str(error)
    assert f"(from {flag})" in str(error)
    assert error.setting in MasterSettings.model_fields


def test_a_certificate_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("")
    error = refused(MasterSettings, tls_cert=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem")
    assert error.setting == "tls_cert"
    assert "there is no file" in str(error)


def test_a_device_is_not_lost_before_its_next_heartbeat() -> None:
    error = refused(MasterSettings, heartbeat_interval_s=60, device_timeout_s=60)
    assert error.setting == "device_timeout_s"


def test_all_complaints_are_told_at_once() -> None:
    error = refused(MasterSettings, port=-1, strategy="best", host="a b")
    assert error.setting == "host"
    assert all(word in str(error) for word in ("host:", "port:", "strategy:"))
    assert "store:" not in str(error)


@pytest.mark.parametrize(("days", "kept_ms"), [(0, None), (1, 86_400_000), (90, 90 * 86_400_000)])
def test_products_that_are_gone_may_be_kept_for_ever(days: int, kept_ms: int | None) -> None:
    settings = load_settings(MasterSettings, flags={"retain_gone_products_days": days}).settings
    assert master_options(settings).retention.gone_products_ms == kept_ms
    assert refused(MasterSettings, retain_gone_products_days=-1).setting == "retain_gone_products_days"


def test_lists_may_be_written_with_commas() -> None:
    env = {"CRAWLFLEET_ALLOW_HOSTS": "Shop.local, 127.0.0.1 ,", "CRAWLFLEET_ALLOWED_NETWORKS": "10.1.2.3/8,::1"}
    settings = load_settings(MasterSettings, env=env).settings
    assert settings.allow_hosts == ("shop.local", "127.0.0.1")
    assert settings.allowed_networks == ("10.0.0.0/8", "::1/128")


def test_hosts_to_crawl_are_read_alike_everywhere() -> None:
    said = "Bücher.example,10.1.2.3/8,127.0.0.1:8080,[::1]:80,::1"
    read = ("xn--bcher-kva.example", "10.0.0.0/8", "127.0.0.1:8080", "[::1]:80", "::1")
    assert load_settings(MasterSettings, flags={"allow_hosts": said}).settings.allow_hosts == read
    assert (
        load_settings(WorkerSettings, flags={"allow_hosts": said, "masters": "http://a"}).settings.allow_hosts == read
    )
    for wrong in ("http://shop", "shop:0", "shop:70000", "a b", "10.0.0.0/40", "-", "x" * 300):
        assert refused(MasterSettings, allow_hosts=wrong).setting == "allow_hosts"
    for one in read:
        assert parse_allowed_entry(one).port == (8080 if "8080" in one else 80 if one.endswith("]:80") else 0)


def test_every_strategy_can_be_set_and_no_other() -> None:
    for name in BUILT_IN:
        assert load_settings(MasterSettings, flags={"strategy": name}).settings.strategy == name
    assert set(STRATEGIES) == set(BUILT_IN)
    assert "geo_location" in str(refused(MasterSettings, strategy="best"))


def test_standalone_is_a_master_with_agents() -> None:
    settings = load_settings(
        StandaloneSettings, flags={"--nodes": 3, "--slots": "8", "--executors": "mine.crawlers"}
    ).settings
    assert isinstance(settings, MasterSettings)
    assert (settings.nodes, settings.slots, settings.executors) == (3, 8, ("mine.crawlers",))
    assert refused(StandaloneSettings, nodes=-1).setting == "nodes"


def test_a_worker_needs_a_master() -> None:
    error = refused(WorkerSettings)
    assert error.setting == "masters"
    assert error.hint is not None and "--master" in error.hint
    assert refused(WorkerSettings, masters=",").setting == "masters"


def test_a_worker_has_what_its_flags_say() -> None:
    flags = {
        "--master": "http://a:1,https://b:2/",
        "--capability": ["javascript_rendering=1", 'content_types=["html"]', "x=y"],
        "--weight": 2.5,
        "--resource": ["cpu_cores=2", "memory_gb=1", "licences=3"],
        "--slots": 7,
        "--region": "us",
        "--device-id": "worker-001",
        "--enrol-token": "ab" * 32,
        "--description": "in the cellar",
        "--port": 8081,
    }
    settings = load_settings(WorkerSettings, flags=flags).settings
    assert settings.masters == ("http://a:1", "https://b:2")
    assert settings.capabilities == {"javascript_rendering": 1, "content_types": ["html"], "x": "y"}
    assert settings.resources == {"cpu": 2, "memory_mb": 1024, "licences": 3}
    assert settings.weight == 2.5
    assert (settings.description, settings.port) == ("in the cellar", 8081)
    assert settings.read_enrol_token() == "ab" * 32
    assert "abab" not in repr(settings)


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--master", "10.0.0.1:8000", "not an address"),
        ("--master", "http://", "not an address"),
        ("--master", "http://h:99999", "not an address"),
        ("--capability", ["proxy"], "name=value"),
        ("--capability", ["a=[1]"], "a capability is"),
        ("--resource", ["cpu"], "name=value"),
        ("--resource", ["cpu=-1", "memory_mb=1"], "0 or more"),
        ("--resource", ["cpu=true", "memory_mb=1"], "cpu: an amount is a number"),
        ("--resource", ["gpu=Infinity"], "gpu: an amount is a number"),
        ("--weight", 0, "more than 0"),
        ("--port", 65_536, "at most 65535"),
        ("--slots", 0, "at least 1"),
        ("--executors", "my-module", "not the name of a Python module"),
        ("--device-id", "", "must not be empty"),
        ("--enrol-token", " ", "is not a token"),
        ("--enrol-token", "your-secure-api-key-here", "placeholder"),
        ("--memory-limit-mb", 1, "at least 16"),
    ],
)
def test_a_wrong_value_of_a_worker_is_refused_by_name(flag: str, value: object, said: str) -> None:
    error = refused(WorkerSettings, **{"--master": MASTER, flag: value})
    assert said in str(error)
    assert f"(from {flag})" in str(error)


def test_a_worker_that_offers_a_part_of_its_machine_says_how_much_of_both() -> None:
    error = refused(WorkerSettings, **{"--master": MASTER, "--resource": ["cpu=2"]})
    assert "cpu and memory_mb belong together" in str(error)


def test_a_token_is_never_part_of_the_message() -> None:
    error = refused(WorkerSettings, masters=MASTER, enrol_token="sécret-word")
    assert "cret-word" not in str(error)


def test_an_enrolment_token_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "enrol.token"
    assert refused(WorkerSettings, masters=MASTER, enrol_token_file=file).setting == "enrol_token_file"
    file.write_text("cd" * 32 + "\n")
    settings = load_settings(WorkerSettings, flags={"masters": MASTER, "enrol_token_file": file}).settings
    assert settings.read_enrol_token() == "cd" * 32
    assert "exclude each other" in str(refused(WorkerSettings, masters=MASTER, enrol_token_file=file, enrol_token="x"))
    file.write_text("\n")
    with pytest.raises(BadSetting, match="holds no token"):
        settings.read_enrol_token()


def test_a_client_takes_address_and_token_from_the_environment() -> None:
    env = {"CRAWLFLEET_URL": "http://h:1/", "CRAWLFLEET_TOKEN": "t"}
    settings = load_settings(ClientSettings, env=env).settings
    assert (settings.url, settings.token) == ("http://h:1", "t")
    assert refused(ClientSettings, url="h:1").setting == "url"
    assert refused(ClientSettings, ca_file="/nowhere.pem").setting == "ca_file"


def test_every_setting_says_what_it_is() -> None:
    for cls in CLASSES:
        for name, field in cls.model_fields.items():
            assert field.description, name
            assert field.default_factory is None or cls.shown_default(name), name


def test_results_are_a_folder_or_a_bucket(tmp_path: Path) -> None:
    assert MasterSettings(data_dir=tmp_path).results == f"{tmp_path}/results"
    for given, taken in {
        "~/kept": str(Path.home() / "kept"),
        "kept": str(Path.cwd() / "kept"),
        "s3://bucket": "s3://bucket",
        "s3://bucket/some/where/": "s3://bucket/some/where",
    }.items():
        assert load_settings(MasterSettings, env={"CRAWLFLEET_RESULTS": given}).settings.results == taken


@pytest.mark.parametrize(
    "given", ["gs://bucket", "s3://", "s3://B", "s3://bucket/../x", "s3://key@bucket", "s3://b//c"]
)
def test_other_places_for_results_are_refused_by_name(given: str) -> None:
    said = str(refused(MasterSettings, **{"--results": given}))
    assert "--results" in said
    assert "neither a folder nor s3://BUCKET/PREFIX" in said


@pytest.mark.parametrize("cls", [MasterSettings, StandaloneSettings, WorkerSettings])
def test_the_five_log_levels_and_a_log_file(cls: type[Any], tmp_path: Path) -> None:
    more = {"--master": MASTER} if cls is WorkerSettings else {}
    for word in ("debug", "INFO", "Warning", "error", "CRITICAL"):
        assert load_settings(cls, flags={"--log-level": word, **more}).settings.log_level == word.lower()
    error = refused(cls, **{"--log-level": "loud", **more})
    assert str(error).startswith("log_level: 'loud' is not one of debug, info, warning, error, critical")
    # A missing folder does not stop a process: lines go to standard error until it is there.
    path = tmp_path / "not-there" / "master.log"
    assert load_settings(cls, flags={"--log-file": path, **more}).settings.log_file == path
    assert "is a folder" in str(refused(cls, **{"--log-file": tmp_path, **more}))


def test_a_wrong_address_is_quoted_without_its_password() -> None:
    error = refused(MasterSettings, **{"--store": "mysql://ann:hunter2@db/x"})
    assert "mysql://ann:***@db/x" in str(error)
