"""`crawlfleet worker`: an agent on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crawlfleet.cli.command import local_command
from crawlfleet.cli.processes import process_options


def add_to(app: typer.Typer) -> None:
    local_command(
        app,
        "worker",
        "crawlfleet worker --master http://10.0.0.1:8000 --enrol-token TOKEN",
        "crawlfleet worker --master http://a:8000,http://b:8000 --device-id worker-001 --region us --slots 16",
        "crawlfleet worker --config worker.toml --executors my_crawlers --capability proxy_rotation=1",
        "crawlfleet worker --config worker.toml --resource cpu=2 --resource memory_mb=4096 --weight 2",
    )(worker_command)


def worker_command(
    master: Annotated[
        list[str] | None,
        typer.Option("--master", help="The address of a master. May be repeated, or list several with commas."),
    ] = None,
    enrol_token: Annotated[
        str | None,
        typer.Option("--enrol-token", help="The token to join with: crawlfleet token create --role enrol makes one."),
    ] = None,
    enrol_token_file: Annotated[
        Path | None, typer.Option("--enrol-token-file", help="A file with that token, unseen by other users.")
    ] = None,
    executors: process_options.ExecutorsOption = None,
    device_id: Annotated[
        str | None, typer.Option("--device-id", help="A handle you choose: the same handle is the same node.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", "--device-name", help="The name people see.")] = None,
    description: Annotated[str | None, typer.Option("--description", help="A text for people.")] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", help="A port that people know the node by; the agent listens nowhere."),
    ] = None,
    region: Annotated[str | None, typer.Option("--region", help="Where the node stands, such as us.")] = None,
    egress_address: Annotated[
        str | None, typer.Option("--egress-address", help="The address that sites see, if masters see another one.")
    ] = None,
    node_type: Annotated[str | None, typer.Option("--node-type", help="A kind of node tasks may ask for.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="The cluster to join.")] = None,
    capability: Annotated[
        list[str] | None,
        typer.Option("--capability", help="name=value: what the node can do. May be repeated.", metavar="NAME=VALUE"),
    ] = None,
    slots: Annotated[int | None, typer.Option("--slots", help="Tasks at a time; one a processor if not given.")] = None,
    weight: Annotated[
        float | None, typer.Option("--weight", help="Its share of tasks by the strategy weighted; 1 if not given.")
    ] = None,
    resource: Annotated[
        list[str] | None,
        typer.Option(
            "--resource",
            help="name=amount: what tasks may reserve, if not all the machine has. May be repeated.",
            metavar="NAME=AMOUNT",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", help="Where files are kept; ~/.local/share/crawlfleet/worker if not given."),
    ] = None,
    allow_host: process_options.AllowHostOption = None,
    proxies_file: process_options.ProxiesFileOption = None,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", help="Certificates (PEM) to trust.")] = None,
    memory_limit_mb: Annotated[
        int | None, typer.Option("--memory-limit-mb", help="Memory one execution of your executors may take.")
    ] = None,
    config: process_options.ConfigOption = None,
    log_level: process_options.LogLevelOption = None,
    log_file: process_options.LogFileOption = None,
    json: process_options.JsonLogOption = False,
) -> None:
    """Start an agent: it joins the masters and runs their tasks. SIGTERM lets running tasks end first.

    The token is needed once: the node keeps its own id and secret in the data dir and comes back as itself.
    """
    from crawlfleet.settings.worker import WorkerSettings

    flags = {
        "--master": process_options.join_values(master),
        "--enrol-token": enrol_token,
        "--enrol-token-file": enrol_token_file,
        "--executors": process_options.join_values(executors),
        "--device-id": device_id,
        "--name": name,
        "--description": description,
        "--port": port,
        "--region": region,
        "--egress-address": egress_address,
        "--node-type": node_type,
        "--cluster": cluster,
        "--capability": capability,
        "--slots": slots,
        "--weight": weight,
        "--resource": resource,
        "--data-dir": data_dir,
        "--allow-host": process_options.join_values(allow_host),
        "--proxies-file": proxies_file,
        "--ca-file": ca_file,
        "--memory-limit-mb": memory_limit_mb,
        "--log-level": log_level,
        "--log-file": log_file,
        "log_format": process_options.log_format(json),
    }
    process_options.start_worker(process_options.load_settings(WorkerSettings, config, flags).settings)
