"""`crawlfleet master`: one of any number of equal masters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crawlfleet.cli.command import local_command
from crawlfleet.cli.processes import process_options


def add_to(app: typer.Typer) -> None:
    local_command(
        app,
        "master",
        "crawlfleet master --host 0.0.0.0 --port 8000 --data-dir /var/lib/crawlfleet",
        "crawlfleet master --store postgresql://fleet@db/fleet --broker redis://cache:6379/0 --results s3://fleet/results",
        "crawlfleet master --config master.toml",
    )(master_command)


def master_command(
    host: process_options.HostOption = None,
    port: process_options.PortOption = None,
    data_dir: process_options.DataDirOption = None,
    store: Annotated[
        str | None,
        typer.Option("--store", help="sqlite:///FILE or postgresql://...; a file in the data dir if not given."),
    ] = None,
    broker: Annotated[str | None, typer.Option("--broker", help="memory: (if not given) or redis://...")] = None,
    results: process_options.ResultsOption = None,
    name: Annotated[str | None, typer.Option("--name", help="The name of this master.")] = None,
    advertise_url: Annotated[
        str | None,
        typer.Option("--advertise-url", help="The address under which nodes reach it; passed on to all nodes."),
    ] = None,
    allow_host: process_options.AllowHostOption = None,
    allowed_network: Annotated[
        list[str] | None,
        typer.Option("--allowed-network", help="An address range that may call, such as 10.0.0.0/8. May be repeated."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="A certificate (PEM), to speak HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="The key of the certificate (PEM).")] = None,
    config: process_options.ConfigOption = None,
    log_level: process_options.LogLevelOption = None,
    log_file: process_options.LogFileOption = None,
    json: process_options.JsonLogOption = False,
) -> None:
    """Start a master: the API, the queue and the scheduling, without agents of its own.

    When it creates the installation it writes DATA_DIR/admin.token. A second master needs only the same store,
    and a broker and a place for results that both share.
    """
    from crawlfleet.settings.master import MasterSettings

    flags = {
        "--host": host,
        "--port": port,
        "--data-dir": data_dir,
        "--store": store,
        "--broker": broker,
        "--results": results,
        "--name": name,
        "--advertise-url": advertise_url,
        "--allow-host": process_options.join_values(allow_host),
        "--allowed-network": process_options.join_values(allowed_network),
        "--tls-cert": tls_cert,
        "--tls-key": tls_key,
        "--log-level": log_level,
        "--log-file": log_file,
        "log_format": process_options.log_format(json),
    }
    process_options.start_master(process_options.load_settings(MasterSettings, config, flags).settings)
