"""`crawlfleet bench`: how this machine does, as ratios to raw loops on the same database."""

from __future__ import annotations

from typing import Annotated

import typer

from crawlfleet.cli.command import JsonOption, local_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.maintenance.installation_options import run_until_signal
from crawlfleet.cli.output import Output


def add_to(app: typer.Typer) -> None:
    local_command(
        app,
        "bench",
        "crawlfleet bench",
        "crawlfleet bench --seconds 30 --json",
        "crawlfleet bench --store postgresql://fleet@db/empty",
    )(bench_command)


def bench_command(
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, max=3_600, help="How long, two rounds at least.")
    ] = 120.0,
    store: Annotated[
        str | None, typer.Option("--store", help="An empty PostgreSQL database; a SQLite file if not given.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure this machine with a temporary master and two agents: how many tasks it takes and completes.

    Each figure stands beside that of a raw loop on the same database in the same run: ratios can be compared between
    machines. Nothing is left behind.
    """
    if store is not None and not store.startswith(("postgresql://", "postgres://")):
        usage_error("--store: postgresql://USER@HOST/DATABASE, empty; without it a SQLite file is used")
    out = Output(is_json=json)
    out.print_note(f"Running for about {seconds:g} s; other work on this machine disturbs the figures.")
    import uvloop

    from crawlfleet.bootstrap.maintenance.benchmark import run_benchmark
    from crawlfleet.observe.logs import configure_logs

    configure_logs("error")
    with out.progress_bar() as bar:
        line = bar.add_task("measuring", total=round(seconds), note="")

        def show_round(rounds: int, elapsed_s: float) -> None:
            bar.update(line, completed=min(round(elapsed_s), round(seconds)), note=f"round {rounds}")

        # The event loop of every process of crawlfleet.
        report = run_until_signal(run_benchmark(seconds, store, show_round), uvloop.new_event_loop)
    if out.is_json:
        figures = [
            {"name": figure.name, "unit": figure.unit, "value": figure.value, "raw": figure.raw, "ratio": figure.ratio}
            for figure in report.figures
        ]
        out.print_json(
            {
                "store": report.store,
                "rounds": report.rounds,
                "took_s": report.took_s,
                "noise": report.noise,
                "is_quiet": report.is_quiet,
                "figures": figures,
            }
        )
        return
    out.print_table(
        ("FIGURE", "CRAWLFLEET", "RAW LOOP", "RATIO"),
        [
            (
                figure.name,
                f"{figure.value:,.1f} {figure.unit}",
                f"{figure.raw:,.1f} {figure.unit}",
                f"{figure.ratio:.3f}",
            )
            for figure in report.figures
        ],
    )
    out.print_sentence(f"{report.store}, {report.rounds} rounds in {report.took_s:.0f} s, noise {report.noise:.0%}")
    if not report.is_quiet:
        out.print_note("note: the raw loop itself varied: the machine was busy, and these figures say little")
