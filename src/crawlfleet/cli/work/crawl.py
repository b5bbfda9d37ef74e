"""`crawlfleet crawl`: one crawl over many nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli import values
from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.wait.group_outcome import print_new_group
from crawlfleet.cli.work.group import KeyOption, LinesOption, NameOption, ProjectOption
from crawlfleet.cli.work.task import ParamOption, ParamsOption, PriorityOption, TimeoutOption, WaitOption

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import GroupView


def add_to(app: typer.Typer) -> None:
    api_command(
        app,
        "crawl",
        "crawlfleet crawl https://shop.example/ --members 4 --depth 5 --max-pages 5000 --wait",
        """crawlfleet crawl https://a.example/ https://b.example/ --params '{"selectors": {"title": "h1"}}'""",
        "crawlfleet crawl https://shop.example/ --depth 3 --param sitemaps=true --json",
        "crawlfleet crawl https://shop.example/ --depth 9 --max-pages 100000 --progress --json",
    )(start_crawl)


def start_crawl(
    call: Call,
    urls: Annotated[list[str], typer.Argument(help="Where it begins.", metavar="URL...", show_default=False)],
    members: Annotated[int, typer.Option("--members", help="Tasks that take part in it, on as many nodes.", min=1)] = 4,
    depth: Annotated[int | None, typer.Option("--depth", help="Links to follow from there.", min=0)] = None,
    max_pages: Annotated[int | None, typer.Option("--max-pages", help="Pages of the whole, at most.", min=1)] = None,
    params: ParamsOption = "{}",
    param: ParamOption = None,
    priority: PriorityOption = "5",
    project: ProjectOption = None,
    name: NameOption = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", help="Any other field of its tasks, as NAME=VALUE.", metavar="NAME=VALUE"),
    ] = None,
    key: KeyOption = None,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    progress: LinesOption = False,
) -> None:
    """Crawl with many nodes at once, each page once. Prints the id of its group.

    All else is done with the group: crawlfleet group show, cancel, retry, export.
    """
    limits = {"depth": depth, "max_pages": max_pages}
    parameters = values.parse_parameters(params, param) | {word: n for word, n in limits.items() if n is not None}
    group = call.client.crawl(
        urls,
        parameters,
        members=members,
        name=name,
        project_id=project,
        idempotency_key=key,
        **{
            "priority": values.read_priority(priority, call),
            **values.parse_pairs(field or [], "--field"),
        },
    )
    for note in _assumption_notes(parameters, group):
        call.out.print_note(note)
    print_new_group(call, group, wait or progress, timeout, with_lines=progress)


def _assumption_notes(parameters: dict[str, Any], group: GroupView) -> list[str]:
    """Notes on defaults that were not asked for and that people may not expect."""
    leads_on = [name for name in ("depth", "sitemaps", "pagination") if parameters.get(name)]
    if not leads_on:
        return ["note: without --depth only the given URLs are read, and no link is followed"]
    if "max_pages" not in parameters and group.crawl is not None:
        return [f"note: no --max-pages was given, {group.crawl.max_pages} are read at most"]
    return []
