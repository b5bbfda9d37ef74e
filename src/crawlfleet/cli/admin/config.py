"""`crawlfleet config`: the settings of a process on this machine, and the run-time configuration of a cluster."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli.command import Call, JsonOption, api_command, local_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.output import Output, display_text
from crawlfleet.cli.processes.process_options import ConfigOption, config_file
from crawlfleet.cli.values import parse_pairs

if TYPE_CHECKING:
    from crawlfleet.settings.loading import Loaded

app = typer.Typer(no_args_is_help=True)

ClusterOption = Annotated[str, typer.Option("--cluster", help="Which cluster.")]


@local_command(
    app,
    "show",
    "crawlfleet config show",
    "crawlfleet config show --mode worker --config worker.toml",
    "CRAWLFLEET_PORT=9000 crawlfleet config show --json",
)
def show_settings(
    mode: Annotated[
        str | None, typer.Option("--mode", help="master (if not given), worker, standalone or client.")
    ] = None,
    config: ConfigOption = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="As it would be given to that process.")] = None,
    json: JsonOption = False,
) -> None:
    """Show every setting a process would start with, and where each value comes from. Secrets are not shown."""
    from crawlfleet.settings.loading import CLASSES, load_mode, load_settings

    file = config_file(config)
    chosen = mode if mode == "client" else load_mode(file, os.environ, mode) or "master"
    cls = next(cls for cls in CLASSES if cls.section == chosen)
    loaded = load_settings(cls, file, os.environ, {"--data-dir": data_dir}, is_for_show=True)
    out = Output(is_json=json)
    if out.is_json:
        out.print_json(_settings_json(chosen, loaded))
        return
    out.print_table(
        ("SETTING", "VALUE", "FROM"),
        [(name, display_text(value), str(source)) for name, value, source in loaded.setting_rows()],
        prose=("VALUE", "FROM"),
    )
    for left in loaded.ignored:
        out.print_text(f"ignored: {left.key} = {display_text(left.display_value)} (from {left.source}): {left.reason}")


def _settings_json(mode: str, loaded: Loaded[Any]) -> dict[str, Any]:
    return {
        "mode": mode,
        "settings": {
            name: {"value": value, "source": source.kind, "from": str(source)}
            for name, value, source in loaded.setting_rows()
        },
        "ignored": [
            {"key": left.key, "value": left.display_value, "from": str(left.source), "reason": left.reason}
            for left in loaded.ignored
        ],
    }


@api_command(app, "get", "crawlfleet config get", "crawlfleet config get --cluster eu --json")
def show_config(call: Call, cluster: ClusterOption = "default") -> None:
    """Show the run-time configuration of a cluster: what was set, and what applies with the defaults."""
    config = call.client.config(cluster)
    if call.out.is_json:
        call.out.print_json(config)
        return
    rows = [(name, value, "set" if name in config.values else "default") for name, value in config.effective.items()]
    call.out.print_table(("NAME", "VALUE", "FROM"), rows, prose=("VALUE",))
    by = f", changed by {config.changed_by} at {display_text(config.changed_at)}" if config.changed_by else ""
    call.out.print_note(f"version {config.version}{by}")


@api_command(
    app,
    "set",
    "crawlfleet config set strategy=round_robin",
    "crawlfleet config set --cluster eu max_retries=5 --unset strategy",
)
def set_values(
    call: Call,
    values: Annotated[list[str] | None, typer.Argument(help="NAME=VALUE; a value may be JSON.")] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", help="A name that has its default again. May be repeated.")
    ] = None,
    cluster: ClusterOption = "default",
) -> None:
    """Change the run-time configuration of a cluster. Nodes hear of it with their next sync."""
    changes = parse_pairs(values or [], "VALUES")
    if not changes and not unset:
        usage_error("name what to set or to unset", "crawlfleet config get lists what there is")
    current = call.client.config(cluster)
    wanted_values = {name: value for name, value in {**current.values, **changes}.items() if name not in (unset or [])}
    # Another user's change between the look and ours is not undone: the master refuses it by the version.
    done = call.client.put_config(wanted_values, cluster, expected_version=current.version)
    call.out.print_answer(done, f"cluster {done.cluster}: version {done.version}")


@api_command(app, "history", "crawlfleet config history", "crawlfleet config history --cluster eu --json")
def list_versions(call: Call, cluster: ClusterOption = "default") -> None:
    """List the versions of a cluster's run-time configuration, newest first: who changed what, and when."""
    versions = list(call.client.config_history(cluster))
    before = {later.version: earlier.values for later, earlier in pairwise(versions)}
    call.out.print_listing(
        "versions",
        versions,
        ("VERSION", "AT", "BY", "CHANGES"),
        lambda version: (
            version.version,
            version.changed_at,
            version.changed_by,
            _describe_changes(before.get(version.version, {}), version.values),
        ),
        empty="nothing was set yet",
        prose=("CHANGES",),
        drop=("BY",),
    )


def _describe_changes(old: dict[str, Any], new: dict[str, Any]) -> str:
    """`strategy=round_robin, max_retries unset`"""
    changes = [f"{name}={display_text(value)}" for name, value in new.items() if name not in old or old[name] != value]
    return ", ".join(changes + [f"{name} unset" for name in old if name not in new])
