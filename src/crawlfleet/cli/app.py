"""The `crawlfleet` command: the root to which every noun's commands are added.

Each module imports only what its options need; clients, settings and servers are imported inside the commands, so
that `--help` is quick.
"""

from __future__ import annotations

from typing import Annotated

import typer

import crawlfleet
from crawlfleet.cli import (
    cluster,
    config,
    cookie_jar,
    crawl,
    dead_letter,
    demo,
    distribute,
    flow,
    group,
    host,
    init,
    master,
    node,
    product,
    project,
    proxy,
    queue,
    schedule,
    standalone,
    status,
    submit_task,
    task_changes,
    token,
    worker,
)
from crawlfleet.cli.exits import RootGroup

HELP = """Manage a fleet of crawler nodes: submit tasks, see where they run, and why one waits.

\b
Examples:
  crawlfleet demo
  crawlfleet standalone
  crawlfleet task submit echo --params '{"hello": "world"}' --wait

Exit codes: 0 done, 1 failed, 2 wrong option or setting, 3 not found, 4 a task did not complete, 130 interrupted.
"""

app = typer.Typer(
    name="crawlfleet", help=HELP, no_args_is_help=True, pretty_exceptions_enable=False, cls=RootGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip

for single in (demo, standalone, master, worker, distribute, crawl, init, status, submit_task, project):
    single.add_to(app)
app.add_typer(task_changes.app, name="task", help="Submit tasks, watch them, change them, read what they left.")
app.add_typer(group.app, name="group", help="Groups: tasks as one; add, shard, watch, cancel, retry, export, remove.")
app.add_typer(node.app, name="node", help="Nodes: list, show, drain, make ready, set slots, remove.")
app.add_typer(cluster.app, name="cluster", help="Clusters: list, show, what they use, whether they get work.")
app.add_typer(dead_letter.app, name="dead-letter", help="Tasks that were given up: list, group, replay, drop.")
app.add_typer(flow.app, name="flow", help="Graphs of tasks: submit, show, watch, cancel, resume.")
app.add_typer(queue.app, name="queue", help="Queues: list, pause, resume, set their order.")
app.add_typer(project.app, name="project", help="Projects: weights and quotas, and what is used of them.")
app.add_typer(schedule.app, name="schedule", help="Schedules: add, list, show, pause, resume, run, remove, preview.")
app.add_typer(host.app, name="host", help="Target hosts: their budgets, back-offs, and who asks them.")
app.add_typer(product.app, name="product", help="Products that were found in shops: list, show, export.")
app.add_typer(proxy.app, name="proxy", help="Proxies of nodes' pools: how they do.")
app.add_typer(cookie_jar.app, name="cookie-jar", help="Cookies that crawls keep over executions: list, remove.")
app.add_typer(token.app, name="token", help="Tokens: create, list, rotate, revoke.")
app.add_typer(config.app, name="config", help="Settings of a process, and configuration of a cluster at run time.")


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"crawlfleet {crawlfleet.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave."),
    ] = False,
) -> None:
    pass


def main() -> None:
    app()
