"""`crawlfleet alert silence`: times without notices of some alerts."""

from __future__ import annotations

from typing import Annotated

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.output import display_text

app = typer.Typer(no_args_is_help=True)


@api_command(app, "list", "crawlfleet alert silence list")
def list_silences(call: Call) -> None:
    """List the silences, newest first, also those that are over."""
    call.out.print_listing(
        "silences",
        call.client.silences(),
        ("SILENCE", "IN FORCE", "MATCHES", "UNTIL", "BY", "WHY"),
        lambda silence: (
            silence.id,
            silence.is_in_force,
            ", ".join(f"{field}={pattern}" for field, pattern in silence.matchers.items()),
            silence.until_at,
            silence.created_by,
            silence.why,
        ),
        empty="no silences",
        prose=("WHY",),
        drop=("BY", "IN FORCE"),
    )


@api_command(
    app,
    "add",
    "crawlfleet alert silence add --rule node_down --for 2h --why 'new racks'",
    "crawlfleet alert silence add --scope 'project:shop*' --until 2027-01-02T08:00:00Z --why holidays",
)
def add_silence(
    call: Call,
    why: Annotated[str, typer.Option("--why", help="For the others who look at it.")],
    rule: Annotated[str | None, typer.Option("--rule", help="Alerts of rules that match this pattern.")] = None,
    scope: Annotated[str | None, typer.Option("--scope", help="Alerts about what matches this pattern.")] = None,
    severity: Annotated[str | None, typer.Option("--severity", help="Alerts of this severity.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Alerts about nodes of this cluster.")] = None,
    lasts: Annotated[str | None, typer.Option("--for", help="How long: 90s, 15m, 2h, 7d.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Or until when: 2027-01-02T08:00:00Z.")] = None,
) -> None:
    """Send no notices of matching alerts for a time. They are judged and listed all the same."""
    given = {
        "rule": rule,
        "scope": scope,
        "severity": severity,
        "parent": None if cluster is None else f"cluster:{cluster}",
    }
    matchers = {field: pattern for field, pattern in given.items() if pattern is not None}
    if not matchers:
        usage_error("name what to silence", "such as --rule node_down, or --rule '*' for everything")
    if (lasts is None) == (until is None):
        usage_error("give one of --for and --until", "such as --for 2h")
    silence = call.client.add_silence(matchers, why, lasts=lasts, until_at=until)
    call.out.print_answer(silence, f"{silence.id}: until {display_text(silence.until_at)}")


@api_command(app, "end", "crawlfleet alert silence end silence-0123456789abcdef")
def end_silence(call: Call, silence_id: Annotated[str, typer.Argument(help="As alert silence list shows it.")]) -> None:
    """End a silence now."""
    silence = call.client.end_silence(silence_id)
    call.out.print_answer(silence, f"{silence.id}: over")
