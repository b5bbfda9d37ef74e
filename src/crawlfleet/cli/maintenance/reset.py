"""`crawlfleet reset`: remove an installation and everything in it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from crawlfleet.cli.command import JsonOption, local_command
from crawlfleet.cli.exit_codes import Complaint, print_to_stderr, usage_error
from crawlfleet.cli.maintenance.installation_options import (
    DataDirOption,
    StoreOption,
    load_installation,
    run_until_signal,
)
from crawlfleet.cli.output import Output
from crawlfleet.cli.processes.process_options import ConfigOption, ResultsOption


def add_to(app: typer.Typer) -> None:
    local_command(
        app,
        "reset",
        "crawlfleet reset --data-dir ./fleet",
        "crawlfleet reset --data-dir ./fleet --yes fleet",
        "crawlfleet reset --store postgresql://fleet@db/fleet --yes fleet --json",
    )(reset_command)


def reset_command(
    yes: Annotated[
        str | None,
        typer.Option("--yes", metavar="NAME", help="The installation's name, instead of being asked for it."),
    ] = None,
    data_dir: DataDirOption = None,
    store: StoreOption = None,
    results: ResultsOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Remove an installation: database, results, tokens, nodes. There is no way back but a backup.

    You are asked for its name: that of the data folder, or of the PostgreSQL database. Refused while a master runs.
    """
    from crawlfleet.bootstrap.maintenance.reset import describe_installation, installation_name, reset_installation

    settings = load_installation(config, data_dir, store, results)
    facts = run_until_signal(describe_installation(settings))
    name, total = installation_name(settings), sum(facts.tasks.values())
    if yes is None:
        if json or not sys.stdin.isatty():
            usage_error(f"--yes: needed without a terminal; the name is {name}", f"crawlfleet reset --yes {name} ...")
        print_to_stderr(
            f"This removes the installation {name} ({total:,} tasks) and its results in {settings.results}."
        )
        yes = typer.prompt("Type its name to go on", err=True)
    if yes != name:
        raise Complaint(f"the name is {name}, not {yes}: nothing was removed")
    again = "the installation is half removed: run the command again"
    removed = run_until_signal(reset_installation(settings), on_interrupt=again)
    Output(is_json=json).print_answer(
        {"name": name, "installation": removed.installation, "tasks": removed.tasks},
        f"{name}: removed, with {total:,} tasks and their results",
    )
