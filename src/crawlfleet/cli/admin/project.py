"""`crawlfleet project` and `crawlfleet quota`: shares of the fleet, limits, and what is used of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.output import display_text

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import DayQuotaView, ProjectView, QuotaView

app = typer.Typer(no_args_is_help=True)

QUOTAS = ("waiting", "running", "cpu", "memory_mb", "pages_per_day", "bytes_per_day")
ProjectName = Annotated[str, typer.Argument(help="The project's name: what tasks say as project_id.")]


def _limit_option(name: str, what: str) -> Any:
    return typer.Option(name, help=f"{what}; none: no limit.", metavar="NUMBER|none")


@api_command(app, "list", "crawlfleet project list", "crawlfleet project list --json")
def list_projects(call: Call) -> None:
    """List the projects that are described or have open tasks."""
    call.out.print_listing(
        "projects",
        call.client.projects(),
        ("PROJECT", "WEIGHT", "WAITING", "RUNNING", "CPU", "MEMORY MB", "PAGES TODAY", "BYTES TODAY", "ON FULL"),
        lambda project: (
            project.name,
            project.weight,
            *(_used_text(project, quota) for quota in QUOTAS),
            project.on_full,
        ),
        empty="no project is described or has open tasks",
        drop=("MEMORY MB", "CPU", "ON FULL", "BYTES TODAY", "WEIGHT"),
    )


@api_command(app, "show", "crawlfleet project show shop", "crawlfleet project show shop --json")
def show_project(call: Call, name: ProjectName) -> None:
    """Show a project: its weight, its quotas, what is used of them and what is left."""
    project = call.client.project(name)
    if call.out.is_json:
        call.out.print_json(project)
        return
    described = f"version {project.version}" if project.version else "nobody described it"
    call.out.print_text(f"{project.name}: weight {project.weight:g}, on full {project.on_full} ({described})")
    _print_quotas(call, [project])


@api_command(
    app,
    "set",
    "crawlfleet project set shop --weight 3 --max-running 50",
    "crawlfleet project set shop --cpu none --on-full refuse",
    "crawlfleet project set shop --pages-per-day 10000 --bytes-per-day 5000000000",
)
def set_project(
    call: Call,
    name: ProjectName,
    weight: Annotated[float | None, typer.Option("--weight", help="Its share beside other projects (1).")] = None,
    max_waiting: Annotated[str | None, _limit_option("--max-waiting", "Tasks that may wait")] = None,
    max_running: Annotated[str | None, _limit_option("--max-running", "Tasks that may run at one time")] = None,
    cpu: Annotated[str | None, _limit_option("--cpu", "Cores that its tasks may reserve")] = None,
    memory_mb: Annotated[str | None, _limit_option("--memory-mb", "Memory that its tasks may reserve")] = None,
    pages_per_day: Annotated[
        str | None, _limit_option("--pages-per-day", "Requests that its tasks may send a day")
    ] = None,
    bytes_per_day: Annotated[
        str | None, _limit_option("--bytes-per-day", "Bytes that its tasks may read a day")
    ] = None,
    on_full: Annotated[
        str | None, typer.Option("--on-full", help="wait or refuse: tasks that the quotas have no room for.")
    ] = None,
) -> None:
    """Set a project's weight and quotas. What is not named stays as it is; what runs goes on."""
    limits = {
        "max_waiting": max_waiting,
        "max_running": max_running,
        "cpu": cpu,
        "memory_mb": memory_mb,
        "pages_per_day": pages_per_day,
        "bytes_per_day": bytes_per_day,
    }
    changes: dict[str, Any] = {field: _parse_limit(field, text) for field, text in limits.items() if text is not None}
    changes |= {field: value for field, value in (("weight", weight), ("on_full", on_full)) if value is not None}
    if not changes:
        usage_error("name what to set", "crawlfleet project set --help lists it")
    done = call.client.put_project(name, **changes)
    call.out.print_answer(done, f"project {done.name}: version {done.version}")


@api_command(app, "reset", "crawlfleet project reset shop")
def reset_project(call: Call, name: ProjectName) -> None:
    """Give a project the defaults again: weight 1, no quotas. Its tasks stay."""
    call.client.reset_project(name)
    call.out.print_answer({"name": name, "is_reset": True}, f"project {name}: has the defaults again")


def add_to(root: typer.Typer) -> None:
    api_command(root, "quota", "crawlfleet quota", "crawlfleet quota shop --json")(show_quotas)


def show_quotas(
    call: Call, project: Annotated[str | None, typer.Argument(help="Only of this project.", show_default=False)] = None
) -> None:
    """Show the quotas of projects: what is used, what is allowed, what is left."""
    projects = call.client.projects() if project is None else [call.client.project(project)]
    if call.out.is_json:
        call.out.print_json({"quotas": {view.name: view.quotas for view in projects}})
    else:
        _print_quotas(call, projects)


def _print_quotas(call: Call, projects: Any) -> None:
    rows = [
        (
            project.name,
            name,
            quota.used,
            "none" if quota.limit is None else quota.limit,
            quota.left,
            _renewal_instant(quota),
        )
        for project in projects
        for name in QUOTAS
        for quota in (getattr(project.quotas, name),)
    ]
    columns = ("PROJECT", "QUOTA", "USED", "LIMIT", "LEFT", "RENEWS")
    call.out.print_table(columns, rows, empty="no project has open tasks or quotas")


def _renewal_instant(quota: QuotaView | DayQuotaView) -> object:
    return None if quota.limit is None else getattr(quota, "renews_at", None)


def _used_text(project: ProjectView, name: str) -> str:
    quota = getattr(project.quotas, name)
    return (
        display_text(quota.used)
        if quota.limit is None
        else f"{display_text(quota.used)} of {display_text(quota.limit)}"
    )


def _parse_limit(field: str, text: str) -> float | int | None:
    if text == "none":
        return None
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        usage_error(f"--{field.replace('_', '-')}: a number or none, not {text!r}")
