"""`crawlfleet log-level`: how much masters and nodes write into their logs, changed while they run."""

from __future__ import annotations

from typing import Annotated

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.observe.log_level import parse_level

app = typer.Typer(no_args_is_help=True)

OnlyThis = Annotated[
    bool, typer.Option("--this-master", help="Of the master that is called alone, until it ends; not of all masters.")
]
Nodes = Annotated[bool, typer.Option("--nodes", help="Of the nodes of a cluster instead of the masters.")]
Cluster = Annotated[str, typer.Option("--cluster", help="With --nodes: which cluster.")]


@api_command(app, "show", "crawlfleet log-level show", "crawlfleet log-level show --url http://10.0.0.2:8000 --json")
def show_level(call: Call) -> None:
    """Show the log level of the master that is called, and what it comes from."""
    level = call.client.log_level()
    if call.out.is_json:
        call.out.print_json(level)
        return
    rows = [
        ("this master", level.own),
        ("all masters", level.masters),
        ("at its start", level.started_with),
        ("in effect", level.level),
    ]
    call.out.print_table(("SET FOR", "LEVEL"), rows)


@api_command(
    app,
    "set",
    "crawlfleet log-level set debug",
    "crawlfleet log-level set debug --this-master --url http://10.0.0.2:8000",
    "crawlfleet log-level set warning --nodes --cluster eu",
)
def set_level(
    call: Call,
    level: Annotated[
        str, typer.Argument(help="debug, info, warning, error or critical; capitals too.", show_default=False)
    ],
    this_master: OnlyThis = False,
    nodes: Nodes = False,
    cluster: Cluster = "default",
) -> None:
    """Change the log level of all masters, of one master, or of the nodes of a cluster. No process is restarted."""
    try:
        word = parse_level(level)
    except ValueError as exc:
        usage_error(f"{level!r} is not {exc}", "crawlfleet log-level set debug")
    _change_level(call, word, this_master, nodes, cluster)


@api_command(
    app,
    "reset",
    "crawlfleet log-level reset",
    "crawlfleet log-level reset --this-master",
    "crawlfleet log-level reset --nodes",
)
def reset_level(call: Call, this_master: OnlyThis = False, nodes: Nodes = False, cluster: Cluster = "default") -> None:
    """Go back to the level that the processes were started with."""
    _change_level(call, None, this_master, nodes, cluster)


def _change_level(call: Call, level: str | None, this_master: bool, nodes: bool, cluster: str) -> None:
    if this_master and nodes:
        usage_error("--this-master and --nodes exclude each other", "crawlfleet log-level set debug --nodes")
    if cluster != "default" and not nodes:
        usage_error("--cluster goes with --nodes: masters belong to no cluster", "crawlfleet log-level set debug")
    if this_master:
        view = call.client.set_log_level(level)
        call.out.print_answer(view, f"{view.master}: {view.level}")
        return
    name = "log_level_nodes" if nodes else "log_level_masters"
    current = call.client.config(cluster)
    values = {key: value for key, value in current.values.items() if key != name}
    if level is not None:
        values[name] = level
    # Another user's change between the look and ours is not undone: the master refuses it by the version.
    done = call.client.put_config(values, cluster, expected_version=current.version)
    subject = f"nodes of cluster {cluster}" if nodes else "all masters"
    call.out.print_answer(done, f"{subject}: {level or 'the level they were started with'}, within seconds")
