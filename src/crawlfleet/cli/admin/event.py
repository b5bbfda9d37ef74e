"""`crawlfleet event`: what happened, and what happens now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.output import display_text

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import EventView

app = typer.Typer(no_args_is_help=True)

_PAGE = 1_000
KindOption = Annotated[
    list[str] | None,
    typer.Option("--kind", help="Only of this kind, or beginning so: task.failed, node. May be repeated."),
]
TaskOption = Annotated[str | None, typer.Option("--task", help="Only of this task.")]
NodeOption = Annotated[str | None, typer.Option("--node", help="Only of this node.")]


@api_command(
    app,
    "list",
    "crawlfleet event list",
    "crawlfleet event list --kind task.failed --kind node. --limit 20",
    "crawlfleet event list --task task-0123456789abcdef --json",
)
def list_events(
    call: Call,
    kind: KindOption = None,
    task: TaskOption = None,
    node: NodeOption = None,
    after: Annotated[int, typer.Option("--after", help="Only those after this number.", min=0)] = 0,
    limit: Annotated[int, typer.Option("--limit", help="How many at most, the newest.", min=1)] = 50,
) -> None:
    """List events, oldest first: the newest of those that are kept."""
    events = list(_load_pages(call, kind or [], task, node, after, limit))[-limit:]
    call.out.print_listing(
        "events",
        events,
        ("NUMBER", "AT", "KIND", "ABOUT"),
        lambda event: (event.number, event.at, event.kind, _describe_event(event)),
        empty="no events",
        prose=("ABOUT",),
        drop=("NUMBER",),
    )


def _load_pages(
    call: Call, kinds: list[str], task: str | None, node: str | None, after: int, limit: int
) -> Iterator[EventView]:
    """The log is read forwards: without a filter, from so many before its end."""
    if not (kinds or task or node):
        last = call.client.event_page(after=after, limit=1).last
        after = max(after, last - limit)
    while True:
        page = call.client.event_page(after=after, limit=_PAGE, kinds=kinds, task=task, node=node)
        yield from page.events
        if page.next_after >= page.last or page.next_after == after:
            return
        after = page.next_after


@api_command(
    app,
    "watch",
    "crawlfleet event watch",
    "crawlfleet event watch --kind task.failed --json",
    "crawlfleet event watch --after 1200",
)
def watch_events(
    call: Call,
    kind: KindOption = None,
    task: TaskOption = None,
    node: NodeOption = None,
    after: Annotated[int | None, typer.Option("--after", help="Begin after this number instead of now.", min=0)] = None,
    count: Annotated[int | None, typer.Option("--count", help="Stop after so many.", min=1)] = None,
) -> None:
    """Print events as they happen, a line each, until Ctrl-C. --json prints a JSON object a line."""
    for seen, event in enumerate(call.client.events(kinds=kind or [], task=task, node=node, after=after), 1):
        if call.out.is_json:
            call.out.print_json_line(event)
        else:
            call.out.print_text(f"{display_text(event.at)}  {event.kind:<22}  {_describe_event(event)}".rstrip())
        if seen == count:
            return


def _describe_event(event: EventView) -> str:
    return ", ".join(
        f"{name} {display_text(value)}" for name, value in event.data.items() if value not in (None, "", [], {})
    )
