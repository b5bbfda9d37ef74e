"""`crawlfleet alert rule`: thresholds, severities, channels and hours of rules."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.output import display_text

app = typer.Typer(no_args_is_help=True)

RuleName = Annotated[str, typer.Argument(help="The rule's name.", show_default=False)]


@api_command(app, "list", "crawlfleet alert rule list", "crawlfleet alert rule list --json")
def list_rules(call: Call) -> None:
    """List the rules as they are applied, the built-in ones first; show says what one is about."""
    call.out.print_listing(
        "rules",
        call.client.alert_rules(),
        ("RULE", "SCOPE", "FIRES AT", "CLEARS AT", "FOR", "SEVERITY", "ON", "CHANGED BY"),
        lambda rule: (
            rule.name,
            rule.scope,
            f"{'< ' if rule.fires_below else ''}{_value_text(rule.threshold, rule.unit)}",
            _value_text(rule.clear, rule.unit),
            f"{rule.for_s} s",
            rule.severity,
            rule.is_enabled,
            rule.changed_by,
        ),
        drop=("CHANGED BY", "CLEARS AT"),
    )


def _value_text(value: float, unit: str) -> str:
    """A value with its unit; nothing for a rule that is about a state."""
    match unit:
        case "state":
            return ""
        case "ratio":
            return f"{value * 100:g} %"
        case "seconds":
            return f"{value:g} s"
        case "days":
            return f"{value:g} d"
        case _:
            return f"{value:,g}"


@api_command(app, "show", "crawlfleet alert rule show failure_rate")
def show_rule(call: Call, name: RuleName) -> None:
    """Show a rule with all of its values."""
    rule = call.client.alert_rule(name)
    if call.out.is_json:
        call.out.print_json(rule)
        return
    call.out.print_sentence(f"{rule.name}: {rule.about}")
    call.out.print_record(
        {
            "scope": rule.scope,
            "threshold": f"{'below ' if rule.fires_below else ''}{_value_text(rule.threshold, rule.unit)}",
            "clear": _value_text(rule.clear, rule.unit),
            "for_s": rule.for_s,
            "keep_s": rule.keep_s,
            "least_samples": rule.least_samples,
            "severity": rule.severity,
            "channels": ", ".join(rule.channels) or "all",
            "hours": rule.hours,
            "enabled": rule.is_enabled,
            "changed_by": rule.changed_by,
        }
    )


@api_command(
    app,
    "set",
    "crawlfleet alert rule set queue_size --threshold 5000 --severity critical",
    "crawlfleet alert rule set shop_failures --kind failure_rate --scope project:shop --channel ops",
    "crawlfleet alert rule set node_down --hours 08:00-20:00 --zone Asia/Shanghai",
    "crawlfleet alert rule set version_mixed --off",
)
def set_rule(
    call: Call,
    name: RuleName,
    kind: Annotated[str | None, typer.Option("--kind", help="Of a rule of your own: what it measures.")] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", help="*, a kind such as project, or one such as project:shop.")
    ] = None,
    threshold: Annotated[float | None, typer.Option("--threshold", help="The value at which it fires.")] = None,
    clear: Annotated[float | None, typer.Option("--clear", help="The value from which it recovers.")] = None,
    for_s: Annotated[int | None, typer.Option("--for-s", help="Seconds before it fires.")] = None,
    keep_s: Annotated[int | None, typer.Option("--keep-s", help="Good seconds before it recovers.")] = None,
    least_samples: Annotated[
        int | None, typer.Option("--least-samples", help="Observations below which a value is ignored.")
    ] = None,
    severity: Annotated[str | None, typer.Option("--severity", help="info, warning or critical.")] = None,
    channels: Annotated[
        list[str] | None, typer.Option("--channel", help="A channel for its notices; several times.")
    ] = None,
    hours: Annotated[
        str | None, typer.Option("--hours", help="When notices may be sent, such as 08:00-20:00; always.")
    ] = None,
    zone: Annotated[str, typer.Option("--zone", help="The time zone of --hours.")] = "UTC",
    is_on: Annotated[bool | None, typer.Option("--on/--off", help="Turn it on or off.")] = None,
) -> None:
    """Change a rule, or add one of your own. What is not named stays as it is."""
    given: dict[str, Any] = {
        "kind": kind,
        "scope": scope,
        "threshold": threshold,
        "clear": clear,
        "for_s": for_s,
        "keep_s": keep_s,
        "least_samples": least_samples,
        "severity": severity,
        "channels": channels,
        "is_enabled": is_on,
    }
    changes = {field: value for field, value in given.items() if value is not None}
    if hours is not None:
        changes["hours"] = _parse_hours(hours, zone)
    if not changes:
        usage_error("name what to set", "crawlfleet alert rule set --help lists it")
    rule = call.client.put_alert_rule(name, **changes)
    state = "" if rule.is_enabled else " (off)"
    values = [_value_text(value, rule.unit) for value in (rule.threshold, rule.clear)]
    fires = f": fires at {values[0]}, clears at {values[1]}" if all(values) else ""
    call.out.print_answer(rule, f"rule {rule.name}{state}{fires}")


@api_command(
    app,
    "preview",
    "crawlfleet alert rule preview failure_rate --threshold 0.05",
    "crawlfleet alert rule preview avg_duration --scope type:web_crawl --threshold 60",
)
def preview_rule(
    call: Call,
    name: RuleName,
    scope: Annotated[str | None, typer.Option("--scope", help="What to look at, such as project:shop.")] = None,
    threshold: Annotated[float | None, typer.Option("--threshold", help="In place of its own.")] = None,
    clear: Annotated[float | None, typer.Option("--clear", help="In place of its own.")] = None,
    for_s: Annotated[int | None, typer.Option("--for-s", help="In place of its own.")] = None,
) -> None:
    """Show when a rule would have fired in the last six hours. Nothing changes."""
    given = {"threshold": threshold, "clear": clear, "for_s": for_s}
    fields = {field: value for field, value in given.items() if value is not None}
    preview = call.client.preview_alert_rule(name, scope=scope, **fields)
    if call.out.is_json:
        call.out.print_json(preview)
        return
    call.out.print_table(
        ("FIRED", "RECOVERED", "WORST VALUE"),
        [(each.fired_at, each.recovered_at or "still fires", f"{each.peak:.4g}") for each in preview.alerts],
        empty=f"it would not have fired since {display_text(preview.since)} ({preview.points} minutes with figures)",
    )


@api_command(app, "reset", "crawlfleet alert rule reset queue_size")
def reset_rule(call: Call, name: RuleName) -> None:
    """Give a built-in rule its defaults again, or remove a rule of your own."""
    call.client.reset_alert_rule(name)
    call.out.print_answer({"name": name}, f"rule {name}: reset")


def _parse_hours(text: str, zone: str) -> dict[str, Any] | None:
    if text == "always":
        return None
    begin, dash, until = text.partition("-")
    if not dash:
        usage_error(f"--hours: {text!r} is no span of hours", "such as 08:00-20:00, or always")
    return {"from": begin, "until": until, "time_zone": zone}
