"""`crawlfleet config`: the settings of a process on this machine, and the run-time configuration of a cluster."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli.command import Call, JsonOption, api_command, command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.output import Output, shown
from crawlfleet.cli.processes.process_options import ConfigOption, config_file
from crawlfleet.cli.values import assigned

if TYPE_CHECKING:
    from crawlfleet.settings.loading import Loaded

app = typer.Typer(no_args_is_help=True)

ClusterOption = Annotated[str, typer.Option("--cluster", help="Which cluster.")]


@command(
    app,
    "show",
    "crawlfleet config show",
    "crawlfleet config show --mode worker --config worker.toml",
    "CRAWLFLEET_PORT=9000 crawlfleet config show --json",
)
def show(
    mode: Annotated[
        str | None, typer.Option("--mode", help="master (if not given), worker, standalone or client.")
    ] = None,
    config: ConfigOption = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="As it would be given to that process.")] = None,
    json: JsonOption = False,
) -> None:
    """Show every setting a process would start with, and where each value comes from. Secrets are not shown."""
    from crawlfleet.settings.loading import CLASSES, load, load_mode

    file = config_file(config)
    chosen = mode if mode == "client" else load_mode(file, os.environ, mode) or "master"
    cls = next(cls for cls in CLASSES if cls.section == chosen)
    loaded = load(cls, file, os.environ, {"--data-dir": data_dir}, is_for_show=True)
    out = Output(is_json=json)
    if out.is_json:
        out.json(_as_json(chosen, loaded))
        return
    out.table(
        ("SETTING", "VALUE", "FROM"),
        [(name, shown(value), str(source)) for name, value, source in loaded.rows()],
        prose=("VALUE", "FROM"),
    )
    for left in loaded.ignored:
        out.text(f"ignored: {left.key} = {shown(left.value)} (from {left.source}): {left.reason}")


def _as_json(mode: str, loaded: Loaded[Any]) -> dict[str, Any]:
    return {
        "mode": mode,
        "settings": {
            name: {"value": value, "source": source.kind, "from": str(source)} for name, value, source in loaded.rows()
        },
        "ignored": [
            {"key": left.key, "value": left.value, "from": str(left.source), "reason": left.reason}
            for left in loaded.ignored
        ],
    }


@api_command(app, "get", "crawlfleet config get", "crawlfleet config get --cluster eu --json")
def get(call: Call, cluster: ClusterOption = "default") -> None:
    """Show the run-time configuration of a cluster: what was set, and what applies with the defaults."""
    found = call.client.config(cluster)
    if call.out.is_json:
        call.out.json(found)
        return
    rows = [(name, value, "set" if name in found.values else "default") for name, value in found.effective.items()]
    call.out.table(("NAME", "VALUE", "FROM"), rows, prose=("VALUE",))
    by = f", changed by {found.changed_by} at {shown(found.changed_at)}" if found.changed_by else ""
    call.out.note(f"version {found.version}{by}")


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
    changes = assigned(values or [], "VALUES")
    if not changes and not unset:
        usage_error("name what to set or to unset", "crawlfleet config get lists what there is")
    have = call.client.config(cluster)
    want = {name: value for name, value in {**have.values, **changes}.items() if name not in (unset or [])}
    # Somebody else's change between the look and ours is not undone: the master refuses it by the version.
    done = call.client.put_config(want, cluster, expected_version=have.version)
    call.out.answer(done, f"cluster {done.cluster}: version {done.version}")


@api_command(app, "history", "crawlfleet config history", "crawlfleet config history --cluster eu --json")
def history(call: Call, cluster: ClusterOption = "default") -> None:
    """List the versions of a cluster's run-time configuration, newest first: who changed what, and when."""
    versions = list(call.client.config_history(cluster))
    before = {later.version: earlier.values for later, earlier in pairwise(versions)}
    call.out.listing(
        "versions",
        versions,
        ("VERSION", "AT", "BY", "CHANGES"),
        lambda one: (one.version, one.changed_at, one.changed_by, _changes(before.get(one.version, {}), one.values)),
        empty="nothing was set yet",
        prose=("CHANGES",),
        drop=("BY",),
    )


def _changes(old: dict[str, Any], new: dict[str, Any]) -> str:
    """`strategy=round_robin, max_retries unset`"""
    said = [f"{name}={shown(value)}" for name, value in new.items() if name not in old or old[name] != value]
    return ", ".join(said + [f"{name} unset" for name in old if name not in new])
