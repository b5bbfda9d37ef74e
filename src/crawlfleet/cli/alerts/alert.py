"""`crawlfleet alert`: what fires, and what was sent about it."""

from __future__ import annotations

from typing import Annotated

import typer

from crawlfleet.cli.alerts import channel, rule, silence
from crawlfleet.cli.command import Call, api_command, with_examples

app = typer.Typer(no_args_is_help=True)


@api_command(app, "list", "crawlfleet alert list", "crawlfleet alert list --status firing --json")
def list_alerts(
    call: Call,
    rule_name: Annotated[str | None, typer.Option("--rule", help="Only of this rule.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="pending, firing or recovering.")] = None,
) -> None:
    """List the alerts that are not ok, those that fire first."""
    found_alerts = call.client.alerts(rule=rule_name, status=status)
    call.out.print_listing(
        "alerts",
        found_alerts.alerts,
        ("STATUS", "SEVERITY", "RULE", "SCOPE", "SINCE", "VALUE", "QUIET", "WHY"),
        lambda alert: (
            alert.status,
            alert.severity,
            alert.rule,
            alert.scope,
            alert.since,
            value_text(alert.value),
            _quiet_text(alert.muted_why, alert.acknowledgement),
            alert.why,
        ),
        empty="no alert: everything is as it should be",
        prose=("WHY",),
        drop=("SEVERITY", "VALUE", "QUIET", "SINCE"),
    )


@api_command(
    app,
    "ack",
    "crawlfleet alert ack failure_rate --why 'the shop is down, they know'",
    "crawlfleet alert ack node_down node:node-0123456789abcdef",
)
def acknowledge_alert(
    call: Call,
    rule_name: Annotated[str, typer.Argument(metavar="RULE", help="The rule, as alert list shows it.")],
    scope: Annotated[str, typer.Argument(help="What it is about, as alert list shows it.")] = "*",
    why: Annotated[str, typer.Option("--why", help="For the others who look at it.")] = "",
) -> None:
    """Acknowledge an alert: no more notices of it until it recovers."""
    done = call.client.acknowledge_alert(rule_name, scope, why=why)
    call.out.print_answer(done, f"{done.rule} {done.scope}: acknowledged, quiet until it recovers")


@api_command(app, "notices", "crawlfleet alert notices", "crawlfleet alert notices --channel ops --status due")
def list_notices(
    call: Call,
    channel_name: Annotated[str | None, typer.Option("--channel", help="Only for this channel.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="due, delivered, merged or abandoned.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many to show at most.")] = 50,
) -> None:
    """List the notices, newest first, with the words of the service they were sent to."""
    page = call.client.notices(limit=limit, channel=channel_name, status=status)
    call.out.print_listing(
        "notices",
        page.notices,
        ("CREATED", "STATUS", "CHANNEL", "STATE", "RULE", "ALERTS", "TRIES", "ANSWER"),
        lambda notice: (
            notice.created_at,
            notice.status,
            notice.channel,
            notice.state,
            notice.rule,
            notice.alerts,
            notice.tries,
            notice.answer,
        ),
        empty="no notices",
        prose=("ANSWER",),
        drop=("TRIES", "ALERTS"),
    )


def value_text(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _quiet_text(muted_why: str | None, acknowledgement: object) -> str:
    return "acknowledged" if acknowledgement is not None else (muted_why or "")


for noun, about, example in (
    (rule, "Alert rules: list, show, change, preview, reset.", "crawlfleet alert rule set queue_size --threshold 5000"),
    (
        channel,
        "Channels of notices: add, try out, list, remove.",
        "crawlfleet alert channel set ops --kind slack --field url=https://hooks.slack.com/services/T/B/X",
    ),
    (
        silence,
        "Silences: no notices of some alerts for a time.",
        "crawlfleet alert silence add --rule node_down --for 2h --why 'new racks'",
    ),
):
    app.add_typer(noun.app, name=noun.__name__.rpartition(".")[2], help=with_examples(about, example), short_help=about)
