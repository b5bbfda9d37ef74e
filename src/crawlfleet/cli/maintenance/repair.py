"""`crawlfleet repair`: counters, the ready index, results and the database; never the state of a task."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from crawlfleet.cli.command import Call, JsonOption, api_command, local_command
from crawlfleet.cli.exit_codes import ExitCode
from crawlfleet.cli.maintenance.installation_options import (
    DataDirOption,
    StoreOption,
    display_bytes,
    load_installation,
    run_until_signal,
)
from crawlfleet.cli.output import Output
from crawlfleet.cli.processes.process_options import ConfigOption

app = typer.Typer(no_args_is_help=True)

_NAMED = 20


@api_command(app, "counters", "crawlfleet repair counters", "crawlfleet repair counters --dry-run --json")
def repair_counters(
    call: Call, dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell the drift.")] = False
) -> None:
    """Count all tasks anew, tell where counters differ, and correct them. Slow with millions of tasks."""
    answer = call.client.repair_counters(apply=not dry_run)
    if call.out.is_json:
        call.out.print_json(answer)
    elif not answer.wrong_counters:
        call.out.print_sentence("counters: all agree with the rows")
    else:
        call.out.print_table(
            ("QUEUE", "PROJECT", "PRIORITY", "TYPE", "STATUS", "OFF BY"),
            [
                (drift.queue, drift.project_id, drift.priority, drift.task_type, drift.status, f"{-drift.missing:+,}")
                for drift in answer.counters[:_NAMED]
            ],
            drop=("PRIORITY", "TYPE"),
        )
        done = "corrected" if answer.applied else "not corrected: leave --dry-run out"
        call.out.print_sentence(f"counters: {answer.wrong_counters:,} wrong by {answer.drift:,} tasks in all; {done}")
    if dry_run and answer.wrong_counters:
        raise typer.Exit(ExitCode.FAILURE)


@api_command(app, "ready", "crawlfleet repair ready")
def repair_ready(call: Call) -> None:
    """Rebuild the ready index from the store. It holds only hints: nothing is lost, placement waits for a second."""
    answer = call.client.repair_ready()
    call.out.print_answer(
        answer,
        f"ready: {answer.windows:,} windows dropped; the leader fills those of {answer.lanes:,} lanes from the store",
    )


@api_command(app, "results", "crawlfleet repair results", "crawlfleet repair results --json")
def check_results(call: Call) -> None:
    """List chunks that completed tasks should have and that are missing, and count files that belong to no task.

    A missing chunk cannot be made again: crawlfleet task retry runs its task anew, a backup may have it.
    """
    looked_at, missing = 0, []
    page = call.client.check_results()
    while True:
        looked_at += page.looked_at
        missing += page.missing
        if page.next_cursor is None:
            break
        page = call.client.check_results(page.next_cursor)
    orphans = _count_orphans(call)
    if call.out.is_json:
        call.out.print_json({"looked_at": looked_at, "missing": missing, "orphans": orphans})
    else:
        if missing:
            call.out.print_table(
                ("TASK", "EXECUTION", "KIND", "EXPECTED", "STORED"),
                [
                    (chunks.task_id, chunks.execution_id, chunks.kind, chunks.expected, chunks.stored)
                    for chunks in missing[:_NAMED]
                ],
                drop=("EXECUTION",),
            )
        more = f", the first {_NAMED} of them above" if len(missing) > _NAMED else ""
        call.out.print_sentence(f"results: {len(missing):,} of {looked_at:,} finished tasks lack chunks{more}")
        hint = ": crawlfleet clean-up --results --apply removes them" if orphans["files"] else ""
        call.out.print_sentence(
            f"results: {orphans['files']:,} files ({display_bytes(orphans['bytes'])}) belong to no task{hint}"
        )
    if missing:
        raise typer.Exit(ExitCode.FAILURE)


def _count_orphans(call: Call) -> dict[str, int]:
    sums = {"tasks": 0, "files": 0, "bytes": 0}
    cursor: str | None = None
    while True:
        page = call.client.clean_up_results(cursor=cursor)
        sums["tasks"] += page.orphans
        sums["files"] += page.orphan_files
        sums["bytes"] += page.orphan_bytes
        cursor = page.next_cursor
        if cursor is None:
            return sums


@local_command(
    app,
    "store",
    "crawlfleet repair store --data-dir /var/lib/crawlfleet",
    "crawlfleet repair store --store postgresql://fleet@db/fleet --json",
)
def check_store(
    data_dir: DataDirOption = None, store: StoreOption = None, config: ConfigOption = None, json: JsonOption = False
) -> None:
    """Check the database: its files and indexes, and rows that contradict each other. A master may run meanwhile.

    Nothing is changed. A damaged database is replaced by a backup: crawlfleet restore.
    """
    from crawlfleet.bootstrap.maintenance.store_check import check_store

    report = run_until_signal(check_store(load_installation(config, data_dir, store, None).store))
    out = Output(is_json=json)
    answer: dict[str, Any] = {
        "store": report.store,
        "is_sound": report.is_sound,
        "damage": list(report.damage),
        "contradictions": dict(report.contradictions),
        "note": report.note,
    }
    if out.is_json:
        out.print_json(answer)
    else:
        for line in report.damage:
            out.print_sentence(f"damaged: {line}")
        for what, count in report.contradictions.items():
            out.print_sentence(f"contradiction: {count:,} {what}")
        out.print_sentence(f"store: {report.store}, " + ("sound" if report.is_sound else "NOT sound: see restore"))
        if report.note is not None:
            out.print_note(f"note: {report.note}")
    if not report.is_sound:
        raise typer.Exit(ExitCode.FAILURE)
