"""`crawlfleet audit`: who changed what, when and from where."""

from __future__ import annotations

from typing import Annotated

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.output import display_text

app = typer.Typer(no_args_is_help=True)


@api_command(app, "list", "crawlfleet audit list", "crawlfleet audit list --limit 500 --json")
def list_entries(
    call: Call,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.", min=1, max=1_000)] = 50,
) -> None:
    """List the audit log, newest first. It takes a token of an admin."""
    call.out.print_listing(
        "entries",
        call.client.audit(limit=limit),
        ("AT", "BY", "ROLE", "FROM", "ACTION", "TARGET", "DETAILS"),
        lambda entry: (
            entry.at,
            entry.name or entry.node_id,
            entry.role,
            entry.address,
            entry.action,
            entry.target,
            display_text(entry.details),
        ),
        empty="nothing was changed yet",
        prose=("BY", "DETAILS"),
        drop=("FROM", "ROLE", "DETAILS"),
    )
