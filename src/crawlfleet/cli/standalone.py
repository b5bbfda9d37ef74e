"""`crawlfleet standalone`: an installation in one command."""

from __future__ import annotations

from typing import Annotated

import typer

from crawlfleet.cli import starting
from crawlfleet.cli.command import command


def add_to(app: typer.Typer) -> None:
    command(
        app,
        "standalone",
        "crawlfleet standalone",
        "crawlfleet standalone --data-dir ./fleet --port 8080 --nodes 2 --slots 8",
        "crawlfleet standalone --proxies-file proxies.txt",
    )(standalone)


def standalone(
    host: starting.HostOption = None,
    port: starting.PortOption = None,
    data_dir: starting.DataDirOption = None,
    nodes: Annotated[int | None, typer.Option("--nodes", help="Agents to start; 1 if not given.")] = None,
    slots: Annotated[int | None, typer.Option("--slots", help="Tasks at a time per agent; 4 if not given.")] = None,
    allow_host: starting.AllowHostOption = None,
    executors: starting.ExecutorsOption = None,
    proxies_file: starting.ProxiesFileOption = None,
    store: Annotated[str | None, typer.Option("--store", help="sqlite:///FILE or postgresql://...")] = None,
    results: starting.ResultsOption = None,
    config: starting.ConfigOption = None,
    log_level: starting.LogLevelOption = None,
    json: starting.JsonLogOption = False,
) -> None:
    """Start a master and its agents on this machine, in one command.

    The address is printed and written to DATA_DIR/address; the token of a new installation to DATA_DIR/admin.token.
    Other machines may join with crawlfleet worker. Ctrl-C stops everything.
    """
    from crawlfleet.settings.master import StandaloneSettings

    flags = {
        "--host": host, "--port": port, "--data-dir": data_dir, "--nodes": nodes, "--slots": slots,
        "--allow-host": starting.joined(allow_host), "--executors": starting.joined(executors), "--store": store,
        "--proxies-file": proxies_file, "--results": results,
        "--log-level": log_level, "log_format": starting.log_format(json),
    }  # fmt: skip
    starting.start_standalone(starting.load_settings(StandaloneSettings, config, flags).settings)
