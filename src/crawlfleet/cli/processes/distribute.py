"""`crawlfleet distribute --mode ...`: the three modes under the names of the distribution guide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli.admin.status import print_status
from crawlfleet.cli.command import Call, local_command
from crawlfleet.cli.exit_codes import print_to_stderr, usage_error
from crawlfleet.cli.output import Output
from crawlfleet.cli.processes import process_options

if TYPE_CHECKING:
    from crawlfleet.settings.base import Settings

DEFAULT_FILE = "config/distribution_{mode}.json"
"""Where `crawlfleet init` puts it; read when no file is named and it is there."""


def add_to(app: typer.Typer) -> None:
    local_command(
        app,
        "distribute",
        "crawlfleet distribute --mode standalone",
        "crawlfleet distribute --mode master --host 0.0.0.0 --port 8000",
        'crawlfleet distribute --mode worker --device-id worker-001 --device-name "Worker Node 1"',
        "crawlfleet distribute --mode master --config config/my_config.json",
        "crawlfleet distribute --status",
    )(run_mode)


def run_mode(
    mode: Annotated[str | None, typer.Option("--mode", help="master, worker or standalone.")] = None,
    status: Annotated[bool, typer.Option("--status", help="Show the state of the installation and leave.")] = False,
    host: process_options.HostOption = None,
    port: process_options.PortOption = None,
    device_id: Annotated[str | None, typer.Option("--device-id", help="A worker's handle.")] = None,
    device_name: Annotated[str | None, typer.Option("--device-name", help="The name people see.")] = None,
    master_url: Annotated[str | None, typer.Option("--master-url", help="A worker's master.")] = None,
    enrol_token: Annotated[str | None, typer.Option("--enrol-token", help="A worker's token to join with.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", help="Agents of a standalone installation.")] = None,
    slots: Annotated[int | None, typer.Option("--slots", help="Tasks at a time per agent.")] = None,
    data_dir: process_options.DataDirOption = None,
    config: process_options.ConfigOption = None,
    url: Annotated[str | None, typer.Option("--url", help="With --status: a master's address.")] = None,
    token: Annotated[str | None, typer.Option("--token", help="With --status: your token.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Log, or show the status, in JSON.")] = False,
) -> None:
    """Start a master, a worker or a standalone installation, or show the state of one.

    Without --config the file config/distribution_MODE.json is read, if it is there.
    """
    if status:
        _show_status(Call(Output(is_json=json), {"--url": url, "--token": token, "--data-dir": data_dir}))
        return
    flags: dict[str, object] = {
        "--host": host,
        "--port": port,
        "--device-id": device_id,
        "--device-name": device_name,
        "--master-url": master_url,
        "--enrol-token": enrol_token,
        "--nodes": nodes,
        "--slots": slots,
        "--data-dir": data_dir,
        "log_format": process_options.log_format(json),
    }
    _start_process(mode, config, flags)


def _show_status(call: Call) -> None:
    try:
        print_status(call)
    finally:
        call.close()


def _start_process(mode: str | None, config: Path | None, flags: dict[str, object]) -> None:
    import os

    from crawlfleet.settings.loading import flag_setting, load_mode

    file = process_options.config_file(config)
    mode = load_mode(file, os.environ, mode)
    if mode is None:
        usage_error("which mode?", "--mode standalone starts everything on this machine; --status shows the state")
    default_file = Path(DEFAULT_FILE.format(mode=mode))
    if file is None and default_file.is_file():
        print_to_stderr(f"note: settings from {default_file}")
        file = default_file
    cls, start = _settings_and_start(mode)
    for flag in [
        flag for flag, value in flags.items() if value is not None and flag_setting(flag) not in cls.model_fields
    ]:
        print_to_stderr(f"note: {flag} is ignored: it is no setting of a {mode}")
        del flags[flag]
    start(process_options.load_settings(cls, file, flags).settings)


def _settings_and_start(mode: str) -> tuple[type[Settings], Callable[[Any], None]]:
    from crawlfleet.settings.master import MasterSettings, StandaloneSettings
    from crawlfleet.settings.worker import WorkerSettings

    match mode:
        case "master":
            return MasterSettings, process_options.start_master
        case "worker":
            return WorkerSettings, process_options.start_worker
        case _:
            return StandaloneSettings, process_options.start_standalone
