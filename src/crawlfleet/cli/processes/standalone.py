"""`crawlfleet standalone`: an installation in one command."""

from __future__ import annotations

from typing import Annotated

import typer

from crawlfleet.cli.command import local_command
from crawlfleet.cli.processes import process_options


def add_to(app: typer.Typer) -> None:
    local_command(
        app,
        "standalone",
        "crawlfleet standalone",
        "crawlfleet standalone --data-dir ./fleet --port 8080 --nodes 2 --slots 8",
        "crawlfleet standalone --proxies-file proxies.txt",
    )(standalone_command)


def standalone_command(
    host: process_options.HostOption = None,
    port: process_options.PortOption = None,
    data_dir: process_options.DataDirOption = None,
    nodes: Annotated[int | None, typer.Option("--nodes", help="Agents to start; 1 if not given.")] = None,
    slots: Annotated[int | None, typer.Option("--slots", help="Tasks at a time per agent; 4 if not given.")] = None,
    allow_host: process_options.AllowHostOption = None,
    executors: process_options.ExecutorsOption = None,
    proxies_file: process_options.ProxiesFileOption = None,
    store: Annotated[str | None, typer.Option("--store", help="sqlite:///FILE or postgresql://...")] = None,
    results: process_options.ResultsOption = None,
    config: process_options.ConfigOption = None,
    log_level: process_options.LogLevelOption = None,
    log_file: process_options.LogFileOption = None,
    json: process_options.JsonLogOption = False,
) -> None:
    """Start a master and its agents on this machine, in one command.

    The address is printed and written to DATA_DIR/address; the token of a new installation to DATA_DIR/admin.token.
    Other machines may join with crawlfleet worker. Ctrl-C stops everything.
    """
    from crawlfleet.settings.master import StandaloneSettings

    flags = {
        "--host": host,
        "--port": port,
        "--data-dir": data_dir,
        "--nodes": nodes,
        "--slots": slots,
        "--allow-host": process_options.join_values(allow_host),
        "--executors": process_options.join_values(executors),
        "--store": store,
        "--proxies-file": proxies_file,
        "--results": results,
        "--log-level": log_level,
        "--log-file": log_file,
        "log_format": process_options.log_format(json),
    }
    process_options.start_standalone(process_options.load_settings(StandaloneSettings, config, flags).settings)
