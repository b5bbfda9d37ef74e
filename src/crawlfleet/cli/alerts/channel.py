"""`crawlfleet alert channel`: where notices go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import usage_error

app = typer.Typer(no_args_is_help=True)

ChannelName = Annotated[str, typer.Argument(help="The channel's name.", show_default=False)]


@api_command(app, "list", "crawlfleet alert channel list", "crawlfleet alert channel list --json")
def list_channels(call: Call) -> None:
    """List the channels and how they fare; secrets are not shown."""
    answer = call.client.alert_channels()
    call.out.print_listing(
        "channels",
        answer.channels,
        ("CHANNEL", "KIND", "ON", "LANGUAGE", "FAILURES", "LAST SENT", "LAST ANSWER"),
        lambda channel: (
            channel.name,
            channel.kind,
            channel.is_enabled,
            channel.language,
            channel.failures,
            channel.last_sent_at,
            channel.disabled_why or channel.last_answer,
        ),
        empty="no channel yet: crawlfleet alert channel set adds one",
        prose=("LAST ANSWER",),
        drop=("LANGUAGE", "FAILURES", "LAST SENT"),
    )


@api_command(app, "kinds", "crawlfleet alert channel kinds")
def list_kinds(call: Call) -> None:
    """List the kinds of channels and the fields that each needs."""
    kinds = call.client.alert_channels().kinds
    if call.out.is_json:
        call.out.print_json({"kinds": kinds})
        return
    for number, kind in enumerate(kinds):
        call.out.print_sentence(f"{chr(10) if number else ''}{kind.name}: {kind.about}")
        rows = [(field.name, "yes" if field.is_required else "", field.about) for field in kind.fields]
        call.out.print_table(("FIELD", "NEEDED", "WHAT"), rows, prose=("WHAT",))


@api_command(
    app,
    "set",
    "crawlfleet alert channel set ops --kind dingtalk --field url=TOKEN --field-file secret=robot.secret",
    "crawlfleet alert channel set mail --kind mail --field host=smtp.example.com --field sender=fleet@example.com "
    "--field recipients=ops@example.com",
    "crawlfleet alert channel set ops --kind slack --field url=******** --off",
)
def set_channel(
    call: Call,
    name: ChannelName,
    kind: Annotated[str, typer.Option("--kind", help="crawlfleet alert channel kinds lists them.")],
    fields: Annotated[
        list[str] | None, typer.Option("--field", help="NAME=VALUE; several times.", metavar="NAME=VALUE")
    ] = None,
    field_files: Annotated[
        list[str] | None,
        typer.Option("--field-file", help="NAME=FILE: the value is in a file, for secrets.", metavar="NAME=FILE"),
    ] = None,
    language: Annotated[str, typer.Option("--language", help="en or zh.")] = "en",
    is_on: Annotated[bool, typer.Option("--on/--off", help="Whether notices are sent to it.")] = True,
) -> None:
    """Add a channel, or replace it. Stars in place of a secret leave the stored one."""
    values = dict(_split_pair(text, "--field") for text in fields or ())
    for text in field_files or ():
        field, path = _split_pair(text, "--field-file")
        try:
            values[field] = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as exc:
            usage_error(f"--field-file: {path} cannot be read: {exc}", "name a file with the value and nothing else")
    channel = call.client.put_alert_channel(name, kind, values, language=language, is_enabled=is_on)
    hint = f"try it: crawlfleet alert channel test {channel.name}"
    call.out.print_answer(channel, f"channel {channel.name}: {channel.kind}; {hint}")


@api_command(app, "test", "crawlfleet alert channel test ops")
def test_channel(call: Call, name: ChannelName) -> None:
    """Send a test notice now, and show the service's own words."""
    delivery = call.client.test_alert_channel(name)
    outcome = "delivered" if delivery.is_delivered else "not delivered"
    call.out.print_answer(delivery, f"{name}: {outcome}: {delivery.answer}")
    if not delivery.is_delivered:
        raise typer.Exit(1)


@api_command(app, "remove", "crawlfleet alert channel remove ops")
def remove_channel(call: Call, name: ChannelName) -> None:
    """Remove a channel, with the notices that wait for it."""
    call.client.remove_alert_channel(name)
    call.out.print_answer({"name": name}, f"channel {name}: removed")


def _split_pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        usage_error(f"{option}: {text!r} is no NAME=VALUE", "such as url=https://example.com/hook")
    return name, value
