"""`crawlfleet group`: tasks as one, and one task as many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli import values
from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.output import to_builtins, trim_instants
from crawlfleet.cli.wait.group_outcome import print_group_end, print_new_group
from crawlfleet.cli.wait.groups import wait_for_group
from crawlfleet.cli.work.export import (
    BomOption,
    FormatOption,
    GuardOption,
    OutputOption,
    PagesOption,
    choose_format,
    kind_options,
    note_missing_archive,
    print_quality,
    save_with_bar,
    write_to_stdout,
)
from crawlfleet.cli.work.task import ParamOption, ParamsOption, PriorityOption, TimeoutOption, WaitOption

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import BulkView

app = typer.Typer(no_args_is_help=True)

GroupId = Annotated[str, typer.Argument(help="A group's id.", show_default=False)]
NameOption = Annotated[str | None, typer.Option("--name", help="A name for people.")]
ProjectOption = Annotated[str | None, typer.Option("--project", help="The project it and its tasks belong to.")]
KeyOption = Annotated[str | None, typer.Option("--idempotency-key", help="The same key again makes no second group.")]
LinesOption = Annotated[
    bool,
    typer.Option("--progress", help="With a wait: how far it is, as a line every few seconds; JSON lines with --json."),
]
PartialOption = Annotated[bool, typer.Option("--partial", help="Also while members are missing: what there is.")]


@api_command(
    app,
    "add",
    "crawlfleet group add tasks.jsonl --name spring",
    "crawlfleet group add tasks.json --project shop --wait",
    "crawlfleet group add --name later",
)
def create_group(
    call: Call,
    file: Annotated[
        str | None, typer.Argument(help="JSON lines, or a JSON list; - is standard input.", metavar="FILE")
    ] = None,
    name: NameOption = None,
    project: ProjectOption = None,
    closed: Annotated[bool, typer.Option("--closed", help="No other tasks may join it later.")] = False,
    key: KeyOption = None,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
) -> None:
    """Make a group of tasks, all of them or none (up to 10,000). Prints its id.

    Without FILE it begins empty; tasks join it with: crawlfleet task submit ... --field group_id=GROUP.
    """
    tasks = [] if file is None else list(values.read_tasks(file))
    if file is not None and not tasks:
        usage_error("FILE: there is no task in it")
    group = call.client.create_group(tasks, name=name, project_id=project, is_closed=closed, idempotency_key=key)
    print_new_group(call, group, wait, timeout)


@api_command(
    app,
    "shard",
    "crawlfleet group shard web_crawl --over urls --values urls.txt --size 100",
    """crawlfleet group shard web_crawl --over urls --values urls.txt --count 8 --params '{"depth": 1}' --wait""",
    "crawlfleet group shard my_type --over ids --params @params.json --size 50 --field timeout_s=60",
)
def shard_task(
    call: Call,
    task_type: Annotated[str, typer.Argument(help="What to run: crawlfleet task types lists them.")],
    over: Annotated[str, typer.Option("--over", help="The parameter that holds the list.")],
    size: Annotated[int | None, typer.Option("--size", help="Values in each shard.", min=1)] = None,
    count: Annotated[int | None, typer.Option("--count", help="How many shards.", min=1)] = None,
    params: ParamsOption = "{}",
    param: ParamOption = None,
    values_file: Annotated[
        str | None, typer.Option("--values", help="Take the list from a file, a value a line; - is standard input.")
    ] = None,
    priority: PriorityOption = "5",
    project: ProjectOption = None,
    name: NameOption = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", help="Any other field of the tasks, as NAME=VALUE.", metavar="NAME=VALUE"),
    ] = None,
    key: KeyOption = None,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
) -> None:
    """Split the list at one parameter of a task into shards, in order. Prints the id of their group."""
    if (size is None) == (count is None):
        usage_error("give either --size or --count", "--size 100 makes shards of a hundred values")
    parameters = values.parse_parameters(params, param)
    if values_file is not None:
        lines = values.read_text(values_file, "--values").splitlines()
        parameters[over] = [line.strip() for line in lines if line.strip()]
    group = call.client.shard(
        task_type,
        parameters,
        over=over,
        size=size,
        count=count,
        name=name,
        project_id=project,
        idempotency_key=key,
        **{
            "priority": values.read_priority(priority, call),
            **values.parse_pairs(field or [], "--field"),
        },
    )
    print_new_group(call, group, wait, timeout)


@api_command(app, "list", "crawlfleet group list", "crawlfleet group list --project shop --kind shards --json")
def list_groups(
    call: Call,
    project: Annotated[str | None, typer.Option("--project", help="Only of this project.")] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Only group, shards, flow or crawl.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.", min=1)] = 50,
) -> None:
    """List groups with their progress, newest first."""
    groups = list(call.client.groups(project_id=project, kind=kind, limit=limit))
    call.out.print_listing(
        "groups",
        groups,
        ("GROUP", "KIND", "ENDED", "TOTAL", "FAILED", "PROJECT", "CREATED", "NAME"),
        lambda group: (
            group.id,
            group.kind,
            group.progress.total - group.progress.open,
            group.progress.total,
            group.progress.failed + group.progress.timeout,
            group.project_id,
            group.created_at,
            group.name,
        ),
        empty="no groups",
        prose=("NAME",),
        drop=("PROJECT", "CREATED", "KIND"),
    )


@api_command(app, "show", "crawlfleet group show group-0123456789abcdef")
def show_group(call: Call, group_id: GroupId) -> None:
    """Show a group: how far it is, and the first of its failures."""
    group = call.client.group(group_id)
    if call.out.is_json:
        call.out.print_json(group)
        return
    record = to_builtins(group)
    separate_fields = ("progress", "failures", "crawl")
    call.out.print_record({name: value for name, value in record.items() if name not in separate_fields})
    call.out.print_text("\nits members")
    call.out.print_record(record["progress"])
    if group.crawl is not None:
        call.out.print_text("\nits pages")
        call.out.print_record(record["crawl"])
    if group.failures:
        call.out.print_text("")
        call.out.print_table(
            ("TASK", "STATUS", "MESSAGE"),
            [(failure.task_id, failure.status, failure.message) for failure in group.failures],
            prose=("MESSAGE",),
        )


@api_command(
    app,
    "watch",
    "crawlfleet group watch group-0123456789abcdef",
    "crawlfleet group watch group-0123456789abcdef --timeout 60 --json",
    "crawlfleet group watch group-0123456789abcdef --progress --json",
)
def watch_group(call: Call, group_id: GroupId, timeout: TimeoutOption = None, progress: LinesOption = False) -> None:
    """Wait for a group with a progress bar. Exit code 0 when every member completed, 4 when one did not."""
    print_group_end(call, wait_for_group(call, group_id, timeout, with_lines=progress), with_lines=progress)


@api_command(app, "close", "crawlfleet group close group-0123456789abcdef")
def close_group(call: Call, group_id: GroupId) -> None:
    """Let no other tasks join a group."""
    group = call.client.close_group(group_id)
    call.out.print_answer(group, f"{group.id}: closed")


@api_command(app, "cancel", "crawlfleet group cancel group-0123456789abcdef")
def cancel_group(call: Call, group_id: GroupId) -> None:
    """Cancel every member that has not ended; no other tasks may join any more."""
    _print_changed(call, call.client.cancel_group(group_id), "cancelled, or their nodes asked to stop them")


@api_command(
    app,
    "retry",
    "crawlfleet group retry group-0123456789abcdef",
    "crawlfleet group retry group-0123456789abcdef --status failed,timeout,cancelled",
)
def retry_members(
    call: Call,
    group_id: GroupId,
    status: Annotated[
        str | None, typer.Option("--status", help="Those that ended so; failed,timeout unless said.")
    ] = None,
) -> None:
    """Open the next round of the members that failed, and of those only."""
    _print_changed(call, call.client.retry_group(group_id, status=status), "open again")


@api_command(
    app,
    "export",
    "crawlfleet group export group-0123456789abcdef > items.jsonl",
    "crawlfleet group export group-0123456789abcdef --output items.parquet --partial",
)
def export_group(
    call: Call,
    group_id: GroupId,
    format: FormatOption = None,
    output: OutputOption = None,
    partial: PartialOption = False,
    bom: BomOption = False,
    guard: GuardOption = False,
    pages: PagesOption = False,
) -> None:
    """Write the items of all members, in the order of the members, as JSON lines, CSV or Parquet, or their archives
    as WARC. --json tells what was written."""
    options: dict[str, Any] = {
        "format": choose_format(format, output),
        "partial": partial,
        "bom": bom,
        "guard": guard,
        **kind_options(pages),
    }
    if options["format"] == "warc":
        for member in call.client.list(group=group_id, limit=1):
            note_missing_archive(call, member)
    if output is None:
        write_to_stdout(call, options["format"], lambda: call.client.export_group(group_id, **options))
        return
    saved = save_with_bar(
        call, output, lambda on_bytes: call.client.save_group_export(group_id, output, on_bytes=on_bytes, **options)
    )
    group = call.client.group(group_id)
    call.out.print_answer(
        {"file": str(output), "bytes": saved.bytes, "is_complete": saved.is_complete, "progress": group.progress},
        f"{output}: {saved.bytes} bytes" + ("" if saved.is_complete else "; members are missing"),
    )


@api_command(app, "quality", "crawlfleet group quality group-0123456789abcdef")
def show_quality(call: Call, group_id: GroupId, partial: PartialOption = False, pages: PagesOption = False) -> None:
    """Tell how good the items of all members are: which fields are filled and with what, duplicates."""
    print_quality(call, call.client.group_quality(group_id, partial=partial, **kind_options(pages)))


@api_command(app, "why", "crawlfleet group why group-0123456789abcdef")
def explain_group(call: Call, group_id: GroupId) -> None:
    """Say what holds up the members of a group that have not ended, for instance a host in back-off."""
    why = call.client.group_why(group_id)
    call.out.print_answer({"sentence": why.sentence, **why.data}, trim_instants(why.sentence))


@api_command(app, "remove", "crawlfleet group remove group-0123456789abcdef")
def remove_group(call: Call, group_id: GroupId) -> None:
    """Forget a finished group, with its tasks and everything they left."""
    call.client.remove_group(group_id)
    call.out.print_answer({"removed": group_id}, f"{group_id}: removed")


def _print_changed(call: Call, done: BulkView, what: str) -> None:
    call.out.print_answer(done, f"{done.changed} tasks {what}" + (f", {done.refused} refused" if done.refused else ""))
