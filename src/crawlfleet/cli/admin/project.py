"""`crawlfleet project` and `crawlfleet quota`: shares of the fleet, limits, and what is used of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.output import shown

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import DayQuotaView, ProjectView, QuotaView

app = typer.Typer(no_args_is_help=True)

QUOTAS = ("waiting", "running", "cpu", "memory_mb", "pages_per_day", "bytes_per_day")
ProjectName = Annotated[str, typer.Argument(help="The project's name: what tasks say as project_id.")]


def _limit(name: str, what: str) -> Any:
    return typer.Option(name, help=f"{what}; none: no limit.", metavar="NUMBER|none")


@api_command(app, "list", "crawlfleet project list", "crawlfleet project list --json")
def list_projects(call: Call) -> None:
    """List the projects that are described or have open tasks."""
    call.out.listing(
        "projects",
        call.client.projects(),
        ("PROJECT", "WEIGHT", "WAITING", "RUNNING", "CPU", "MEMORY MB", "PAGES TODAY", "BYTES TODAY", "ON FULL"),
        lambda project: (project.name, project.weight, *(_used(project, quota) for quota in QUOTAS), project.on_full),
        empty="no project is described or has open tasks",
        drop=("MEMORY MB", "CPU", "ON FULL", "BYTES TODAY", "WEIGHT"),
    )


@api_command(app, "show", "crawlfleet project show shop", "crawlfleet project show shop --json")
def show(call: Call, name: ProjectName) -> None:
    """Show a project: its weight, its quotas, what is used of them and what is left."""
    project = call.client.project(name)
    if call.out.is_json:
        call.out.json(project)
        return
    described = f"version {project.version}" if project.version else "nobody described it"
    call.out.text(f"{project.name}: weight {project.weight:g}, on full {project.on_full} ({described})")
    _table(call, [project])


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
    max_waiting: Annotated[str | None, _limit("--max-waiting", "Tasks that may wait")] = None,
    max_running: Annotated[str | None, _limit("--max-running", "Tasks that may run at one time")] = None,
    cpu: Annotated[str | None, _limit("--cpu", "Cores that its tasks may reserve")] = None,
    memory_mb: Annotated[str | None, _limit("--memory-mb", "Memory that its tasks may reserve")] = None,
    pages_per_day: Annotated[str | None, _limit("--pages-per-day", "Requests that its tasks may send a day")] = None,
    bytes_per_day: Annotated[str | None, _limit("--bytes-per-day", "Bytes that its tasks may read a day")] = None,
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
    changes: dict[str, Any] = {field: _number(field, text) for field, text in limits.items() if text is not None}
    changes |= {field: value for field, value in (("weight", weight), ("on_full", on_full)) if value is not None}
    if not changes:
        usage_error("name what to set", "crawlfleet project set --help lists it")
    done = call.client.put_project(name, **changes)
    call.out.answer(done, f"project {done.name}: version {done.version}")


@api_command(app, "reset", "crawlfleet project reset shop")
def reset(call: Call, name: ProjectName) -> None:
    """Give a project the defaults again: weight 1, no quotas. Its tasks stay."""
    call.client.reset_project(name)
    call.out.answer({"name": name, "is_reset": True}, f"project {name}: has the defaults again")


def add_to(root: typer.Typer) -> None:
    api_command(root, "quota", "crawlfleet quota", "crawlfleet quota shop --json")(quota)


def quota(
    call: Call, project: Annotated[str | None, typer.Argument(help="Only of this project.", show_default=False)] = None
) -> None:
    """Show the quotas of projects: what is used, what is allowed, what is left."""
    projects = call.client.projects() if project is None else [call.client.project(project)]
    if call.out.is_json:
        call.out.json({"quotas": {one.name: one.quotas for one in projects}})
    else:
        _table(call, projects)


def _table(call: Call, projects: Any) -> None:
    rows = [
        (project.name, name, quota.used, "none" if quota.limit is None else quota.limit, quota.left, _renews(quota))
        for project in projects
        for name in QUOTAS
        for quota in (getattr(project.quotas, name),)
    ]
    columns = ("PROJECT", "QUOTA", "USED", "LIMIT", "LEFT", "RENEWS")
    call.out.table(columns, rows, empty="no project has open tasks or quotas")


def _renews(quota: QuotaView | DayQuotaView) -> object:
    return None if quota.limit is None else getattr(quota, "renews_at", None)


def _used(project: ProjectView, name: str) -> str:
    quota = getattr(project.quotas, name)
    return shown(quota.used) if quota.limit is None else f"{shown(quota.used)} of {shown(quota.limit)}"


def _number(field: str, text: str) -> float | int | None:
    if text == "none":
        return None
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        usage_error(f"--{field.replace('_', '-')}: a number or none, not {text!r}")
