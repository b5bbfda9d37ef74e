"""`crawlfleet start-workers`: many agents on this machine, below one process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crawlfleet.cli.command import local_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.processes import process_options

DEFAULT_COUNT = 5


def add_to(app: typer.Typer) -> None:
    local_command(
        app,
        "start-workers",
        "crawlfleet start-workers --count 5 --master http://10.0.0.1:8000 --enrol-token TOKEN",
        "crawlfleet start-workers --count 3 --slots 8 --config worker.toml",
    )(start_workers_command)


def start_workers_command(
    count: Annotated[int, typer.Option("--count", min=1, help="Agents to start.")] = DEFAULT_COUNT,
    master: Annotated[
        list[str] | None,
        typer.Option("--master", help="The address of a master. May be repeated, or list several with commas."),
    ] = None,
    enrol_token: Annotated[
        str | None,
        typer.Option("--enrol-token", help="To join with: crawlfleet token create --role enrol --uses COUNT."),
    ] = None,
    enrol_token_file: Annotated[
        Path | None, typer.Option("--enrol-token-file", help="A file with that token, unseen by other users.")
    ] = None,
    executors: process_options.ExecutorsOption = None,
    name: Annotated[str | None, typer.Option("--name", help="Their name; each gets -1, -2, ... behind it.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="The cluster to join.")] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", help="Tasks at a time of each; one a processor if not given.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", help="A folder with one for each; ~/.local/share/crawlfleet/worker if not given."),
    ] = None,
    allow_host: process_options.AllowHostOption = None,
    proxies_file: process_options.ProxiesFileOption = None,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", help="Certificates (PEM) to trust.")] = None,
    config: process_options.ConfigOption = None,
    log_level: process_options.LogLevelOption = None,
    log_file: process_options.LogFileOption = None,
    json: process_options.JsonLogOption = False,
) -> None:
    """Start several agents on this machine, below one process that starts again those that die.

    Ctrl-C lets running tasks end first; a second one hands them back at once, and a third one kills the agents.
    """
    from crawlfleet.settings.worker import WorkerSettings

    flags = {
        "--master": process_options.join_values(master),
        "--enrol-token": enrol_token,
        "--enrol-token-file": enrol_token_file,
        "--executors": process_options.join_values(executors),
        "--name": name,
        "--cluster": cluster,
        "--slots": slots,
        "--data-dir": data_dir,
        "--allow-host": process_options.join_values(allow_host),
        "--proxies-file": proxies_file,
        "--ca-file": ca_file,
        "--log-level": log_level,
        "--log-file": log_file,
        "log_format": process_options.log_format(json),
    }
    settings = process_options.load_settings(WorkerSettings, config, flags).settings
    if count > settings.max_workers:
        usage_error(
            f"--count: {count} is more than max_workers allows ({settings.max_workers})",
            "raise the setting max_workers (workers.max_count) where this machine has room for more",
        )
    process_options.start_workers(settings, count)
