"""`crawlfleet backup` and `crawlfleet restore`: an installation in one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli.command import JsonOption, local_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.maintenance.installation_options import (
    DataDirOption,
    ProgressLine,
    StoreOption,
    display_bytes,
    load_installation,
    run_until_signal,
)
from crawlfleet.cli.output import Output
from crawlfleet.cli.processes.process_options import ConfigOption, ResultsOption

if TYPE_CHECKING:
    from crawlfleet.bootstrap.maintenance.archive import BackupManifest


def add_to(app: typer.Typer) -> None:
    local_command(
        app,
        "backup",
        "crawlfleet backup",
        "crawlfleet backup /backup --data-dir /var/lib/crawlfleet",
        "crawlfleet backup fleet.tar --store postgresql://fleet@db/fleet --results s3://fleet/results",
        "crawlfleet backup --verify fleet.tar",
    )(backup_command)
    local_command(
        app,
        "restore",
        "crawlfleet restore fleet.tar --data-dir /var/lib/crawlfleet",
        "crawlfleet restore fleet.tar --store postgresql://fleet@db/restored",
        "crawlfleet restore fleet.tar --replace",
    )(restore_command)


def backup_command(
    file: Annotated[
        Path | None, typer.Argument(help="A new file, or a folder for one named by its time.", show_default=False)
    ] = None,
    verify: Annotated[
        Path | None, typer.Option("--verify", metavar="FILE", help="Only check this backup: is it whole?")
    ] = None,
    data_dir: DataDirOption = None,
    store: StoreOption = None,
    results: ResultsOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Write a backup: the database as it is at one instant, then the results, with a hash of everything.

    Masters may work meanwhile. PostgreSQL needs pg_dump on this machine. The file holds the admin token: keep it safe.
    """
    out = Output(is_json=json)
    progress = ProgressLine(out)
    if verify is not None:
        if file is not None:
            usage_error("--verify FILE checks a backup that is there: leave the other file out")
        from crawlfleet.bootstrap.maintenance.restore import verify_backup

        try:
            manifest = run_until_signal(verify_backup(verify, progress.report))
        finally:
            progress.close()
        out.print_answer(
            {"file": str(verify), "is_whole": True, **_manifest_json(manifest)},
            f"{verify}: whole; {_manifest_sentence(manifest)}",
        )
        return
    from crawlfleet.bootstrap.maintenance.backup import backup_path, make_backup
    from crawlfleet.ports.clock import SystemClock

    settings = load_installation(config, data_dir, store, results)
    path = backup_path(file, SystemClock().now())
    try:
        finished = run_until_signal(make_backup(settings, path, progress.report))
    finally:
        progress.close()
    if not finished.is_recorded:
        out.print_note("note: the backup is whole, but the store was too busy to note its time")
    out.print_answer(
        {"file": str(path), "bytes": finished.size_bytes, **_manifest_json(finished.manifest)},
        f"{path}: {display_bytes(finished.size_bytes)}; {_manifest_sentence(finished.manifest)}",
    )


def restore_command(
    file: Annotated[Path, typer.Argument(help="A file that crawlfleet backup wrote.", show_default=False)],
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove the installation that is there, once the backup is unpacked.")
    ] = False,
    data_dir: DataDirOption = None,
    store: StoreOption = None,
    results: ResultsOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Restore a backup into a fresh data folder, or into an empty database, while no master runs.

    Everything is checked before anything changes. What was accepted after the backup is gone; what had not ended by
    then runs again.
    """
    from crawlfleet.bootstrap.maintenance.restore import restore_backup

    out = Output(is_json=json)
    progress = ProgressLine(out)
    settings = load_installation(config, data_dir, store, results)
    try:
        restored = run_until_signal(
            restore_backup(settings, file, progress.report, is_replacing=replace),
            on_interrupt="what was there before is there again",
        )
    finally:
        progress.close()
    manifest = restored.manifest
    out.print_answer(
        {"file": str(file), "data_dir": str(settings.data_dir), **_manifest_json(manifest)},
        f"restored; {_manifest_sentence(manifest)}",
    )
    if not out.is_json:
        out.print_note("next: start one master with the same options, then look at crawlfleet status")


def _manifest_json(manifest: BackupManifest) -> dict[str, Any]:
    from crawlfleet.model.instants import to_text

    return {
        "made_at": to_text(manifest.made_at),
        "version": manifest.version,
        "installation": manifest.installation,
        "store": manifest.store,
        "store_version": manifest.store_version,
        "revision": manifest.revision,
        "tasks": manifest.tasks,
        "tables": manifest.tables,
        "result_files": manifest.result_files,
        "result_bytes": manifest.result_bytes,
    }


def _manifest_sentence(manifest: BackupManifest) -> str:
    from crawlfleet.cli.output import trim_instants
    from crawlfleet.model.instants import to_text

    counts = ", ".join(f"{count:,} {word}" for word, count in manifest.tasks.items())
    total = sum(manifest.tasks.values())
    return (
        f"{manifest.store} of {trim_instants(to_text(manifest.made_at))} with {total:,} "
        f"{'task' if total == 1 else 'tasks'}"
        f"{f' ({counts})' if counts else ''} and {manifest.result_files:,} files of results "
        f"({display_bytes(manifest.result_bytes)})"
    )
