"""The `crawlfleet` command: the root to which every noun's commands are added."""

from typing import Annotated

import typer

import crawlfleet

HELP = """Manage a fleet of crawler nodes: submit tasks, see where they run, and why one waits.

Example: crawlfleet --version
"""

app = typer.Typer(name="crawlfleet", help=HELP, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"crawlfleet {crawlfleet.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave."),
    ] = False,
) -> None:
    pass


def main() -> None:
    app()
