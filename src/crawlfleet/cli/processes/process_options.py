"""What the commands that start a process share: their options, and how settings become a running process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from crawlfleet.cli.exit_codes import ExitCode, print_to_stderr

if TYPE_CHECKING:
    from crawlfleet.bootstrap.worker import WorkerOptions
    from crawlfleet.settings.base import Settings
    from crawlfleet.settings.loading import Loaded
    from crawlfleet.settings.master import MasterSettings, StandaloneSettings
    from crawlfleet.settings.worker import WorkerSettings

    S = TypeVar("S", bound=Settings)

_ENV = "Every setting can also stand in a file or in CRAWLFLEET_ and its name: crawlfleet config show lists them."

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help=f"Settings in a TOML, YAML or JSON file (or CRAWLFLEET_CONFIG). {_ENV}"),
]
HostOption = Annotated[str | None, typer.Option("--host", help="The address to listen on; 127.0.0.1 if not given.")]
PortOption = Annotated[
    int | None, typer.Option("--port", help="The port to listen on; 8000 if not given, 0 for any free one.")
]
DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", help="Where files are kept; ~/.local/share/crawlfleet if not given.")
]
ResultsOption = Annotated[
    str | None,
    typer.Option("--results", help="Items and logs: a folder or s3://BUCKET/PREFIX; DATA_DIR/results if not given."),
]
AllowHostOption = Annotated[
    list[str] | None,
    typer.Option("--allow-host", help="A private or loopback host that crawls may visit. May be repeated."),
]
ExecutorsOption = Annotated[
    list[str] | None, typer.Option("--executors", help="A Python module with your executors. May be repeated.")
]
ProxiesFileOption = Annotated[
    Path | None, typer.Option("--proxies-file", help="Pools of proxies for crawls: NAME URL on each line.")
]
LogLevelOption = Annotated[
    str | None, typer.Option("--log-level", help="debug, info, warning, error or critical; info if not given.")
]
LogFileOption = Annotated[
    Path | None, typer.Option("--log-file", help="Append log lines to a file, which may be rotated at any time.")
]
JsonLogOption = Annotated[bool, typer.Option("--json", help="Log in JSON, one line an event.")]


def config_file(given: Path | None) -> Path | None:
    named = os.environ.get("CRAWLFLEET_CONFIG")
    return given or (Path(named) if named else None)


def load_settings(cls: type[S], file: Path | None, flags: Mapping[str, object]) -> Loaded[S]:
    """With a note for everything that was given and means nothing here."""
    from crawlfleet.settings.loading import load_settings

    loaded = load_settings(cls, config_file(file), os.environ, flags)
    for left in loaded.ignored:
        print_to_stderr(f"note: {left.key} is ignored: {left.reason} (from {left.source})")
    return loaded


def join_values(values: list[str] | None) -> str | None:
    """Repeated flags, each of which may list several."""
    return ",".join(values) if values else None


def log_format(is_json: bool) -> str | None:
    return "json" if is_json else None


def start_master(settings: MasterSettings) -> None:
    from crawlfleet.bootstrap.serve import run_master

    _exit_unless_ok(run_master(settings))


def start_standalone(settings: StandaloneSettings) -> None:
    from crawlfleet.bootstrap.standalone import run_standalone

    pools = _read_pools(settings.proxies_file)
    _exit_unless_ok(run_standalone(settings, settings.nodes, settings.slots, settings.executors, pools))


def worker_options(settings: WorkerSettings) -> WorkerOptions:
    from crawlfleet.bootstrap.worker import WorkerOptions

    return WorkerOptions(
        masters=list(settings.masters),
        enrol_token=settings.read_enrol_token(),
        executors=list(settings.executors),
        device_id=settings.device_id,
        name=settings.name,
        description=settings.description,
        port=settings.port,
        region=settings.region,
        egress_address=settings.egress_address,
        node_type=settings.node_type,
        cluster=settings.cluster,
        capabilities=settings.capabilities,
        slots=settings.slots,
        weight=settings.weight,
        resources=settings.resources,
        data_dir=settings.data_dir,
        allow_hosts=list(settings.allow_hosts),
        proxy_pools=_read_pools(settings.proxies_file),
        ca_file=settings.ca_file,
        memory_limit_mb=settings.memory_limit_mb,
        drain_s=settings.drain_s,
    )


def start_worker(settings: WorkerSettings) -> None:
    import uvloop

    from crawlfleet.bootstrap.worker import run_worker
    from crawlfleet.observe.logs import configure_logs

    options = worker_options(settings)
    configure_logs(settings.log_level, settings.log_format, settings.log_file)
    _exit_unless_ok(uvloop.run(run_worker(options)))


def start_workers(settings: WorkerSettings, count: int) -> None:
    from crawlfleet.bootstrap.worker_supervisor import run_workers

    _exit_unless_ok(
        run_workers(worker_options(settings), count, settings.log_level, settings.log_format, settings.log_file)
    )


def _read_pools(file: Path | None) -> dict[str, list[str]]:
    from crawlfleet.execution.process_state.proxy_pool import parse_pools
    from crawlfleet.settings.provenance import BadSetting, Source

    if file is None:
        return {}
    try:
        return parse_pools(file.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError) as exc:
        raise BadSetting("proxies_file", str(exc), Source("file", str(file))) from exc


def _exit_unless_ok(code: int) -> None:
    if code != ExitCode.OK:
        raise typer.Exit(code)
