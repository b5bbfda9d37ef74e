"""`crawlfleet cookie-jar`: cookies that crawls keep over executions."""

from __future__ import annotations

from typing import Annotated

import typer

from crawlfleet.cli.command import Call, api_command

app = typer.Typer(no_args_is_help=True)

ProjectOption = Annotated[str | None, typer.Option("--project", help="Of this project.")]


@api_command(app, "list", "crawlfleet cookie-jar list", "crawlfleet cookie-jar list --project spring --json")
def list_jars(call: Call, project: ProjectOption = None) -> None:
    """List cookie jars, without what is in them."""
    call.out.print_listing(
        "cookie_jars",
        call.client.cookie_jars(project),
        ("JAR", "PROJECT", "COOKIES", "HOSTS", "CHANGED"),
        lambda jar: (jar.name, jar.project_id, jar.cookies, ", ".join(jar.hosts), jar.changed_at),
        empty="no cookie jars: tasks ask for one by keep_cookies",
    )


@api_command(app, "remove", "crawlfleet cookie-jar remove login --project spring")
def remove_jar(
    call: Call,
    name: Annotated[str, typer.Argument(help="As `cookie-jar list` shows it.")],
    project: ProjectOption = None,
) -> None:
    """Forget the cookies of a jar: the next crawl that names it begins without any."""
    call.client.remove_cookie_jar(name, project)
    call.out.print_answer({"name": name, "project_id": project or ""}, f"{name}: removed")
